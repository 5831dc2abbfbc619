"""What scores and selects: the kernels of both operations, as a test can put others in their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strata.executors.base import Buffer, Executor, Kernel
from strata.kernels import block_select, block_select_warp, selection, topk_kernels
from strata.kernels.path import Path
from strata.kernels.selection import Result
from validation.core.timed import Prepare
from validation.operations.block_select.inputs import Inputs


@dataclass(frozen=True)
class Scorer:
    """One operation's kernels.

    Parameters
    ----------
    run
        On an executor, of a path: q, keys, steps, the row stride of ids, and by name `reach` and `topk`.
    kernels
        Those that a path may launch.
    launched
        Those that a launch of so many blocks needs, with the top-k kernel that is asked for or None.
    prepare
        What launches on prepared buffers, None where nothing can be timed.
    """

    run: Callable[..., Result]
    kernels: Callable[[Path], Sequence[Kernel]]
    launched: Callable[[Path, int, str | None], Sequence[Kernel]]
    prepare: Prepare | None = None


def _own(module: Any) -> Scorer:
    """The kernels of a module."""

    def launched(path: Path, reach: int, topk: str | None) -> list[Kernel]:
        chosen = topk_kernels.kernel(topk_kernels.choose(reach, topk))
        return [*(one for one in module.kernels(path) if one.entry != chosen.entry), chosen]

    def prepare(executor: Executor, path: Path, inputs: Inputs) -> tuple[Callable[[], object], Buffer]:
        given = selection.prepare(executor, inputs.q, inputs.keys, inputs.steps, inputs.cap)
        made, work = selection.outputs(executor, given), module.workspace(executor, path, given)
        return lambda: module.launch(executor, path, given, made, work), made.ids

    return Scorer(module.run, module.kernels, launched, prepare)


SCORERS: Mapping[str, Scorer] = {
    "block_select_warp": _own(block_select_warp),
    "block_select": _own(block_select),
}
