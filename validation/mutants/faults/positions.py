"""Mutants of rope and its tables, of embeddings, and of visible cells."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Edit, Mutant

ROPE = "strata/kernels/rope.cu"
EMBEDDING = "strata/kernels/embedding.cu"
CELLS = "strata/kernels/visible_cells.cu"
TABLES = "strata/engine/rope_tables.py"


def _rope(name: str, old: str, new: str, why: str, *recipes: str, also: tuple[Edit, ...] = ()) -> Mutant:
    return Mutant(f"rope-{name}", ROPE, old, new, why, "rope/*", recipes, also)


def _embed(name: str, old: str, new: str, why: str, mode: str, *recipes: str) -> Mutant:
    return Mutant(f"embedding-{name}", EMBEDDING, old, new, why, f"embedding/{mode}/*", recipes)


def _cells(name: str, old: str, new: str, why: str, *recipes: str) -> Mutant:
    return Mutant(f"cells-{name}", CELLS, old, new, why, "visible_cells/*", recipes)


def _tables(name: str, old: str, new: str, why: str) -> Mutant:
    return Mutant(f"rope-tables-{name}", TABLES, old, new, why, tests=("tests/strata/engine/test_rope_tables.py",))


_FIRST = "first[i] = __fmaf_rn(low[i], c[i], -__fmul_rn(high[i], s[i]));"
_SECOND = "second[i] = __fmaf_rn(high[i], c[i], __fmul_rn(low[i], s[i]));"
_ANGLE = "const i64 angle = load(steps + row * 4) * half + pair, at"

_ROPE = (
    _rope(
        "not-fused",
        _FIRST,
        "first[i] = __fsub_rn(__fmul_rn(low[i], c[i]), __fmul_rn(high[i], s[i]));",
        "Both products of the first half are rounded.",
        "rope_cancelling",
    ),
    _rope(
        "other-product-rounded",
        _FIRST,
        "first[i] = __fmaf_rn(-high[i], s[i], __fmul_rn(low[i], c[i]));",
        "The product with the cosine is rounded, and that with the sine is not.",
        "rope_cancelling",
    ),
    _rope(
        "second-not-fused",
        _SECOND,
        "second[i] = __fadd_rn(__fmul_rn(high[i], c[i]), __fmul_rn(low[i], s[i]));",
        "Both products of the second half are rounded.",
        "rope_decades",
    ),
    _rope(
        "turned-back",
        _FIRST,
        "first[i] = __fmaf_rn(low[i], c[i], __fmul_rn(high[i], s[i]));",
        "Heads are turned by the negative angle, and mirrored.",
        "rope_angles",
    ),
    _rope(
        "difference-from-zero",
        _FIRST,
        "first[i] = __fmaf_rn(low[i], c[i], __fsub_rn(0.0f, __fmul_rn(high[i], s[i])));",
        "A product of +0 is subtracted as +0, so that -0 becomes +0.",
        "rope_zeros",
    ),
    _rope(
        "flushes-products",
        _SECOND,
        "const float p = __fmul_rn(low[i], s[i]);\n"
        "    second[i] = __fmaf_rn(high[i], c[i], p < 0x1p-126f && p > -0x1p-126f ? 0.0f : p);",
        "Products below the normal range count as nothing.",
        "rope_ladder",
    ),
    _rope(
        "broken-as-zero",
        _FIRST,
        "first[i] = __fmaf_rn(low[i], c[i], -__fmul_rn(high[i], s[i]));\n    if (first[i] != first[i]) first[i] = 0.0f;",
        "A NaN becomes zero.",
        "rope_broken",
    ),
    _rope(
        "row-as-position",
        _ANGLE,
        "const i64 angle = row * half + pair, at",
        "A row's number in the launch is taken for its position.",
        "rope_same",
    ),
    _rope(
        "position-of-another-row",
        _ANGLE,
        "const i64 angle = load(steps + (row ? row - 1 : 0) * 4) * half + pair, at",
        "A row is turned by the position of the one before it.",
        "rope_angles",
    ),
    _rope(
        "heads-one-position-apart",
        _ANGLE,
        "const i64 angle = load(steps + (head % heads && row ? row - 1 : row) * 4) * half + pair, at",
        "Heads behind the first take the position of the row before.",
        "rope_decades",
    ),
    _rope(
        "pairs-of-the-first-four",
        _ANGLE,
        "const i64 angle = load(steps + row * 4) * half + pair % 32, at",
        "Pairs behind the 32nd take the angles of the first ones.",
        "rope_angles",
    ),
    _rope(
        "position-in-32-bits",
        _ANGLE,
        "const i64 angle = static_cast<i32>(load(steps + row * 4) * half) + pair, at",
        "Where a position lies in the tables is counted in 32 bits.",
        "rope_sizes",
    ),
    _rope(
        "place-in-32-bits",
        "at = head * d + pair;",
        "at = static_cast<i32>(head * d) + pair;",
        "Where a head lies is counted in 32 bits.",
        "rope_sizes",
    ),
    _rope(
        "row-past-end",
        "if (row >= rows) return;",
        "if (row > rows) return;",
        "A row behind the last is turned.",
        "rope_decades",
    ),
    _rope(
        "reads-what-it-wrote",
        _FIRST,
        f"{_FIRST}\n    store(out + at + i, first[i]);",
        "The first half is read again after it was written, which shows where the output is the input.",
        "rope_decades",
        also=(Edit(ROPE, _SECOND, _SECOND.replace("low[i]", "load(x + at + i)")),),
    ),
    Mutant(
        "rope-in-place-not-asked",
        "validation/operations/rope/operation.py",
        "outcome = handed(self._run)(trial.executor, trial.path, trial.inputs, True)",
        "outcome = trial.outcome",
        "Nobody asks whether the output may take the place of the input.",
        controls=True,
    ),
)

_TABLES = (
    _tables(
        "no-error",
        "_ERROR, _FIXED = 8 * 2.0**-53, 2.0**-200",
        "_ERROR, _FIXED = 0.0, 0.0",
        "FP64 is taken for exact, so that an entry near the middle of two FP32 may be the wrong one.",
    ),
    _tables(
        "angle-of-fp64",
        "return context.power(context.mpf(base), -context.mpf(pair) / half)",
        "return context.mpf(float(base) ** (-pair / half))",
        "The angle from one position to the next is rounded to FP64.",
    ),
    _tables("few-bits", "FRACTION = 256", "FRACTION = 64", "The fixed point of the factors has 64 bits."),
    _tables(
        "rows-of-the-first-turn",
        "c2, s2 = (part[here.start - first : here.stop - first] for part in fine)",
        "c2, s2 = (part[: len(here)] for part in fine)",
        "A range that begins inside of a turn gets the entries of another position.",
    ),
    _tables(
        "cosine-for-sine",
        "value = context.sin(angle) if sine else context.cos(angle)",
        "value = context.cos(angle)",
        "mpmath decides a sine by the cosine.",
    ),
    _tables(
        "subnormals-by-24-bits",
        "last = max(int(exponent) - 24, -149)",
        "last = int(exponent) - 24",
        "A subnormal is rounded to 24 bits and then once more.",
    ),
    _tables(
        "any-base",
        "if not known or not 1 <= (float(base) if isinstance(base, np.floating) else base) <= _MOST_BASE:",
        "if not known or not (float(base) if isinstance(base, np.floating) else base) <= _MOST_BASE:",
        "A base of zero or below is not refused.",
    ),
)

_EMBEDDING = (
    _embed(
        "values-in-half",
        "v[i] = __fmul_rn(scale[i * Blocks<WEIGHTS>::scales / kGroup], __int2float_rn(code));",
        "v[i] = half_value(half_bits(__fmul_rn(scale[i * Blocks<WEIGHTS>::scales / kGroup], __int2float_rn(code))));",
        "Values are rounded to FP16 before they are multiplied with the factor.",
        "q8_0",
        "embedding_bell",
    ),
    _embed(
        "codes-without-sign",
        "const i8 code = static_cast<i8>(",
        "const i32 code = static_cast<i32>(",
        "Codes have no sign.",
        "q8_0",
        "embedding_bell",
    ),
    _embed(
        "one-scale",
        "scale[i * Blocks<WEIGHTS>::scales / kGroup]",
        "scale[0]",
        "The second half of a group takes the scale of the first.",
        "q6_k",
        "embedding_bell",
    ),
    _embed(
        "offset-added",
        "v[i] = __fsub_rn(v[i], offset);",
        "v[i] = __fadd_rn(v[i], offset);",
        "An offset is added.",
        "q5_1",
        "embedding_bell",
    ),
    _embed(
        "offset-left-out",
        "if constexpr (kHasOffset<WEIGHTS>) v[i]",
        "if constexpr (false) v[i]",
        "An offset is left out.",
        "q4_k",
        "embedding_bell",
    ),
    _embed(
        "halves-crossed",
        "pair[j / 2] >> 16 * (j % 2)",
        "pair[j / 2] >> 16 * (1 - j % 2)",
        "Neighbouring halves change places.",
        "f16",
        "embedding_bell",
    ),
    _embed(
        "one-row-too-many",
        "id < vocab;",
        "id <= vocab;",
        "The id behind the last row is taken for one of the matrix.",
        "q4_0",
        "embedding_outside",
    ),
    _embed(
        "ids-below-zero",
        "id >= 0 && id < vocab",
        "id < vocab",
        "An id below zero is taken for one of the matrix.",
        "q4_0",
        "embedding_outside",
    ),
    _embed(
        "lost-by-group",
        "} else if (group == 0) {",
        "} else {",
        "An id outside is counted once for every 32 values.",
        "q4_0",
        "embedding_outside",
    ),
    _embed(
        "lost-not-counted",
        "atomicAdd(lost, 1);",
        "",
        "Ids outside are not counted.",
        "q4_0",
        "embedding_outside",
    ),
    _embed(
        "zeros-outside",
        "if (known) four = {",
        "if (!known) four = {0.0f, 0.0f, 0.0f, 0.0f};\n    else four = {",
        "An id outside gives a row of zeros.",
        "q4_0",
        "embedding_outside",
    ),
    _embed(
        "place-in-32-bits",
        "blocks + static_cast<i64>(id) * row_bytes",
        "blocks + static_cast<i32>(static_cast<u32>(id) * static_cast<u32>(row_bytes))",
        "Where a row of the matrix lies is counted in 32 bits.",
        "q8_0",
        "embedding_sizes",
    ),
    _embed(
        "flushes",
        "store<float4>(to + i, four);",
        "const auto kept = [](float x) { return x < 0x1p-126f && x > -0x1p-126f ? 0.0f : x; };\n"
        "    four = {kept(four.x), kept(four.y), kept(four.z), kept(four.w)};\n    store<float4>(to + i, four);",
        "What is below the normal range is zero.",
        "q5_0",
        "embedding_faint",
    ),
    _embed(
        "group-past-end",
        "if (row >= rows) return;",
        "if (row > rows) return;",
        "A row behind the last is written.",
        "q5_0",
        "embedding_bell",
    ),
)

_WIDTH = "const i32 width = cells < window ? cells : window;"
_STORE = "if (at < width) store(ids + at, cells - width + static_cast<i32>(at));"

_CELLS = (
    _cells(
        "window-too-small",
        _WIDTH,
        "const i32 width = cells < window ? cells : window - 1;",
        "A full window has a cell too few.",
        "cells_filling",
    ),
    _cells(
        "window-not-cut",
        _WIDTH,
        "const i32 width = window;",
        "A window that is not full reaches to cells below zero.",
        "cells_filling",
    ),
    _cells(
        "own-cell-unseen", "cells = cell + 1;", "cells = cell;", "A query does not see its own cell.", "cells_chunk"
    ),
    _cells(
        "rows-from-zero",
        "load(first) + static_cast<i32>(row)",
        "static_cast<i32>(row)",
        "Every chunk begins at cell 0.",
        "cells_chunk",
    ),
    _cells(
        "first-cells",
        _STORE,
        "if (at < width) store(ids + at, static_cast<i32>(at));",
        "A window has the first cells of the text.",
        "cells_chunk",
    ),
    _cells(
        "falling",
        _STORE,
        "if (at < width) store(ids + at, cells - 1 - static_cast<i32>(at));",
        "Cells stand in falling order.",
        "cells_chunk",
    ),
    _cells(
        "words-behind",
        _STORE,
        "if (at < window) store(ids + at, cells - width + static_cast<i32>(at));",
        "Words behind the cells of a row are written to.",
        "cells_wide",
    ),
    _cells(
        "local-as-global",
        "write_step(steps_local + row * Step::words, cell, width);",
        "write_step(steps_local + row * Step::words, cell, cells);",
        "A local layer's step counts all cells.",
        "cells_chunk",
    ),
    _cells(
        "cell-as-float",
        "load(first) + static_cast<i32>(row), cells",
        "static_cast<i32>(static_cast<float>(load(first) + static_cast<i32>(row))), cells",
        "A cell goes through a float, which loses those beyond 2^24.",
        "cells_beyond",
    ),
    _cells(
        "parts-one-more",
        "(static_cast<i64>(window) + kPart - 1) / kPart;",
        "static_cast<i64>(window) / kPart + 1;",
        "A window of whole parts is taken for one part more.",
        "cells_parts",
    ),
    _cells(
        "ids-in-32-bits",
        "ids_local + row * window;",
        "ids_local + static_cast<i32>(static_cast<u32>(row) * static_cast<u32>(window));",
        "Where a row of ids lies is counted in 32 bits.",
        "cells_far",
    ),
    _cells(
        "unused-words",
        ": i == Step::cells ? cells : 0);",
        ": i == Step::cells ? cells : 1);",
        "Words of steps that are not used are no zeros.",
        "cells_chunk",
    ),
    Mutant(
        "cells-behind-not-counted",
        "validation/operations/visible_cells/written.py",
        "strayed = int((ids.view(np.uint32)[behind] != UNWRITTEN).sum())",
        "strayed = 0",
        "Nobody looks at words behind the cells of a row.",
        controls=True,
    ),
)


def mutants() -> Iterator[Mutant]:
    yield from (*_ROPE, *_TABLES, *_EMBEDDING, *_CELLS)
