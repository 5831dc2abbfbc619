"""Trees over rows: a proof shows its row in its place and nothing else."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validation.record import merkle

ROWS = st.lists(st.binary(max_size=8), min_size=1, max_size=40)


@given(ROWS, st.data())
def test_every_row_is_shown_by_its_proof(rows: list[bytes], data: st.DataObject) -> None:
    leaves = [merkle.leaf(row) for row in rows]
    index = data.draw(st.integers(0, len(rows) - 1))
    siblings = merkle.proof(leaves, index)
    assert merkle.root_from(rows[index], index, len(rows), siblings) == merkle.root(leaves)


@given(ROWS, st.data())
def test_another_row_place_size_or_proof_gives_another_root(rows: list[bytes], data: st.DataObject) -> None:
    leaves = [merkle.leaf(row) for row in rows]
    root = merkle.root(leaves)
    index = data.draw(st.integers(0, len(rows) - 1))
    siblings = merkle.proof(leaves, index)
    assert merkle.root_from(rows[index] + b"x", index, len(rows), siblings) != root
    assert merkle.root_from(rows[index], index, len(rows) + 1, siblings) != root
    assert merkle.root_from(rows[index], index, len(rows), [*siblings, "00" * 32]) is None
    if siblings:
        assert merkle.root_from(rows[index], index, len(rows), siblings[1:]) != root
        flipped = [f"{int(siblings[0][0], 16) ^ 1:x}{siblings[0][1:]}", *siblings[1:]]
        assert merkle.root_from(rows[index], index, len(rows), flipped) != root
    for other in range(len(rows)):
        if rows[other] != rows[index]:
            assert merkle.root_from(rows[index], other, len(rows), merkle.proof(leaves, other)) != root
    for outside in (-1, len(rows)):
        assert merkle.root_from(rows[index], outside, len(rows), siblings) is None


@given(ROWS)
def test_order_counts(rows: list[bytes]) -> None:
    leaves = [merkle.leaf(row) for row in rows]
    if rows != rows[::-1]:
        assert merkle.root(leaves) != merkle.root(leaves[::-1])


def test_nodes_are_no_leaves_and_sizes_are_told_apart() -> None:
    one, two = merkle.leaf(b"one"), merkle.leaf(b"two")
    inner = hashlib.sha256(b"\x01" + one + two).digest()
    assert merkle.root([one, two]) != merkle.root([inner])
    assert merkle.leaf(one + two) != inner


def test_three_rows_by_hand() -> None:
    def digest(data: bytes) -> bytes:
        return hashlib.sha256(data).digest()

    a, b, c = (digest(b"\x00" + x) for x in (b"a", b"b", b"c"))
    top = digest(b"\x01" + digest(b"\x01" + a + b) + c)
    want = digest(b"\x02" + (3).to_bytes(8, "big") + top).hex()
    assert merkle.root([merkle.leaf(x) for x in (b"a", b"b", b"c")]) == want


def test_no_rows_have_no_root() -> None:
    with pytest.raises(ValueError, match="at least one leaf"):
        merkle.root([])
    with pytest.raises(ValueError, match=r"leaf 1, expected 0\.\.0"):
        merkle.proof([merkle.leaf(b"")], 1)
