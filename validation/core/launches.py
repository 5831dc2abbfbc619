"""What was launched, against what a path is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strata.executors.base import Executor, Witness
from validation.core.verdict import Check, holds


def witnessed(executor: Executor, witnesses: Sequence[Witness], blocks: int | None, images: Mapping[str, str]) -> Check:
    """EXACT when launches happened, on this executor, from the right images, block for block.

    blocks: how many blocks the case needs in all, None where only the launches' own grids are known;
    images: SHA-256 of the image that each entry must have run from; empty when none is known.
    """
    if not witnesses:
        return holds("witness", False, "nothing was launched")
    wrong = []
    for witness in witnesses:
        x, y, z = witness.grid
        if witness.executor != executor.name:
            wrong.append(f"{witness.entry} ran on {witness.executor}, expected {executor.name}")
        if witness.arch.partition(" on ")[0] != executor.arch:
            wrong.append(f"{witness.entry} is an image for {witness.arch}, expected {executor.arch}")
        if len(witness.image) != 64 or set(witness.image) - set("0123456789abcdef"):
            wrong.append(f"{witness.entry} has no image digest")
        if images and images.get(witness.entry) != witness.image:
            wrong.append(f"{witness.entry} ran from image {witness.image[:12]}, expected {images.get(witness.entry)}")
        if witness.blocks_run != x * y * z:
            wrong.append(f"{witness.entry} ran {witness.blocks_run} blocks of a grid of {x * y * z}")
    missing = set(images) - {witness.entry for witness in witnesses}
    if missing:
        wrong.append(f"{sorted(missing)[0]} was not launched")
    total = sum(witness.blocks_run for witness in witnesses)
    if blocks is not None and total != blocks:
        wrong.append(f"{total} blocks ran, expected {blocks}")
    launches = [
        {"entry": w.entry, "arch": w.arch, "image": w.image, "grid": list(w.grid), "blocks": w.blocks_run}
        for w in witnesses
    ]
    return holds("witness", not wrong, "; ".join(wrong[:1]), {"launches": launches})
