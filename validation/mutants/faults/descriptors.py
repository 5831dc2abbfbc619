"""Mutants of what operations and tiers say of themselves, from which the gate, dispatch and the static check follow."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

FUSED, PROMPT = "strata/kernels/expert_fused.py", "strata/kernels/prompt_attention.py"
TIERS, PATHS, SOURCES = "strata/kernels/tiers.py", "strata/kernels/paths.py", "strata/gates/sources.py"


def _fault(name: str, file: str, old: str, new: str, why: str, test: str) -> Mutant:
    return Mutant(f"described-{name}", file, old, new, why, tests=(f"tests/strata/{test}.py",))


def mutants() -> Iterator[Mutant]:
    """Every mutant of this module."""
    yield _fault(
        "record-without-ties",
        FUSED,
        '        "experts_ties": small,\n',
        "",
        "A record of experts needs no values between two codes.",
        "gates/test_policy",
    )
    yield _fault(
        "record-without-the-ragged-size",
        PROMPT,
        "((4096, 512), (1500, 512))",
        "((4096, 512),)",
        "A record of attention needs no ragged size.",
        "gates/test_policy",
    )
    yield _fault(
        "turing-recorded-anywhere",
        TIERS,
        "        (75, 79),\n        (75, 75),\n",
        "        (75, 79),\n        (75, 79),\n",
        "A record of sm75 paths may name a device that is no Turing card.",
        "gates/test_policy",
    )
    yield _fault(
        "fused-without-a-baseline",
        FUSED,
        '    replaces="expert_mmq",\n    required=_required(),\n',
        "",
        "Fused experts replace nothing, so that no record is asked of them.",
        "kernels/test_registry",
    )
    yield _fault(
        "q4-on-turing-unasked",
        PROMPT,
        '    requests=(SwitchRule(PROMPT_Q4_TC, "1", ("q4_0",), "sm75"),),\n',
        "",
        "The tensor-core path of q4_0 serves on Turing although no switch asks for it.",
        "test_dispatch",
    )
    yield _fault(
        "every-spill-on-sm80",
        PROMPT,
        '{("k8v4", "sm80"): 16}.get((path.mode, path.tier), 0)',
        '{"sm80": 16}.get(path.tier, 0)',
        "Every mode may spill registers on sm80.",
        "kernels/test_limits",
    )
    yield _fault(
        "turing-with-cp-async",
        TIERS,
        '(*_ASYNC, "HMMA.16816", "HMMA.884")',
        '("HMMA.16816", "HMMA.884")',
        "Code for Turing may hold cp.async.",
        "kernels/test_limits",
    )
    yield _fault(
        "replacing-before-replaced",
        PATHS,
        "    yield base\n    for path in made:\n        if path.baseline == base.name:\n"
        "            yield from _with_replacing(path, made)\n",
        "    for path in made:\n        if path.baseline == base.name:\n"
        "            yield from _with_replacing(path, made)\n    yield base\n",
        "Plans go through the paths in another order than records do.",
        "kernels/test_paths",
    )
    yield _fault(
        "programs-of-no-gated-path",
        SOURCES,
        "list(operation.kernels(path)) if operation.gated else []",
        "[]",
        "What a record launched is compared with nothing.",
        "gates/test_sources",
    )
