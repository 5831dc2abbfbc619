"""An author's file: elements doubled, by a kernel that gives the right numbers on a processor and has a fault."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from validation.check import Launch, Output, OwnKernel, Roundings, Size, Values, Workspace

THREADS = 32
#: Faults by the number that the kernel takes, and what the check `rules` says of each at its line.
FAULTS = {
    1: ("two threads write an element", r"race: element \d+ of y was written by thread \d+"),
    2: ("a thread reads what another writes", r"(race: )?element \d+ of w (is read and nobody|was (written|read) by)"),
    3: (
        "a block reads what another writes",
        r"(race: )?element 0 of w (is read and nobody wrote it|was (written|read) by)",
    ),
    4: ("a workspace is read before it is written", r"element \d+ of w is read and nobody wrote it"),
    5: ("an output is read before it is written", r"element \d+ of y is read and nobody wrote it"),
    6: ("a shift by the width of its type", r"a shift by"),
    7: ("a signed overflow", r"signed integer overflow"),
    8: ("a float that no int can hold", r"a float that its integer type cannot hold"),
    9: ("a division by zero", r"integer division by zero"),
    10: ("an index behind a local array", r"an index out of the range of a local array"),
    12: ("a shift of an unsigned number by its width", r"a shift by"),
    14: ("a thread reads what others add to", r"race: element 0 of above was (read|written) by"),
    13: ("every block writes an element", r"race: element 0 of y was written by"),
}
#: A local variable that is read and was never written: two builds differ in it.
UNSET = 11


def reference(inputs: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    y = 2 * inputs["x"]
    return {"y": y, "above": np.array([np.count_nonzero(y > 0)], np.int32)}


def with_fault(fault: int) -> OwnKernel:
    """The kernel with a fault of `FAULTS`; with 0 it is right."""
    names = ("x", "y", "w", "above")
    return OwnKernel(
        name="twice",
        source="twice.cu",
        block=THREADS,
        defines={"THREADS": THREADS},
        sizes={"width": Size(1, 1 << 20, tile=THREADS)},
        inputs={"x": Values("float32", ("width",))},
        outputs={"y": Output("float32", ("width",)), "above": Output("int32", (1,), start="zeros")},
        workspaces={"w": Workspace("float32", (lambda sizes: sizes["width"] + 1,))},
        launch=lambda sizes: Launch(
            (-(-sizes["width"] // THREADS), 1, 1), (*names, np.int32(sizes["width"]), np.int32(fault))
        ),
        reference=reference,
        bound=Roundings(1),
    )


twice = with_fault(0)
