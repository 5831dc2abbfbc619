"""Mutants of what judges dense products: their bound, their model, what is asked of a run, and records of them."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

_FOLDER, _TESTS = "validation/operations/linear", "tests/validation/operations/linear"


def _by_test(name: str, file: str, old: str, new: str, why: str, test: str) -> Mutant:
    return Mutant(f"products-{name}", f"{_FOLDER}/{file}", old, new, why, "linear/*", tests=(f"{_TESTS}/{test}",))


def _by_controls(name: str, file: str, old: str, new: str, why: str) -> Mutant:
    return Mutant(f"products-{name}", f"{_FOLDER}/{file}", old, new, why, "linear/q4_k/sm75", controls=True)


def _bound() -> Iterator[Mutant]:
    test = "test_bound.py"
    yield _by_test(
        "bound-of-half-a-code",
        "bound.py",
        "error = a / (2 * LARGEST) +",
        "error = a / (4 * LARGEST) +",
        "A code may be off by a quarter.",
        test,
    )
    yield _by_test(
        "bound-without-lost-groups",
        "bound.py",
        "np.where(a < _TINY, error + a, error)",
        "error",
        "The bound takes groups without a reciprocal for codes.",
        test,
    )
    yield _by_test(
        "bound-of-what-offsets-leave",
        "bound.py",
        "    total = wide @ mass.T +",
        "    total = wide @ size.T +",
        "What an offset takes away counts for nothing where sums are rounded.",
        test,
    )
    yield _by_test(
        "bound-of-one-turn",
        "bound.py",
        "count = _EACH * -(-width // _TURN) + _ADDED",
        "count = _EACH + _ADDED",
        "The sum of a lane is rounded four times, however long it is.",
        test,
    )
    yield _by_test(
        "bound-beyond-float32",
        "bound.py",
        "    sound = sound & made.sound\n",
        "",
        "Sums that may overflow are held against FP64.",
        test,
    )


def _model() -> Iterator[Mutant]:
    test = "test_model.py"
    yield _by_test(
        "model-rounds-the-second-half",
        "model.py",
        "Fma(v.shape, True)(scale[1::each], dot[1::each], v, out=v)",
        "v += scale[1::each] * dot[1::each]",
        "The model rounds the product of the second scale before it is added.",
        test,
    )
    yield _by_test(
        "model-rounds-the-offset",
        "model.py",
        "Fma(v.shape, True)(-w.offsets.T[part, None, :], total[part], v, out=v)",
        "v -= w.offsets.T[part, None, :] * total[part]",
        "The model rounds what the offset takes away before it is taken.",
        test,
    )
    yield _by_test(
        "model-adds-neighbours",
        "model.py",
        "            lane = lane[:half] + lane[half:]\n",
        "            lane = lane[::2] + lane[1::2]\n",
        "The model adds lanes next to each other.",
        test,
    )
    yield _by_test(
        "model-units-turned",
        "units.py",
        "for part in (scales, sums, q))",
        "for part in (sums, scales, q))",
        "The model has sums of codes where scales are.",
        test,
    )


def _judged() -> Iterator[Mutant]:
    yield _by_controls(
        "baseline-of-any-bits",
        "operation.py",
        "        if trial.old is None or trial.expected is None:\n",
        "        if True:\n",
        "The baseline may have other bits.",
    )
    yield _by_controls(
        "no-parts",
        "operation.py",
        "        if rows == 1:\n",
        "        if True:\n",
        "Nobody asks for rows from one on.",
    )
    yield _by_controls(
        "guards-of-parts",
        "operation.py",
        'if check.name in ("guards", "witness")]',
        'if check.name == "witness"]',
        "Memory beside a buffer is looked at after the first run alone.",
    )
    yield _by_test(
        "whole-rows-alone",
        "operation.py",
        "        rows = np.flatnonzero(limits.sound.any(axis=1))\n",
        "        rows = np.flatnonzero(limits.sound.all(axis=1))\n",
        "FP64 says nothing of a row beside one output that is no number.",
        "test_operation.py",
    )
    yield _by_test(
        "signs-of-nobody",
        "inputs.py",
        "    x[-1] = np.where(first < 0, -np.abs(x[-1]), np.abs(x[-1]))\n",
        "",
        "No row has a product far beyond what codes may change.",
        "test_inputs.py",
    )
    yield _by_test(
        "fuzzed-codes-unseen",
        "fuzz.py",
        "_differing(got.outputs[UNITS], due[UNITS][rows]) if UNITS in due else 0",
        "0",
        "Codes of fuzzed rows may be any.",
        "test_fuzz.py",
    )


def _record() -> Iterator[Mutant]:
    test = "test_record.py"
    yield _by_test(
        "record-of-some-products",
        "record.py",
        'if claim["compared"] != most:',
        'if claim["compared"] > most:',
        "A record may say that a part of the products were compared.",
        test,
    )
    yield _by_test(
        "record-of-wide-bounds",
        "record.py",
        "limits.bound[at][outputs][sound], axes=",
        "1e9 * limits.bound[at][outputs][sound], axes=",
        "A record's rows are held against bounds that nothing exceeds.",
        test,
    )


def mutants() -> Iterator[Mutant]:
    """All of them."""
    for part in (_bound, _model, _judged, _record):
        yield from part()
