"""Where kernels run. `open_executor` chooses; importing this package needs nothing but NumPy."""

from __future__ import annotations

from strata.executors.base import Executor, ExecutorUnavailable, StrataError
from strata.imports import said

NAMES = ("auto", "lanes", "cuda")


def open_executor(
    name: str = "auto",
    *,
    rule: str | tuple[int, int] = "sm_90",
    flavor: str = "fast",
    seed: int | None = None,
    threads: int | None = None,
    target: str | None = None,
    limit_s: float | None = None,
) -> Executor:
    """The executor of a name.

    Parameters
    ----------
    name
        `lanes`, `cuda`, or `auto`, which takes the card when CuPy and a device answer, else lanes. Lanes taken by
        `auto` say why there is no card in `instead_of_cuda`.
    rule, flavor, seed, threads, limit_s
        Of lanes, see `LanesExecutor`; a card ignores them.
    target
        What a card's images are compiled for, see `cuda.target.plan`; lanes ignore it.

    Raises
    ------
    StrataError
        For an unknown name.
    ExecutorUnavailable
        When the executor cannot run here.
    """
    if name not in NAMES:
        raise StrataError(f"executor {name!r}: expected one of {', '.join(NAMES)}")
    reason = ""
    if name in ("auto", "cuda"):
        try:
            from strata.executors.cuda import CudaExecutor

            return CudaExecutor(target=target)
        except ExecutorUnavailable as error:
            if name == "cuda":
                raise
            reason = str(error)
        except Exception as error:  # a fault of CuPy, of its parts or of the driver, which is said
            reason = f"the card cannot be opened ({said(error)})"
            if name == "cuda":
                raise ExecutorUnavailable(reason) from error
    from strata.executors.lanes import LanesExecutor

    lanes = LanesExecutor(rule=rule, flavor=flavor, seed=seed, threads=threads, limit_s=limit_s)
    lanes.instead_of_cuda = reason
    return lanes
