"""Block selection with tiles of queries and blocks, in place of the baseline's warps.

Scores and the chosen cells follow as `strata.kernels.selection` and `strata.kernels.topk_kernels` say; a tile ends at
the largest number of blocks of its queries. Dots are sums in another order than the baseline's: where two blocks have
nearly the same score, another may be chosen. The dot d of a head q and a key k:

- `simt`: one accumulator from +0, d = fma(q[i], k[i], d) for i = 0 .. 127.
- `sm75`, `sm80`: tensor cores. First each row, of one head or of a key, is multiplied by 2^(14-e) and split into
  hi = fp16(x) and lo = fp16(x - hi), about 22 bits; e is the exponent of its largest finite magnitude (x = f 2^e, f in
  [1/2, 1)), 0 for a row of zeros and at least -100. There are two accumulators from +0: for every 16 dims in order
  c += q_lo.k_hi, c += q_hi.k_lo, and h += q_hi.k_hi; on sm75 each of them is two instructions of 8 dims. lo.lo would
  add less than the split has left out. With e = e_q + e_k - 28 and half = floor(e/2),

      d = ((h + c) 2^half) 2^(e-half)

  every operation rounded to FP32: the powers are normal numbers for all rows. Where e_q - 14 and e_k - 14 are at most
  30 in size, the powers are multiplied one by one and the key's last of all, after the sum over heads, which gives the
  same bits. An infinity or a NaN in a row gives a NaN here, where FP32 may give an infinity or 0.
"""

from __future__ import annotations

import numpy as np

from strata.executors.base import POISON_WORKSPACE, Buffer, Executor, Kernel, StrataError, Witness
from strata.kernels import selection, topk_kernels
from strata.kernels.descriptor import Descriptor, SwitchRule
from strata.kernels.limits import Limits, fp16_products, without_matrix
from strata.kernels.path import Path
from strata.kernels.required import Required
from strata.kernels.selection import BLOCK, DIMS, HEADS, Inputs, Outputs, Result
from strata.switches import SELECT_SIMT, SELECT_TC

THREADS = 256
#: Queries and blocks of a tile, by tier.
TILES = {"simt": (32, 64), "sm75": (16, 128), "sm80": (32, 128)}
#: Dims of a row that a tile has in shared memory at a time: of q and keys, and of keys alone on tensor cores.
SLICE = 32
#: Tiles that a thread block of tensor cores takes one after the other, so that its queries are read once for them, at
#: most, and thread blocks that a launch should have before one takes more than one.
_MOST_TILES = 8
_ENOUGH = 1024

SIMT_SCORER = "block_scores_simt"
SPLITTER = "block_split"
TENSOR_SCORER = "block_scores_tensor"


def shared_bytes(tier: str) -> int:
    """Dynamic shared memory of the scorer's thread block, the sum that the source makes."""
    queries, blocks = TILES[tier]
    if tier == "simt":
        return SLICE * (queries * HEADS + blocks) * 4
    stages = 2 if tier == "sm80" else 1
    return 2 * queries * HEADS * DIMS * 2 + stages * 2 * blocks * SLICE * 2 + 2 * blocks * 4


def kernel(path: Path, entry: str) -> Kernel:
    """One kernel: the scorer of a path's tier, or the splitter, whose source is block_split.cu.

    Raises
    ------
    StrataError
        For a path of another operation, and for an entry that its tier does not have.
    """
    if path.operation != "block_select" or path.tier not in TILES:
        raise StrataError(f"{path.name} cannot run as block_select in one of the tiers {', '.join(TILES)}")
    entries = (SIMT_SCORER,) if path.tier == "simt" else (SPLITTER, TENSOR_SCORER)
    if entry not in entries:
        raise StrataError(f"{path.name} has no kernel {entry!r}: expected {' or '.join(entries)}")
    tier, dims, threads = ("TIER", path.tier_number), ("DIMS", DIMS), ("THREADS", THREADS)
    if entry == SPLITTER:
        return Kernel("block_split", entry, THREADS, 0, (tier, dims, threads))
    queries, blocks = TILES[path.tier]
    size = shared_bytes(path.tier)
    tile = (("HEADS", HEADS), ("QUERIES", queries), ("BLOCKS", blocks), ("SHARED_BYTES", size))
    return Kernel("block_select", entry, THREADS, size, (tier, dims, threads, *tile))


def kernels(path: Path) -> list[Kernel]:
    """Every kernel that a path may launch."""
    own = (SIMT_SCORER,) if path.tier == "simt" else (SPLITTER, TENSOR_SCORER)
    return [*(kernel(path, entry) for entry in own), *topk_kernels.kernels()]


