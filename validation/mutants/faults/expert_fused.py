"""Mutants of the fused product: fragments from blocks, stages, SwiGLU's results on their way, rows of down. Its sums are those
of `expert_sums`."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import ROOT, Edit, Mutant, removals

KERNELS = "strata/kernels"
FUSED = f"{KERNELS}/expert_fused.cu"
FRAGMENTS = f"{KERNELS}/include/expert_fragments.cuh"


def _path(mode: str, tier: str = "sm75") -> str:
    return f"expert_fused/{mode}/{tier}"


#: PAIRED order and one scale, with the nibbles of IQ4_NL; natural order and two scales, with Q2_0.
ONE, TWO = _path("iq3_xxs/iq4_nl"), _path("iq2_xs/q2_0", "sm80")
IQ3_S, IQ4_XS, IQ2_XXS, IQ2_S = (_path(f"{name}/q2_0") for name in ("iq3_s", "iq4_xs", "iq2_xxs", "iq2_s"))


def _sources() -> tuple[str, ...]:
    """The kernel and the headers that are its own."""
    headers = sorted(file.name for file in (ROOT / KERNELS / "include").glob("expert_*.cuh"))
    return (FUSED, *(f"{KERNELS}/include/{name}" for name in headers if name != "expert_formats.cuh"))


def source_of(text: str) -> str:
    """Which of the kernel's sources has `text`; the kernel itself when none has, for a test to say so."""
    return next((name for name in _sources() if text in (ROOT / name).read_text()), FUSED)


def edit(old: str, new: str) -> Edit:
    return Edit(source_of(old), old, new)


def _fault(name: str, old: str, new: str, why: str, *recipes: str, path: str = ONE) -> Mutant:
    return Mutant(f"fused-{name}", source_of(old), old, new, why, path, recipes or ("experts_plain",))


def _tested(name: str, old: str, new: str, why: str, tests: tuple[str, ...]) -> Mutant:
    return Mutant(f"fused-{name}", source_of(old), old, new, why, tests=tests)


def _fragment(name: str, old: str, new: str, why: str, path: str, *recipes: str) -> Mutant:
    return Mutant(f"fragment-{name}", FRAGMENTS, old, new, why, path, recipes or ("experts_plain",))


#: Block scales and sums of down that are infinite, which no recipe draws.
INFINITE = ("tests/strata/kernels/test_expert_infinities.py",)

