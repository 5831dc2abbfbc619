"""Device time of launches by CUDA events, without the host's share.

Between two events the card would wait for Python whenever a kernel is shorter than a launch is slow. So the
card is first held by a spinning kernel until everything timed is queued; a timing for which that did not
succeed is thrown away and repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from strata.executors.base import StrataError
from strata.executors.cuda.card import Card

_TRIES = 8
_MARGIN_SECONDS = 1e-4


def time_queued(card: Card, hold: Any, fn: Callable[[], object], reps: int) -> list[float]:
    """Device time of calls of a function.

    Two calls come before the timed ones: the first may compile and load, the second tells how long the host needs.

    Parameters
    ----------
    card
        The card that everything runs on.
    hold
        The loaded kernel of `hold.cu`.
    fn
        A function that queues launches on the null stream and never waits.
    reps
        How many calls are timed.

    Returns
    -------
    list of float
        Milliseconds of each call.

    Raises
    ------
    StrataError
        When `fn` waits for the card.
    LaunchError
        For a fault of a kernel.
    """
    cuda = card.cupy.cuda
    with card.using("running what is timed"), cuda.Stream.null:
        fn()
        card.runtime.deviceSynchronize()
        began = time.perf_counter()
        fn()
        seconds = 2 * (time.perf_counter() - began) + _MARGIN_SECONDS
        card.runtime.deviceSynchronize()
        times = []
        for _ in range(reps):
            milliseconds, seconds = _time_one(card, hold, fn, seconds)
            times.append(milliseconds)
    return times


def _time_one(card: Card, hold: Any, fn: Callable[[], object], seconds: float) -> tuple[float, float]:
    """One timing, and the seconds for which the card had to be held to get it."""
    cuda = card.cupy.cuda
    start, stop = cuda.Event(), cuda.Event()
    for _ in range(_TRIES):
        hold((1, 1, 1), (1, 1, 1), (np.int64(seconds * card.clock_khz * 1000),))
        start.record()
        fn()
        stop.record()
        queued_in_time = not start.done
        stop.synchronize()
        if queued_in_time:
            return float(cuda.get_elapsed_time(start, stop)), seconds
        seconds *= 2
    raise StrataError("the function timed waits for the card itself: time launches only")