def workspace(executor: Executor, path: Path, inputs: Inputs) -> tuple[Buffer, ...]:
    """Fresh poisoned buffers that a path's launch needs beside inputs and outputs.

    Returns
    -------
    tuple
        Nothing for simt; else the split rows and their exponents, of q and of the keys that are reached: uint16
        [rows, 2, 128] and int32 [rows] each.
    """
    if path.tier == "simt":
        return ()
    made: list[Buffer] = []
    for name, rows in (("q", inputs.queries * HEADS), ("keys", inputs.reach)):
        made += [
            executor.empty((rows, 2, DIMS), np.uint16, poison=POISON_WORKSPACE, name=f"split {name}"),
            executor.empty((rows,), np.int32, poison=POISON_WORKSPACE, name=f"exponents of {name}"),
        ]
    return tuple(made)


def score(
    executor: Executor, path: Path, inputs: Inputs, scores: Buffer, work: tuple[Buffer, ...] = ()
) -> list[Witness]:
    """Queue the scorer of a path. work: as `workspace` made it. Raises StrataError for another operation's path."""
    sizes = (np.int32(inputs.queries), np.int32(inputs.capacity))
    if path.tier == "simt":
        program = kernel(path, SIMT_SCORER)
        queries, blocks = TILES[path.tier]
        grid = (-(-inputs.reach // blocks), -(-inputs.queries // queries), 1)
        return [executor.launch(program, grid, (inputs.q, inputs.keys, inputs.steps, scores, *sizes))]
    splitter, scorer = kernel(path, SPLITTER), kernel(path, TENSOR_SCORER)
    if len(work) != 4:
        raise StrataError(f"{path.name} was given {len(work)} buffers to work in, expected the 4 of its workspace")
    witnesses = []
    for rows, parts, exponents in ((inputs.q, *work[:2]), (inputs.keys, *work[2:])):
        count = exponents.shape[0]
        warps = THREADS // 32
        split = (rows, parts, exponents, np.int32(count))
        witnesses.append(executor.launch(splitter, (-(-count // warps), 1, 1), split))
    return [*witnesses, executor.launch(scorer, _grid(path, inputs), (*work, inputs.steps, scores, *sizes))]


def _grid(path: Path, inputs: Inputs) -> tuple[int, int, int]:
    """Thread blocks of the tensor scorer."""
    queries, blocks = TILES[path.tier]
    across, down = -(-inputs.reach // blocks), -(-inputs.queries // queries)
    each = min(max(across * down // _ENOUGH, 1), _MOST_TILES)
    return -(-across // each), down, 1


def launch(
    executor: Executor,
    path: Path,
    inputs: Inputs,
    made: Outputs,
    work: tuple[Buffer, ...] = (),
    topk: str | None = None,
) -> list[Witness]:
    """Queue scores and the choice of cells. work: as `workspace` made it; topk: see `topk_kernels.choose`."""
    return topk_kernels.follow(executor, lambda: score(executor, path, inputs, made.scores, work), inputs, made, topk)


def run(
    executor: Executor,
    path: Path,
    q: np.ndarray,
    keys: np.ndarray,
    steps: np.ndarray,
    cap: int | None = None,
    reach: int | None = None,
    topk: str | None = None,
) -> Result:
    """Block selection of host arrays, see `selection.prepare`; topk: see `topk_kernels.choose`.

    Raises StrataError for bad ones.
    """
    inputs = selection.prepare(executor, q, keys, steps, cap, reach)
    work = workspace(executor, path, inputs)
    return selection.run(executor, lambda i, made: launch(executor, path, i, made, work, topk), inputs, work)


def _limits(path: Path, entry: str, arch: int) -> Limits:
    """Products stand in the tensor scorer alone."""
    return fp16_products(path) if entry == TENSOR_SCORER else without_matrix()


DESCRIPTOR = Descriptor(
    name="block_select",
    takes="block_select",
    modes=("fp32",),
    tiers=("simt", "sm75", "sm80"),
    kernels=kernels,
    limits=_limits,
    replaces="block_select_warp",
    # The first selects among more cells than a query may choose; the second is for the long top-k.
    required=(
        Required("select_bell", ("context", "queries"), ((4096, 512), (topk_kernels.SHORT_BLOCKS * BLOCK + 4096, 8))),
    ),
    rounded_sums=True,
    requests=(
        SwitchRule(SELECT_SIMT, "1", tier="simt"),
        SwitchRule(SELECT_TC, "1", tier="sm75"),
        SwitchRule(SELECT_TC, "1", tier="sm80"),
    ),
)
