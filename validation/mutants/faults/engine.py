"""Mutants of the engine: pages that are shared wrongly, rows that read other cells, work that is cut and not put together.
Tests judge them."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

PAGES, KV, FORWARD, RUNNER, SERVED, ATTENDING, DOOR = (
    f"strata/engine/{name}.py" for name in ("pages", "kv", "forward", "runner", "served", "attending", "engine")
)
_TESTS = "tests/strata/engine/test_{}.py"


def _fault(name: str, file: str, old: str, new: str, why: str, *tests: str) -> Mutant:
    return Mutant(f"engine-{name}", file, old, new, why, tests=tuple(map(_TESTS.format, tests)))


def _stopped() -> Iterator[Mutant]:
    """What an interrupt leaves behind."""
    yield _fault(
        "page-table-believed-after-a-stopped-write",
        KV,
        "            self._shown = None  # where the write is stopped, nobody knows what is there\n",
        "",
        "After a write of the page table that was stopped, another sequence reads the first one's pages.",
        "interrupts",
    )
    yield _fault(
        "books-never-mended",
        PAGES,
        "        if not self._open and not self._missed:\n            return",
        "        if self._open or not self._open:\n            return",
        "A change that was stopped half way stays half made.",
        "interrupts",
    )
    yield _fault(
        "restored-pages-shared",
        PAGES,
        "            written.update(table.pages[len(table._chain) :])\n",
        "",
        "Pages that a sequence goes on writing after an interrupt are still shared.",
        "interrupts",
    )
    yield _fault(
        "dead-tables-hold",
        PAGES,
        "        self._missed = True\n",
        "        self._missed = False\n",
        "Pages of a sequence whose end was interrupted are lost.",
        "interrupts",
    )
    yield _fault(
        "chain-goes-on-beside-another-page",
        PAGES,
        "                    table._apart = True\n                    break",
        "                    break",
        "Pages behind a page that the index has of another sequence enter it under that one's number.",
        "interrupts",
    )
    yield _fault(
        "counts-of-one-token-kept",
        FORWARD,
        "        self._unchecked = True\n",
        "        self._unchecked = len(tokens) > 1\n",
        "What a decoded token lost that was stopped is charged to the next one.",
        "interrupts",
    )
    yield _fault(
        "infinite-logits-returned",
        RUNNER,
        "    if lost:\n        raise LostValuesError(",
        "    if lost < 0:\n        raise LostValuesError(",
        "Logits that are no numbers are an answer.",
        "interrupts",
    )
    yield _fault(
        "compiling-not-interrupted",
        RUNNER,
        "pool.shutdown(wait=False, cancel_futures=True)",
        "pool.shutdown(wait=False)",
        "Ctrl-C while kernels compile waits for all of them.",
        "prebuild",
    )


def _pages() -> Iterator[Mutant]:
    """Who holds which page, and what a full page holds."""
    yield _fault(
        "prefix-by-length",
        PAGES,
        "piece = tuple(tokens[gained : gained + self.size])",
        "piece = next((key[1] for key in self._index if key[0] == self._last(table)), ())",
        "A prefix of the same length is taken for the same prefix.",
        "pages",
    )
    yield _fault(
        "prefix-without-its-beginning",
        PAGES,
        "entry = self._index.get((self._last(table), piece))",
        "entry = next((one for key, one in self._index.items() if key[1] == piece), None)",
        "A page is shared by its own tokens, whatever stands before them.",
        "pages",
    )
    yield _fault(
        "last-token-shared",
        PAGES,
        "while gained + self.size < len(tokens):",
        "while gained + self.size <= len(tokens):",
        "The last token of a prompt is not computed again, and its logits are those of another one.",
        "pages",
    )
    yield _fault(
        "stale-page-shared",
        PAGES,
        "        del self._index[self._entry_of.pop(page).key]\n",
        "        self._entry_of.pop(page)\n",
        "A page that was evicted is still shared for the tokens that it held.",
        "pages",
    )
    yield _fault(
        "holders-not-counted",
        PAGES,
        "        self._holders[page] += 1\n",
        "",
        "A shared page is free as soon as one of its sequences ends.",
        "pages",
    )
    yield _fault(
        "kept-page-given-away",
        PAGES,
        "        self._kept.pop(page, None)\n",
        "",
        "A page that is shared again may be evicted under its sequence.",
        "pages",
    )
    yield _fault(
        "newest-evicted",
        PAGES,
        "self._kept.popitem(last=False)",
        "self._kept.popitem(last=True)",
        "The page that was let go last is evicted, and what hangs on it stays.",
        "pages",
    )
    yield _fault(
        "beginning-evicted-first",
        PAGES,
        "        while table.pages:\n            self._let_go(table.pages.pop())\n",
        "        while table.pages:\n            self._let_go(table.pages.pop(0))\n",
        "A prompt's beginning is evicted before its end, which nobody finds then.",
        "pages",
    )
    yield _fault(
        "half-a-page-indexed",
        PAGES,
        "(len(table._chain) + 1) * self.size <= len(table):",
        "len(table._chain) * self.size < len(table):",
        "A page enters the index before it is full.",
        "pages",
    )
    yield _fault(
        "shared-page-cut",
        PAGES,
        "        if length % self.size and whole < len(table._chain):\n",
        "        if False:\n",
        "A sequence that is cut writes over cells that others read.",
        "pages",
    )
    yield _fault(
        "too-few-pages-half-given",
        PAGES,
        "        if wanted > self.available:\n",
        "        if self.available == 0 < wanted:\n",
        "Running out of pages in the middle loses some.",
        "pages",
    )
    yield _fault(
        "numbers-used-again",
        PAGES,
        "            self._numbers += 1\n",
        "            self._numbers = len(self._index) + 1\n",
        "What hung on an evicted page is found behind the page that took its number.",
        "pages",
    )


def _chunks() -> Iterator[Mutant]:
    """What a row of a chunk reads."""
    yield _fault(
        "global-one-cell-short",
        FORWARD,
        "(self._ids_global, self._steps_global, 0) if whole",
        "(self._ids_global, self._steps_local, 0) if whole",
        "Behind the window a global layer sees the prompt's first cells alone.",
        "definition",
    )
    yield _fault(
        "window-one-cell-more",
        FORWARD,
        "self.window = min(model.window, context)",
        "self.window = min(model.window + 1, context)",
        "A local layer sees one cell more.",
        "definition",
    )
    yield _fault(
        "rope-bases-swapped",
        FORWARD,
        "((True, model.rope_base_global), (False, model.rope_base_local))",
        "((False, model.rope_base_global), (True, model.rope_base_local))",
        "Local layers turn by the global base.",
        "definition",
    )
    yield _fault(
        "query-not-rotated",
        FORWARD,
        "        if cache.rotated_k:\n",
        "        if False:\n",
        "Rotated keys meet queries that are not.",
        "definition",
    )
    yield _fault(
        "output-not-turned-back",
        FORWARD,
        "        if cache.rotated_v:\n",
        "        if False:\n",
        "The output of rotated values is not turned back.",
        "definition",
    )
    yield _fault(
        "keys-not-rotated",
        KV,
        "            if turned:\n",
        "            if turned and source is v:\n",
        "Keys are packed as they are where queries are rotated.",
        "definition",
    )
    yield _fault(
        "one-layers-planes",
        KV,
        "(k, v) = self._planes[layer]",
        "(k, v) = self._planes[0]",
        "Every layer reads the keys and values of the first one.",
        "definition",
    )
    yield _fault(
        "reach-of-the-first-row",
        RUNNER,
        "self._forward.body(rows, first + rows)",
        "self._forward.body(rows, first + 1)",
        "Blocks beyond the first row's cells are not launched, and the others miss theirs.",
        "reach",
    )
    yield _fault(
        "recording-too-short",
        RUNNER,
        "        while reach < cells:\n",
        "        while reach * 2 < cells:\n",
        "A recorded token misses its last cells.",
        "reach",
    )
    yield _fault(
        "first-cell-of-the-call",
        RUNNER,
        "rest[start : start + rows], len(table) + start,",
        "rest[start : start + rows], len(table),",
        "Every chunk of a call writes over the first one's cells.",
        "laws",
    )
    yield _fault(
        "head-of-the-first-row",
        RUNNER,
        "self._forward.head(rows - 1, 1, self._logits)",
        "self._forward.head(0, 1, self._logits)",
        "The logits are those of the last chunk's first token.",
        "laws",
    )
    yield _fault(
        "page-table-of-another",
        KV,
        "if self._shown is None or not np.array_equal(wanted, self._shown):",
        "if self._shown is None or len(pages) != int((self._shown >= 0).sum()):",
        "A sequence of as many pages reads and writes those of the one before it.",
        "laws",
    )
    yield _fault(
        "slices-of-another-chunk",
        RUNNER,
        "if turn != self._forward.turn:",
        "if turn == -1:",
        "Logits between whose slices other work ran are those of that work.",
        "engine",
    )


def _whole() -> Iterator[Mutant]:
    """Work that stops in the middle, and what it leaves."""
    yield _fault(
        "interrupted-work-kept",
        RUNNER,
        "        except BaseException:\n",
        "        except Exception:\n",
        "A prompt that is interrupted leaves its pages behind.",
        "engine",
    )
    yield _fault(
        "lost-values-ignored",
        FORWARD,
        "        if found:\n",
        "        if False:\n",
        "Values that no kernel holds go into the answer in silence.",
        "engine",
    )
    yield _fault(
        "lost-values-stay",
        FORWARD,
        "        if self._unchecked:",
        "        if False:",
        "What interrupted work lost is held against the next.",
        "engine",
    )
    yield _fault(
        "cap-left-out",
        FORWARD,
        "        if self._model.softcap is not None:\n",
        "        if False:\n",
        "Logits of a model with a cap are not capped.",
        "engine",
    )
    yield _fault(
        "head-always-tied",
        "strata/engine/weights.py",
        "output = token_embd if model.tied else matrix(model.output)",
        "output = token_embd",
        "The embedding is multiplied where the file has an output of its own.",
        "definition",
    )
    yield _fault(
        "context-not-asked",
        DOOR,
        "        if before + len(found) > self.context:\n",
        "        if len(found) > self.context:\n",
        "A sequence grows beyond the tables of its positions.",
        "engine",
    )
    yield _fault(
        "rule-not-asked",
        SERVED,
        "    if rule != expected:\n",
        "    if rule is None:\n",
        "Lanes of one card's rule are taken for another card.",
        "engine",
    )
    yield _fault(
        "few-rows-on-tensor-cores",
        SERVED,
        "few = rows <= FEW_ROWS and served.baseline is not None",
        "few = rows < 0",
        "A decoded token goes through tiles that are made for prompts.",
        "served",
    )


def mutants() -> Iterator[Mutant]:
    """Every mutant of the engine."""
    yield from _pages()
    yield from _stopped()
    yield from _chunks()
    yield from _whole()
