"""Mutants of what lanes keep from launch to launch: stacks, and where a kernel was found. Tests judge them."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

_MACHINE, _EXECUTOR = "strata/executors/lanes/runtime/machine.cpp.hpp", "strata/executors/lanes/executor.py"
_TEST = "tests/strata/executors/lanes/test_stacks.py"


def mutants() -> Iterator[Mutant]:
    """Every mutant of what is kept. Left out: stacks that are mapped anew each time, which changes the time alone."""
    yield Mutant(
        "lanes-stacks-of-a-stopped-launch",
        _MACHINE,
        "for (int i = 0; i < launch->n_spare && !launch->stop->load(); ++i) {",
        "for (int i = 0; i < launch->n_spare; ++i) {",
        "Stacks that a fault was left on serve the next launch.",
        tests=(_TEST,),
    )
    yield Mutant(
        "lanes-own-kernel-looked-up-once",
        _EXECUTOR,
        "        if kernel.directory is None:\n            self._built[kernel] = built\n",
        "        self._built[kernel] = built\n",
        "Who works on a kernel of their own runs the one of before.",
        tests=(_TEST,),
    )
