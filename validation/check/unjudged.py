"""What a run of `check` does not judge: said in its output, so that a pass is taken for no more than it is."""

from __future__ import annotations

import math
from collections.abc import Sequence

from validation.check.case import OwnCase
from validation.check.load import Loaded
from validation.check.resources import registers, without_room
from validation.check.sizes import shape_of
from validation.run.runner import Job

#: Elements of an array that an index of 32 bits reaches.
_INDICES = 1 << 31


def cards_without_room(loaded: Loaded, cases: Sequence[OwnCase]) -> str:
    """A line on the cards that refuse the shared memory that the launches of some cases ask for; empty where none is
    known to."""
    asked = max((image.shared_bytes for case in cases for image, _ in loaded.launches(case.by_name)), default=0)
    refusing = without_room(asked)
    return (
        f"a block asks for {asked:,} bytes of shared memory: {', '.join(refusing)} refuse the launch"
        if refusing
        else ""
    )


def line(loaded: Loaded, jobs: Sequence[Job], lanes: bool, whole: bool) -> str:
    """What nobody looked at.

    Parameters
    ----------
    loaded : Loaded
        The kernel.
    jobs : sequence of Job
        What was run.
    lanes : bool
        Whether it ran on lanes.
    whole : bool
        Whether lanes find here what C++ leaves undefined.
    """
    kernel, said = loaded.kernel, []
    if lanes:
        fast = {job.case for job in jobs if job.flavor == "fast"} - {job.case for job in jobs if job.flavor != "fast"}
        if fast:
            count = f"the {len(fast)} cases" if len(fast) > 1 else "the case"
            said.append(f"memory in {count} that only the fast build runs, which watches no access")
        own = [job.case for job in jobs if isinstance(job.case, OwnCase)]
        blocks = [image.block for case in own for image, _ in loaded.launches(case.by_name)]
        said.append(f"registers: a thread may have {registers(max(blocks))}, which a card's compiler counts")
        if not whole:
            said.append("what C++ leaves undefined, and local variables that nobody wrote: GCC from 12 on finds them")
    else:
        said.append("races, reads of what nobody wrote and accesses far outside of the arrays, which lanes find")
    largest = {name: size.largest for name, size in kernel.sizes.items()}
    arrays = {**kernel.inputs, **kernel.outputs, **kernel.workspaces}
    far = [name for name, array in arrays.items() if math.prod(shape_of(array.axes, largest)) > _INDICES]
    if far:
        said.append(f"elements from 2^31 on, which the sizes allow {', '.join(far)}")
    if kernel.exact is None and any(output.floating for output in kernel.outputs.values()):
        said.append("the sign of a zero, which `exact` tells")
    return f"not judged: {'; '.join(said)}"