_FUSED = (
    _fault(
        "expert-of-first-tile",
        "expert = load(tiles + 2 * tile), first =",
        "expert = load(tiles), first =",
        "Every tile of a launch takes the weights of the first tile's expert.",
        "experts_decades",
    ),
    _fault(
        "column-past-end",
        "rows = load(offsets + expert + 1) - first;",
        "rows = load(offsets + expert + 1) - first + 1;",
        "The row behind a group belongs to it: another expert's, or none.",
        "experts_edges",
    ),
    _fault(
        "last-column-missing",
        "rows = load(offsets + expert + 1) - first;",
        "rows = load(offsets + expert + 1) - first - (load(offsets + expert + 1) - first > 1);",
        "The last row of a group is not computed.",
        "experts_edges",
    ),
    _fault(
        "columns-not-cut",
        "columns = next.rows < COLUMNS ? next.rows : COLUMNS;",
        "columns = COLUMNS;",
        "Every tile has all its columns, whoever's rows they are.",
    ),
    _fault(
        "rank-for-token",
        "return load(pairs + first + column) / top; });",
        "return load(pairs + first + column) % top; });",
        "Rank is taken for the token.",
    ),
    _fault(
        "pair-for-token",
        "return load(pairs + first + column) / top; });",
        "return load(pairs + first + column); });",
        "The pair is taken for the token, past the end of the tokens.",
    ),
    _fault(
        "one-item",
        "item < items; item += static_cast<int>(gridDim.x)) {",
        "item < items && item < static_cast<int>(gridDim.x); item += static_cast<int>(gridDim.x)) {",
        "Each block of threads takes one item alone.",
        "experts_decades",
    ),
    _fault(
        "later-items-of-first",
        "if (kAhead && later < items) next.find(tiles, first_tile + later / weight_blocks);",
        "",
        "Later items of a block of threads, of down, have the expert and the rows of the first.",
        "experts_decades",
    ),
    _fault(
        "later-items-of-gate",
        "if (!kAhead) next.find(tiles, first_tile + later / weight_blocks);",
        "",
        "Later items of a block of threads, of gate and up, have the expert and the rows of the first.",
        "experts_decades",
    ),
    _fault(
        "columns-unset",
        "for (int i = 16 * thread; i < STAGES * kStage; i += 16 * kThreads) staged.st<uint4>(i, uint4{0, 0, 0, 0});",
        ";",
        "Columns that loads run ahead into are what shared memory held before.",
        path=TWO,
    ),
    _fault(
        "later-blobs-of-first",
        "\n      next.look_up(offsets, blobs);\n",
        "\n",
        "Later items of a block of threads have the weights and the end of the first.",
        "experts_decades",
    ),
    _fault(
        "later-item-too-early",
        "const int later = item + static_cast<int>(gridDim.x);",
        "const int later = item + 1;",
        "What is read ahead is the neighbour's work.",
        "experts_decades",
    ),
    _fault(
        "items-of-all",
        "(load(tile_of + end) - first_tile) * weight_blocks;",
        "(load(tile_of + end) - first_tile - (end - begin > 1)) * weight_blocks;",
        "The last tile of a launch is left out.",
        "experts_decades",
    ),
    _fault(
        "k-last-stage-dropped",
        "for (int stage = 0; stage < stages; ++stage) {",
        "for (int stage = 0; stage + 1 < stages; ++stage) {",
        "The last 64 values of K are left out.",
    ),
    _fault(
        "last-block-of-k",
        "  for (int i = 0; i < 2; ++i) {\n    if constexpr (kScales == 1) {",
        "  for (int i = 0; i < 1; ++i) {\n    if constexpr (kScales == 1) {",
        "Every second 32 values of K are left out.",
    ),
    _fault(
        "k8-halves-swapped",
        "a[i][m][r] = codes[0], a[i][m][2 + r] = codes[1];",
        "a[i][m][r] = codes[1], a[i][m][2 + r] = codes[0];",
        "The two halves of K of a fragment change places.",
    ),
    _fault(
        "accumulator-kept",
        "for (int e = 0; e < 4; ++e) acc[m][j][e] = 0.0f;",
        "for (int e = 0; e < 4; ++e) acc[m][j][e] = item == static_cast<int>(blockIdx.x) ? 0.0f : 1e-5f;",
        "Sums of later items do not begin at zero.",
    ),
    _fault(
        "codes-of-packed-units",
        "kept((lane & 7) * kUnitBytes + (lane >> 3) * 16)",
        "kept((lane & 7) * kUnitValues + (lane >> 3) * 16)",
        "Codes of a column are looked for as if units had their codes alone.",
    ),
    _fault(
        "tail-past-end",
        "row_of(column < columns ? column : columns - 1)",
        "row_of(column)",
        "Columns behind the last read the list of pairs past its end.",
    ),
    _fault(
        "unit-offset-of-other-width",
        "row * static_cast<u32>(k / kUnitValues * unit)",
        "row * static_cast<u32>(k / kUnitValues * unit - unit)",
        "Rows of activations are taken for a unit shorter.",
    ),
    _fault(
        "scales-of-stage-0",
        "stage % STAGES * kStage + scale_at",
        "scale_at",
        "Scales of all stages are read in the place of the first.",
    ),
    _fault(
        "h-amax-of-64",
        "warp_max<8>(largest);",
        "warp_max<16>(largest);",
        "h has one scale for 64 values.",
    ),
    _fault(
        "h-row-of-other",
        "u8* unit = corner + (start + column[i]) * row_bytes + block[i] / 2 * kUnitBytes;",
        "u8* unit = corner + (start + column[i]) * row_bytes + (block[i] / 2 ^ 1) * kUnitBytes;",
        "Neighbouring units of h change places, out of the row at its end.",
    ),
    _fault(
        "h-of-first-pass",
        "acc[i / 4][start / 8 + j][i % 4]",
        "acc[i / 4][j][i % 4]",
        "The second half of the columns gets the sums of the first.",
        "experts_edges",
    ),
    _fault(
        "h-half-lost",
        "store<u32>(unit + block[i] % 2 * kActivationBlock + part,",
        "store<u32>(unit + part,",
        "Codes of the second block of a unit of h are written over the first.",
    ),
    _fault(
        "h-lost-uncounted",
        "if (!scale[i].finite) atomicAdd(status + 1, 1);",
        "",
        "Blocks of h that are not finite are not counted.",
        "experts_broken",
    ),
    _fault(
        "h-features-past-end",
        "if (base + 4 * i + (me.lane >> 3) >= here * kBlocks || feature + at >= ff) continue;",
        "if (base + 4 * i + (me.lane >> 3) >= here * kBlocks) continue;",
        "Blocks behind the last feature are written into the next row.",
    ),
    _fault(
        "gate-up-swapped",
        "i / 2 % 2 * kFeatures",
        "(1 - i / 2 % 2) * kFeatures",
        "Gate and up are swapped.",
    ),
    _fault(
        "up-of-neighbour",
        "up[4 * i] = u.x, up[4 * i + 1] = u.y,",
        "up[4 * i] = u.y, up[4 * i + 1] = u.x,",
        "up is that of the neighbouring feature.",
    ),
    _fault(
        "row-to-slot",
        "static_cast<u64>(static_cast<u32>(pairs.ld(column))) * static_cast<u32>(n);",
        "static_cast<u64>(static_cast<u32>(column)) * static_cast<u32>(n);",
        "Rows of down are written where their tile stands, not to their pair.",
    ),
    _fault(
        "out-offset-in-16-bits",
        "static_cast<u64>(static_cast<u32>(pairs.ld(column))) * static_cast<u32>(n);",
        "static_cast<u16>(pairs.ld(column) * n);",
        "The offset of an output row is kept in 16 bits: a large one falls among the first rows.",
        "experts_many",
    ),
    _fault(
        "down-last-rows-unwritten",
        "        store(here + 8 * i, v);\n",
        "        if (i + 1 < 2 * FRAGMENTS) store(here + 8 * i, v);\n",
        "The last eight of a warp's rows are not written.",
    ),
    _fault(
        "down-lost-uncounted",
        "atomicAdd(status + 2, lost);",
        "",
        "Outputs that are not finite are not counted.",
        "experts_broken",
    ),
    _tested(
        "down-infinity-unseen",
        "probe = __fmaf_rn(v, 0.0f, probe);",
        "probe = v != v ? v : probe;",
        "Outputs that are infinite are looked for only beside a NaN.",
        INFINITE,
    ),
    _fault(
        "down-probe-of-last",
        "probe = __fmaf_rn(v, 0.0f, probe);",
        "probe = __fmul_rn(v, 0.0f);",
        "Only a thread's last output says whether it lost some.",
        "experts_broken",
    ),
    _fault(
        "down-lost-of-all-columns",
        "if (8 * j + 2 * me.t + c < columns) lost +=",
        "lost +=",
        "Columns behind the last, the last row's once more, are counted with what is not finite.",
        "experts_broken",
    ),
    _fault(
        "trace-of-up",
        "float4{gate[4 * i], gate[4 * i + 1], gate[4 * i + 2], gate[4 * i + 3]}",
        "float4{up[4 * i], up[4 * i + 1], up[4 * i + 2], up[4 * i + 3]}",
        "The trace of gate is that of up.",
    ),
    _fault(
        "down-first-fragment",
        "const float v = acc[i / 2][j][2 * (i % 2) + c];",
        "const float v = acc[i / 2][j][2 - 2 * (i % 2) + c];",
        "The two halves of a fragment's rows change places.",
    ),
    Mutant(
        "fused-wide-lost-uncounted",
        source_of("if (!scale[i].finite) atomicAdd(status + 1, 1);"),
        "if (!scale[i].finite) atomicAdd(status + 1, 1);",
        "if (COLUMNS == 64 && !scale[i].finite) atomicAdd(status + 1, 1);",
        "Tiles of 128 columns count neither blocks of h nor outputs that are not finite.",
        TWO,
        ("experts_broken",),
        also=(
            edit(
                "atomicAdd(status + 2, lost);",
                "if (COLUMNS == 64) atomicAdd(status + 2, lost);",
            ),
        ),
    ),
    _fault(
        "out-offset-in-32-bits",
        "static_cast<u64>(static_cast<u32>(pairs.ld(column))) * static_cast<u32>(n);",
        "static_cast<i32>(static_cast<u32>(pairs.ld(column)) * static_cast<u32>(n));",
        "The offset of an output row is kept in 32 bits: from 2^31 values on rows are written elsewhere.",
        "experts_far",
    ),
    _fault(
        "out-offset-unsigned",
        "static_cast<u64>(static_cast<u32>(pairs.ld(column))) * static_cast<u32>(n);",
        "static_cast<u32>(pairs.ld(column)) * static_cast<u32>(n);",
        "The offset of an output row is kept in 32 bits without a sign: from 2^32 values on rows fall among the first.",
        "experts_far",
    ),
    _fault(
        "unit-offset-in-32-bits",
        "const u8* piece = here + static_cast<u64>(from[i]) * 16;",
        "const u8* piece = here + static_cast<u32>(from[i] * 16);",
        "The offset of a row of activations is kept in 32 bits: rows far behind are taken from the first ones.",
        "experts_far",
    ),
    _fault(
        "stage-before-last-free",
        "latest\n      start(stage + STAGES - 1);",
        "latest\n      start(stage + STAGES);",
        "A stage is brought where another is still read.",
        path=TWO,
    ),
    _fault(
        "wait-one-short",
        "cp_async_wait<STAGES - 2>();",
        "cp_async_wait<STAGES - 1>();",
        "A stage is read while its copy may be under way.",
        path=TWO,
    ),
    _fault(
        "commit-missing",
        "      if (stage < stages) incoming.start(stage, stage_at(stage));\n#if TIER >= 80\n      cp_async_commit();\n#endif",
        "      if (stage < stages) {\n        incoming.start(stage, stage_at(stage));\n#if TIER >= 80\n        cp_async_commit();\n#endif\n      }",
        "Behind the last stage no group is committed, so that the last ones are not waited for.",
        path=TWO,
    ),
)

