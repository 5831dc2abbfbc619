"""Block selection on lanes: the bits of every scorer, lengths at every edge, and what is left unwritten."""

from __future__ import annotations

import numpy as np
import pytest

from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels import block_select, block_select_warp, selection, topk_kernels
from strata.kernels.paths import PATHS
from strata.kernels.selection import Result, steps_of, strayed
from tests.strata.kernels.selection_model import SCORERS, chosen, drawn, run, score_bits

#: Block and fraction bits published for sm_80 to sm_89, and for sm_75 the first of two readings.
RULE_8_24 = (8, 24)
TENSOR = [name for name in SCORERS if not name.endswith("/simt")]


def assert_right(got: Result, bits: np.ndarray, steps: np.ndarray) -> None:
    """Scores are those bits, cells follow from them, and nothing else is written."""
    assert got.guards_ok
    blocks = steps[:, 2]
    has = np.arange(got.scores.shape[1])[None, :] < blocks[:, None]
    known = has[:, : bits.shape[1]]
    assert np.array_equal(got.scores.view(np.uint32)[:, : bits.shape[1]][known], bits[known])
    assert strayed(got.scores, blocks) == 0
    assert np.array_equal(got.ids, chosen(got.scores, steps, got.ids.shape[1]))


@pytest.mark.parametrize("name", SCORERS)
@pytest.mark.parametrize("exponents", [(0, 0), (-4, 4), (-120, 100)])
def test_bits_of_scores(checked: LanesExecutor, name: str, exponents: tuple[int, int]) -> None:
    """A query more than a tile has, and blocks of two tiles and a piece; rows of all sizes."""
    q, keys = drawn(1, 33, 150, exponents)
    steps = steps_of([600 - 3 * i for i in range(33)], 64)
    assert_right(run(checked, name, q, keys, steps), score_bits(name, q, keys, "sm_90"), steps)


@pytest.mark.parametrize("name", TENSOR)
def test_bits_by_another_rule(name: str) -> None:
    q, keys = drawn(2, 4, 20)
    got = run(LanesExecutor(rule=RULE_8_24, flavor="checked"), name, q, keys, steps_of([80] * 4, 8))
    bits = score_bits(name, q, keys, "sm_80")
    assert np.array_equal(got.scores.view(np.uint32), bits)
    assert not np.array_equal(bits, score_bits(name, q, keys, "sm_90"))


@pytest.mark.parametrize("name", SCORERS)
def test_bits_where_numbers_end(checked: LanesExecutor, name: str) -> None:
    """Infinities, NaN, zeros of both signs, subnormals and the largest floats, in q and in keys."""
    q, keys = drawn(3, 5, 24)
    odd = np.array([np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 1e-45, -1e-40, 0.0, -0.0], np.float32)
    for rows in (q.reshape(-1, 128), keys):
        for i, value in enumerate(odd):
            rows[i, 7 * i] = value
    q[3], q[4], keys[20], keys[21], keys[22] = 0.0, -0.0, -0.0, 3e38, 1e-44
    steps = steps_of([96, 97, 98, 99, 96], 20)
    got = run(checked, name, q, keys, steps)
    bits = score_bits(name, q, keys, "sm_90")
    assert np.isnan(bits.view(np.float32)).any()
    assert_right(got, bits, steps)


@pytest.mark.parametrize("name", SCORERS)
def test_a_negative_dot_counts_as_zero_in_its_head_alone(checked: LanesExecutor, name: str) -> None:
    q, keys = np.zeros((1, 4, 128), np.float32), np.zeros((4, 128), np.float32)
    q[0, 0, 5], q[0, 1, 17], q[0, 2, 70], q[0, 3, 127] = 1, 2, 4, 8
    keys[0, [5, 17, 70, 127]] = 1
    keys[1, [5, 17, 70, 127]] = 1, -1, 1, -1
    keys[2, [5, 17, 70, 127]] = -1
    got = run(checked, name, q, keys, steps_of([16]))
    assert got.scores[0].tolist() == [15, 5, 0, 0]
    assert not np.signbit(got.scores).any()


@pytest.mark.parametrize("name", SCORERS)
def test_lengths_at_every_edge_and_in_any_order(checked: LanesExecutor, name: str) -> None:
    """The last query of a tile has no block, or all but it have none."""
    edges = [0, 1, 3, 4, 5, 252, 255, 256, 257, 259, 260, 508, 511, 512, 513, 516, 520, 521]
    q, keys = drawn(4, 40, 131)
    bits = score_bits(name, q, keys, "sm_90")
    for cells in ([*edges, *edges[::-1], 524, 0, 0, 0], [0] * 31 + [524] + [0] * 8, [2] * 40):
        steps = steps_of(cells, 40)
        assert_right(run(checked, name, q, keys, steps), bits, steps)


@pytest.mark.parametrize("name", SCORERS)
def test_neither_reach_nor_room_changes_a_bit(checked: LanesExecutor, name: str) -> None:
    """Rows of odd and of even length, with NaN behind what is reached."""
    q, keys = drawn(5, 3, 70)
    steps = steps_of([280, 13, 271], 64)
    want = run(checked, name, q, keys, steps, topk="long")
    for room in (301, 400):
        roomy = np.full((room, 128), np.nan, np.float32)
        roomy[:70] = keys
        for reach in (70, 150, room):
            got = run(checked, name, q, roomy, steps, cap=70, reach=reach, topk="short")
            assert_right(got, want.scores.view(np.uint32), steps)
            assert np.array_equal(got.ids[:, :67], want.ids)


