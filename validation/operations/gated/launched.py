"""The three operations on elements by name: their operands, how they are run, and what they must give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from strata.executors.base import Argument, Buffer, Executor, Kernel
from strata.kernels import gated, residual, softcap
from strata.kernels.path import Path
from strata.kernels.pointwise import Made
from validation.operations.gated import bound, reference
from validation.operations.gated.inputs import Inputs


@dataclass(frozen=True)
class Elements:
    """One operation.

    Parameters
    ----------
    operands
        Names of its inputs, any of which its output may be written over.
    run
        Runs a path on inputs, over the named operand where there is one.
    kernel
        What a path launches.
    arguments
        What a launch takes: inputs' buffers by name, the output's, a count, and the cap.
    bits
        Every bit that is due, of a mode.
    reference
        FP64, of a mode and finite outputs.
    bound
        Of each output, of a mode.
    """

    operands: tuple[str, ...]
    run: Callable[[Executor, Path, Inputs, str | None], Made]
    kernel: Callable[[Path], Kernel]
    arguments: Callable[[Mapping[str, Buffer], Buffer, int, float], Sequence[Argument]]
    bits: Callable[[str, Inputs], np.ndarray]
    reference: Callable[[str, Inputs], np.ndarray]
    bound: Callable[[str, Inputs], np.ndarray]


ELEMENTS: Mapping[str, Elements] = {
    "gated": Elements(
        ("gate", "up"),
        lambda executor, path, of, over: gated.run(executor, path, of.arrays["gate"], of.arrays["up"], over),
        lambda path: gated.kernel(path.mode),
        lambda of, out, count, cap: (of["gate"], of["up"], out, np.int64(count)),
        lambda mode, of: reference.gated_bits(mode, of.arrays["gate"], of.arrays["up"]),
        lambda mode, of: reference.gated(mode, of.arrays["gate"], of.arrays["up"]),
        lambda mode, of: bound.gated(mode, of.arrays["gate"], of.arrays["up"]),
    ),
    "softcap": Elements(
        ("x",),
        lambda executor, path, of, over: softcap.run(executor, path, of.arrays["x"], of.cap, over),
        lambda path: softcap.kernel(),
        lambda of, out, count, cap: (of["x"], out, np.int64(count), np.float32(cap)),
        lambda mode, of: reference.softcap_bits(of.arrays["x"], of.cap),
        lambda mode, of: reference.softcap(of.arrays["x"], of.cap),
        lambda mode, of: bound.softcap(of.arrays["x"], of.cap),
    ),
    "residual": Elements(
        ("a", "b"),
        lambda executor, path, of, over: residual.run(executor, path, of.arrays["a"], of.arrays["b"], over),
        lambda path: residual.kernel(),
        lambda of, out, count, cap: (of["a"], of["b"], out, np.int64(count)),
        lambda mode, of: reference.residual_bits(of.arrays["a"], of.arrays["b"]),
        lambda mode, of: reference.residual(of.arrays["a"], of.arrays["b"]),
        lambda mode, of: bound.residual(of.arrays["a"], of.arrays["b"]),
    ),
}
