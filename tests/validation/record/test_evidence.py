"""What is kept of a case: every byte of its inputs, every row of its output, and no file for longer than the run."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strata.executors.base import StrataError
from strata.kernels.paths import PATHS
from strata.kernels.pool import HEAD_DIM
from tests.validation.stub import StubExecutor, witness
from validation.core import challenge
from validation.operations.attention.pools import Inputs, build
from validation.operations.attention.record import Attention
from validation.operations.kv_pack.case import Case
from validation.record import merkle
from validation.record.evidence import Evidence, Keeper, input_digest

CASE = Case("signed_decades", 5, 20, 2)
PATH = PATHS["prompt_attention/int8/sm75"]
#: Whatever they hold: bits are kept, NaN and -0 among them.
OUT = np.random.default_rng(1).integers(0, 1 << 32, (2, 24, HEAD_DIM), dtype=np.uint32).view(np.float32)
POOLED = ("k", "v", "k_scale", "v_scale", "table")


def changed(inputs: Inputs, name: str, array: np.ndarray) -> Inputs:
    new: dict[str, Any] = {name: array}
    return replace(inputs, pool=replace(inputs.pool, **new)) if name in POOLED else replace(inputs, **new)


def digest(inputs: Inputs) -> str:
    return input_digest(Attention().arrays(inputs))


def array_of(inputs: Inputs, name: str) -> np.ndarray:
    found: np.ndarray = getattr(inputs.pool if name in POOLED else inputs, name)
    return found


@pytest.mark.parametrize("name", ["q", *POOLED, "ids", "steps"])
@pytest.mark.parametrize("place", [0, -1])
def test_every_byte_of_the_inputs_counts(name: str, place: int) -> None:
    inputs = build(CASE, "int8")
    other = array_of(inputs, name).copy()
    other.reshape(-1).view(np.uint8)[place] ^= 1
    assert digest(changed(inputs, name, other)) != digest(inputs)


def test_shape_and_place_of_the_inputs_count_and_their_layout_does_not() -> None:
    inputs = build(CASE, "int8")
    ids = inputs.ids
    assert digest(replace(inputs, ids=ids.reshape(1, -1))) != digest(inputs)
    swapped = replace(inputs.pool, k_scale=inputs.pool.v_scale, v_scale=inputs.pool.k_scale)
    assert digest(replace(inputs, pool=swapped)) != digest(inputs)
    assert digest(replace(inputs, ids=np.asfortranarray(ids))) == digest(inputs)
    assert digest(replace(inputs, ids=ids.astype(">i4"))) == digest(inputs)


def test_the_digest_is_what_it_says() -> None:
    inputs = build(CASE, "q4_0")
    pool = inputs.pool
    said = b""
    for name, array in (("q", inputs.q), ("k", pool.k), ("v", pool.v)):
        said += f"{name} {array.dtype} {'x'.join(str(n) for n in array.shape)}\n".encode() + array.tobytes()
    said += b"k_scale none\nv_scale none\n"
    for name, array in (("table", pool.table), ("ids", inputs.ids), ("steps", inputs.steps)):
        said += f"{name} int32 {'x'.join(str(n) for n in array.shape)}\n".encode() + array.tobytes()
    assert digest(inputs) == hashlib.sha256(said).hexdigest()


def keep(keeper: Keeper, out: np.ndarray = OUT) -> Evidence:
    inputs = build(CASE, "int8")
    keeper.keep(PATH, CASE, inputs, out, [witness(StubExecutor(), (2, 2, 1))], [])
    keeper.ended()
    found = keeper.cases[-1]
    assert found is not None
    return found


def test_a_row_is_one_head_of_one_query(tmp_path: Path) -> None:
    with Keeper(tmp_path) as keeper:
        found = keep(keeper)
        assert found.rows == 48
        nodes = [
            merkle.leaf(challenge.row_bytes(PATH.name, CASE.text(), query * 24 + head, OUT[query, head]))
            for query in range(2)
            for head in range(24)
        ]
        assert found.output == merkle.root(nodes)
        assert found.values().tobytes() == OUT.tobytes()


def test_files_go_with_the_run_however_it_ends(tmp_path: Path) -> None:
    def stopped() -> None:
        with Keeper(tmp_path) as keeper:
            assert keep(keeper).file.is_file()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert list(tmp_path.iterdir()) == []


def test_a_case_without_output_leaves_a_gap_and_no_neighbour_fills_it(tmp_path: Path) -> None:
    with Keeper(tmp_path) as keeper:
        keep(keeper)
        keeper.ended()
        keep(keeper, OUT[::-1])
        first, gap, last = keeper.cases
        assert gap is None
        assert first is not None
        assert last is not None
        assert first.file != last.file
        assert first.values().tobytes() == OUT.tobytes()


@pytest.mark.parametrize("size", [-4, 0])
def test_an_output_that_changed_on_disk_is_found(size: int, tmp_path: Path) -> None:
    with Keeper(tmp_path) as keeper:
        found = keep(keeper)
        data = bytearray(found.file.read_bytes())
        data[1000] ^= 1
        found.file.write_bytes(bytes(data) if size == 0 else bytes(data[:size]))
        with pytest.raises(StrataError, match="changed on disk"):
            found.values()
        found.file.unlink()
        with pytest.raises(StrataError, match="cannot be read"):
            found.values()


def test_a_directory_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StrataError, match="cannot write to the directory"):
        Keeper(tmp_path / "file")
