"""A case: everything that decides the bytes of its inputs, as data with a one-line text form.

The text form, for example `recipe=uniform seed=7 context=64 queries=8 page=4 kv=2 group=12 top=2051`,
is what a run records and what `python -m validation parity --case '...'` takes; a failing verdict
prints it without its usual sizes.
"""

from __future__ import annotations

from dataclasses import dataclass

from validation.core.case import MOST_SEED, CaseError, FieldCase, Fields, Number

#: Blocks of `BLOCK` cells are selected, at most `TOP_K` cells plus what is left of the last block.
TOP_K = 2048
BLOCK = 4
TOP = TOP_K + BLOCK - 1
#: What a recipe may add: `layer` of a capture, `packer` of its pool.
OPTIONS = ("layer", "packer")
#: Cells and KV heads at most.
MOST_CELLS, MOST_KV_HEADS = 1 << 24, 64
FIELDS = Fields(
    {
        "seed": Number(0, MOST_SEED),
        "context": Number(1, MOST_CELLS),
        "queries": Number(0, 1 << 20),
        "page": Number(1, 4096, default=4, name="page_size"),
        "kv": Number(1, MOST_KV_HEADS, default=2, name="n_head_kv"),
        "group": Number(1, 64, default=12),
        "top": Number(1, MOST_CELLS, default=TOP),
    },
    OPTIONS,
    "recipe=uniform seed=1 context=64 queries=8",
)


@dataclass(frozen=True)
class Case(FieldCase):
    """One case; it knows nothing of modes, paths or executors.

    context: cells that the last query sees; queries: how many, at positions context-queries ..
    context-1; page_size: cells of a page; group: query heads of one KV head; top: the most cells a
    query selects; options: what a recipe needs besides, sorted by name.
    """

    fields = FIELDS
    recipe: str
    seed: int
    context: int
    queries: int
    page_size: int = 4
    n_head_kv: int = 2
    group: int = 12
    top: int = TOP
    options: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.queries > self.context:
            raise CaseError(f"case: queries is {self.queries}, expected at most the context of {self.context}")
        FIELDS.check_options(self.options)

    @property
    def n_head(self) -> int:
        return self.n_head_kv * self.group

    def option(self, key: str, default: str) -> str:
        return dict(self.options).get(key, default)
