"""Mutants of the FP32 baseline."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import ROOT, Mutant, removals

DECODE = "strata/kernels/decode_attention.cu"


def mutants() -> Iterator[Mutant]:
    """Every mutant of the baseline; those without a barrier are made from the source as it is."""
    source = (ROOT / DECODE).read_text()
    why = "Without this barrier threads read what others may not have written yet."
    for what, call in (("block-barrier", "__syncthreads();"), ("warp-barrier", "__syncwarp();")):
        pattern = Mutant(f"decode-{what}", DECODE, call, ";", why, "decode_attention/q4_0/simt", ("uniform",))
        yield from removals(pattern, source)