_FRAGMENTS = (
    _fragment(
        "parity-zero",
        "seven | static_cast<u32>(__popc(seven) & 1) << 7;",
        "seven;",
        "The eighth sign of every eight values is read as 0.",
        IQ2_XXS,
    ),
    _fragment(
        "iq3-parity-zero",
        "const u32 eight = seven + (static_cast<u32>(__popc(seven)) << 15);",
        "const u32 eight = seven;",
        "The eighth sign of every eight values is read as 0.",
        ONE,
    ),
    _fragment(
        "iq3-signs-of-group-0",
        "rotated(a, (8 - 7 * t) & 31) & 0x7f00u",
        "rotated(a, 8) & 0x7f00u",
        "All groups of a part take the signs of the first.",
        ONE,
    ),
    _fragment(
        "iq3-lost-one",
        "scale[0] = scaled(f.h[0], __int2float_rn(static_cast<int>(a >> 28) * 2 + 1) * 0.25f);",
        "scale[0] = scaled(f.h[0], __int2float_rn(static_cast<int>(a >> 28) * 2) * 0.25f);",
        "The + 1 of 2 s + 1 is lost.",
        ONE,
    ),
    _fragment(
        "iq3-mask-removed",
        "(seven & 0xf00u) | (f.h[1] & 255u)",
        "seven | (f.h[1] & 255u)",
        "The mask on an index with its signs is gone: past the end of the codebook.",
        ONE,
    ),
    _fragment(
        "iq3-s-ninth-bits",
        "index[0] |= (high & 1u) << 8, index[1] |= (high & 2u) << 7;",
        "",
        "The ninth bits of IQ3_S indices are ignored.",
        IQ3_S,
    ),
    _fragment(
        "iq3-s-ninth-bits-crossed",
        "index[0] |= (high & 1u) << 8, index[1] |= (high & 2u) << 7;",
        "index[1] |= (high & 1u) << 8, index[0] |= (high & 2u) << 7;",
        "The ninth bits of two indices change places.",
        IQ3_S,
    ),
    _fragment(
        "iq3-s-scale-nibbles",
        "__int2float_rn(2 * (f.h[4] >> 4 * (s % 4) & 15) + 1));",
        "__int2float_rn(2 * (f.h[4] >> 4 * (s % 4 ^ 1) & 15) + 1));",
        "Low and high nibbles of the scales change places.",
        IQ3_S,
    ),
    _fragment(
        "iq4-xs-bias",
        "scale[0] = scaled(f.h[0], __int2float_rn((low | high << 4) - 32));",
        "scale[0] = scaled(f.h[0], __int2float_rn(low | high << 4));",
        "The bias of 32 is omitted.",
        IQ4_XS,
    ),
    _fragment(
        "iq4-level-off-by-one",
        "levels[3] = 0x71594535u;",
        "levels[3] = 0x715a4535u;",
        "The level 89 is 90.",
        ONE,
    ),
    _fragment(
        "iq4-halves-crossed",
        "nibble_lookup(joined(f.h[1], f.h[2]), levels, codes[0], codes[1]);",
        "nibble_lookup(joined(f.h[1], f.h[2]), levels, codes[1], codes[0]);",
        "Low and high nibbles change places.",
        ONE,
    ),
    _fragment(
        "q2-byte-of-neighbour",
        "const u32 four = byte_of(f.h[1 + i], t & 1),",
        "const u32 four = byte_of(f.h[1 + i], ~t & 1),",
        "Neighbouring lanes take each other's four values.",
        IQ3_S,
    ),
    _fragment(
        "q2-bias",
        "byte_lookup(0x020100ffu, 0,",
        "byte_lookup(0x03020100u, 0,",
        "The bias of 1 of Q2_0 is omitted.",
        TWO,
    ),
    _fragment(
        "iq2-xxs-index-of-pair",
        "2 * static_cast<int>(byte_of(f.h[1], t & 1)));",
        "2 * static_cast<int>(byte_of(f.h[1], 0)));",
        "Odd groups take the index of the group before.",
        IQ2_XXS,
    ),
    _fragment(
        "iq2-xs-ninth-bit",
        "index[i] = f.h[1 + i] & 511u,",
        "index[i] = f.h[1 + i] & 255u,",
        "The ninth bit of IQ2_XS indices is masked away.",
        TWO,
    ),
    _fragment(
        "iq2-s-high-bits",
        "| (high >> 2 * group & 3u) << 8;",
        "| (high >> 2 * group & 1u) << 8;",
        "The tenth bit of IQ2_S indices is ignored.",
        IQ2_S,
    ),
    _fragment(
        "iq2-levels-crossed",
        "static_cast<int>(steps >> 4 * i & 15u)",
        "static_cast<int>(steps >> 4 * (1 - i) & 15u)",
        "The two scales of a part change places.",
        TWO,
    ),
    _fragment(
        "iq2-half-of-entry",
        "codes[i] = signed_bytes(grid.ld(2 * static_cast<int>(index[i]) + half), signs[i] >> 4 * half);",
        "codes[i] = signed_bytes(grid.ld(2 * static_cast<int>(index[i]) + half), signs[i]);",
        "The second four of eight values take the signs of the first four.",
        IQ2_S,
    ),
    _fragment(
        "word-place",
        "return PAIRED ? (w & 1) * 4 + (w >> 1) : w;",
        "return w;",
        "Codes of x lie in natural order, for formats whose lanes look for pairs.",
        ONE,
        "experts_one_hot",
    ),
    _fragment(
        "grid-signs",
        "signed_bytes(load(table + (i & 255)), static_cast<u32>(i) >> 8));",
        "signed_bytes(load(table + (i & 255)), static_cast<u32>(i) >> 9));",
        "The codebook with signs lacks every second combination.",
        ONE,
    ),
)


def mutants() -> Iterator[Mutant]:
    yield from (*_FUSED, *_FRAGMENTS)
    for source in _sources():
        part = "" if source == FUSED else source.rpartition("/")[2].removeprefix("expert_").removesuffix(".cuh") + "-"
        for path, name in ((ONE, "barrier"), (TWO, "async-barrier")):
            pattern = Mutant(
                f"fused-{part}{name}",
                source,
                "__syncthreads();",
                ";" if path == ONE else "(void)0;",
                "Threads go on before the others have come so far.",
                path,
                ("experts_plain",),
            )
            # Sums go in several passes on sm75 alone.
            yield from (
                one
                for one in removals(pattern, (ROOT / source).read_text())
                if path == ONE or "if (pass > 0) " not in one.old
            )
