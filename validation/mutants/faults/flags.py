"""Mutants of what compilers are handed: the flags under which bits are defined."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

IMAGES = "strata/executors/cuda/images.py"
BUILD = "strata/executors/lanes/build.py"

_WHY = {
    "--fmad=false": "On a card a*b+c loses a rounding.",
    "--ftz=false": "On a card subnormals are flushed, if the compiler's default says so.",
    "--prec-div=true": "On a card divisions are approximate, if the compiler's default says so.",
    "--prec-sqrt=true": "On a card square roots are approximate, if the compiler's default says so.",
}


def _device(flag: str, why: str) -> Mutant:
    name = f"flag-dropped-{flag.removeprefix('--').partition('=')[0]}"
    return Mutant(name, IMAGES, f', "{flag}"', "", why, "router/*", controls=True)


def _fault(name: str, file: str, old: str, new: str, why: str) -> Mutant:
    return Mutant(f"flag-{name}", file, old, new, why, "router/*", controls=True)


def mutants() -> Iterator[Mutant]:
    for flag, why in _WHY.items():
        yield _device(flag, why)
    yield _fault(
        "kept-and-not-handed",
        IMAGES,
        '[*words, f"-I{copy}"]',
        '[f"-arch={arch}", *(word for word in words if word.startswith("-D")), f"-I{copy}"]',
        "The table of flags is in every key and record, and NVRTC is given none of them.",
    )
    yield _fault(
        "ftz-appended",
        IMAGES,
        '[*words, f"-I{copy}"]',
        '[*words, "-ftz=true", f"-I{copy}"]',
        "Behind the pinned flags another one says the opposite, as CuPy's own path does.",
    )
    yield _fault(
        "dropped-fp-contract", BUILD, '    "-ffp-contract=off",\n', "", "On lanes a*b+c loses a rounding where it can."
    )
    yield _fault(
        "dropped-no-fast-math", BUILD, '    "-fno-fast-math",\n', "", "Nothing speaks against a compiler's fast math."
    )
    yield _fault(
        "dropped-on-the-way",
        BUILD,
        "words = [*options, *ahead,",
        "words = [*(word for word in options if not word.startswith('-ff')), *ahead,",
        "The C++ compiler is not given the floating-point flags that the key says.",
    )