@pytest.mark.parametrize("name", SCORERS)
def test_the_top_k_that_is_asked_for_runs(checked: LanesExecutor, name: str) -> None:
    q, keys = drawn(5, 1, 3)
    for topk in topk_kernels.KERNELS:
        got = run(checked, name, q, keys, steps_of([12], 4), topk=topk)
        assert got.witnesses[-1].image == checked.build(topk_kernels.kernel(topk)).digest


@pytest.mark.parametrize("name", TENSOR)
def test_powers_of_two_outside_of_the_usual_ones_change_no_other_bit(checked: LanesExecutor, name: str) -> None:
    """The kernel has two ways to multiply by powers of two, which must meet."""
    q, keys = drawn(6, 8, 128)
    steps = steps_of([512] * 8)
    usual = run(checked, name, q, keys, steps)
    for up, down in ((0, 45), (45, 0), (-60, 50), (60, -45)):
        got = run(checked, name, np.ldexp(q, up), np.ldexp(keys, down), steps)
        assert np.array_equal(got.scores, np.ldexp(usual.scores, up + down))
        assert np.array_equal(got.ids, usual.ids)


@pytest.mark.parametrize("name", TENSOR)
def test_a_thread_block_that_takes_several_tiles(
    checked: LanesExecutor, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five tiles in two thread blocks, of queries with one to five."""
    q, keys = drawn(7, 6, 600)
    steps = steps_of([2400, 100, 700, 1200, 1600, 2300], 64)
    want = run(checked, name, q, keys, steps)
    monkeypatch.setattr(block_select, "_ENOUGH", 1)
    monkeypatch.setattr(block_select, "_MOST_TILES", 3)
    got = run(checked, name, q, keys, steps)
    assert got.witnesses[-2].grid[0] == 2 < want.witnesses[-2].grid[0] == 5
    assert np.array_equal(got.scores.view(np.uint32), want.scores.view(np.uint32))


def test_grids_of_the_largest_launch_are_within_what_a_card_takes() -> None:
    """A card takes 2^31 - 1 thread blocks across and 65,535 down."""

    class Recorder:
        def __init__(self) -> None:
            self.grids: list[tuple[int, int, int]] = []

        def launch(self, kernel: object, grid: tuple[int, int, int], args: object) -> None:
            self.grids.append(grid)

    queries, blocks = selection.MOST_QUERIES, selection.MOST_BLOCKS
    largest = selection.Inputs(None, None, None, queries, blocks, 1, blocks)  # type: ignore[arg-type]
    recorder = Recorder()
    block_select_warp.score(recorder, PATHS[SCORERS[0]], largest, None)  # type: ignore[arg-type]
    block_select.score(recorder, PATHS[SCORERS[1]], largest, None)  # type: ignore[arg-type]
    assert len(recorder.grids) == 2
    assert all(across < 1 << 31 and down <= 65_535 and deep == 1 for across, down, deep in recorder.grids)


def test_another_operation_s_path_is_refused(checked: LanesExecutor) -> None:
    q, keys = drawn(8, 1, 1)
    for module, name in ((block_select, SCORERS[0]), (block_select_warp, SCORERS[1])):
        with pytest.raises(StrataError, match=f"{name} cannot run as {module.DESCRIPTOR.name}"):
            module.run(checked, PATHS[name], q, keys, steps_of([4]))
    with pytest.raises(StrataError, match="block_select/fp32/simt has no kernel 'block_split': expected block_scores_"):
        block_select.kernel(PATHS[SCORERS[1]], "block_split")
    inputs = selection.prepare(checked, q, keys, steps_of([4]))
    with pytest.raises(StrataError, match="was given 0 buffers to work in, expected the 4 of its workspace"):
        block_select.launch(checked, PATHS[TENSOR[0]], inputs, selection.outputs(checked, inputs))


@pytest.mark.parametrize("name", SCORERS)
def test_grid_and_top_k_follow_the_reach_and_never_the_capacity(checked: LanesExecutor, name: str) -> None:
    q, keys = drawn(9, 1, topk_kernels.SHORT_BLOCKS + 300)
    steps = steps_of([283], 100)
    little, much = (run(checked, name, q, rows, steps) for rows in (keys[:70], keys))
    assert [(one.image, one.grid) for one in little.witnesses[-2:]] == [
        (one.image, one.grid) for one in much.witnesses[-2:]
    ]
    assert much.witnesses[-1].image == checked.build(topk_kernels.kernel("short")).digest
    assert np.array_equal(little.ids, much.ids)


@pytest.mark.parametrize("name", SCORERS)
@pytest.mark.parametrize(
    ("heads", "blocks"), [((95,) * 4, -40), ((115, 115, 115, 0), -12), ((0, 115, 0, 115), -90), ((-66,) * 4, -66)]
)
def test_bits_where_one_side_is_large_and_the_other_small(
    checked: LanesExecutor, name: str, heads: tuple[int, ...], blocks: int
) -> None:
    """Scales beyond the usual ones, of all heads and of some: found by planting faults in the choice of scales."""
    q, keys = drawn(11, 4, 24)
    q, keys = np.ldexp(q, np.array(heads, np.int32)[None, :, None]), np.ldexp(keys, np.int32(blocks))
    steps = steps_of([96] * 4, 20)
    assert_right(run(checked, name, q, keys, steps), score_bits(name, q, keys, "sm_90"), steps)
