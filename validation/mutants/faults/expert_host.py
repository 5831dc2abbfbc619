"""Mutants of the host's part of the expert paths: layouts, decoders in NumPy, what is launched and what comes back."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.faults.expert_activations import FUSED
from validation.mutants.mutant import Mutant

EXPERTS, FUSED_HOST = "strata/kernels/experts.py", "strata/kernels/expert_fused.py"
CODES, BLOCKS = "strata/formats/codes.py", "strata/formats/blocks.py"
_GOLDEN = ("tests/strata/formats/test_blocks.py",)


def _decoder(name: str, old: str, new: str, why: str, file: str = CODES) -> Mutant:
    """Judged by the bytes and values of a ggml build."""
    return Mutant(f"numpy-{name}", file, old, new, why, tests=_GOLDEN)


def _host(name: str, file: str, old: str, new: str, why: str, *recipes: str) -> Mutant:
    return Mutant(f"expert-host-{name}", file, old, new, why, FUSED, recipes or ("experts_plain",))


_DECODERS = (
    _decoder(
        "nibbles-interleaved",
        "return np.concatenate([octets & 15, octets >> 4], axis=-1)",
        "return _flat(np.stack([octets & 15, octets >> 4], axis=-1), 2)",
        "The nibbles of a byte are neighbours: every decoder and the kernels' reference agree on it.",
    ),
    _decoder(
        "parity-zero",
        "return np.asarray(sevens | (np.bitwise_count(sevens) & 1) << 7, np.uint8)",
        "return np.asarray(sevens, np.uint8)",
        "The eighth sign is 0.",
    ),
    _decoder(
        "lost-one",
        "_half(blocks, 0) * ((2 * s + 1).astype(np.float32)",
        "_half(blocks, 0) * ((2 * s).astype(np.float32)",
        "The + 1 of 2 s + 1 is lost.",
    ),
    _decoder(
        "iq4-xs-bias",
        "factor = (low | high << 4).astype(np.int32) - 32",
        "factor = (low | high << 4).astype(np.int32) - 31",
        "The bias of IQ4_XS scales is 31.",
    ),
    _decoder(
        "iq3-s-ninth-bit",
        "index = blocks[..., 2:66].astype(np.uint32) | _fields(blocks[..., 66:74], 1) << 8",
        "index = blocks[..., 2:66].astype(np.uint32)",
        "The ninth bit of IQ3_S indices is ignored.",
    ),
    _decoder(
        "iq2-s-high-bits",
        "index = blocks[..., 2:34].astype(np.uint32) | _fields(blocks[..., 66:74], 2) << 8",
        "index = blocks[..., 2:34].astype(np.uint32) | (_fields(blocks[..., 66:74], 2) & 1) << 8",
        "The tenth bit of IQ2_S indices is ignored.",
    ),
    _decoder(
        "iq2-xs-index",
        '_signed("iq2_xs", words & 511, signs)',
        '_signed("iq2_xs", words & 255, signs)',
        "The ninth bit of IQ2_XS indices is ignored.",
    ),
    _decoder(
        "q2-0-bias",
        "return _kept(_of_bytes(2) - np.int8(1))",
        "return _kept(_of_bytes(2) - np.int8(2))",
        "The bias of Q2_0 is 2.",
    ),
    _decoder(
        "q4-0-unsigned",
        "_nibbles(blocks[..., 2:]).astype(np.int8) - np.int8(8)",
        "_nibbles(blocks[..., 2:]).astype(np.int8)",
        "Q4_0 has no bias.",
    ),
    _decoder(
        "q5-k-offset-sign",
        "values -= parts.offsets[..., None]",
        "values += parts.offsets[..., None]",
        "Offsets of Q5_K are added.",
        BLOCKS,
    ),
    _decoder(
        "q5-k-fifth-bit",
        "return Parts((low | _flat(fifth, 2) << 4).astype(np.int8), *_sixes(blocks))",
        "return Parts(low.astype(np.int8), *_sixes(blocks))",
        "The fifth bit of Q5_K is ignored.",
    ),
    _decoder(
        "q5-0-bias",
        "_fives(blocks[..., 2:]) - np.int8(16)",
        "_fives(blocks[..., 2:]) - np.int8(15)",
        "The bias of Q5_0 is 15.",
    ),
    _decoder(
        "q5-1-minimum",
        "_half(blocks, 0), -_half(blocks, 2))",
        "_half(blocks, 0), _half(blocks, 2))",
        "The minimum of Q5_1 is taken off.",
    ),
    _decoder(
        "q6-k-scales-unsigned",
        "np.ascontiguousarray(blocks[..., 192:208]).view(np.int8)",
        "np.ascontiguousarray(blocks[..., 192:208])",
        "The scales of Q6_K have no sign.",
    ),
    _decoder(
        "q6-k-pairs-of-the-first-half",
        "blocks[..., 128:192].reshape(*lead, 2, 1, 32)",
        "np.concatenate([blocks[..., 128:160]] * 2, axis=-1).reshape(*lead, 2, 1, 32)",
        "The second half of a block of Q6_K takes the high bits of the first.",
    ),
)

_HOST = (
    _host(
        "up-is-gate",
        EXPERTS,
        "return Layout(wide, narrow, half, 2 * half,",
        "return Layout(wide, narrow, 0, half,",
        "down begins where up does.",
    ),
    _host(
        "address-of-first",
        EXPERTS,
        "addresses.append(buffer.address + offset)",
        "addresses.append(buffers[0].address + offset)",
        "Every expert has the address of the first.",
        "experts_decades",
    ),
    _host(
        "offset-lost",
        EXPERTS,
        "addresses.append(buffer.address + offset)",
        "addresses.append(buffer.address + offset // 4 * 4)",
        "Addresses are rounded down to a multiple of 4.",
    ),
    _host(
        "shape-forgotten",
        FUSED_HOST,
        "    both = (chosen, chosen) if isinstance(chosen, int) else chosen\n",
        "    both = (shape_for(pairs, count),) * 2\n",
        "Whatever work shape is asked for, the rows of an expert decide.",
        "experts_edges",
    ),
    _host(
        "down-in-shape-of-gate",
        FUSED_HOST,
        "    both = (chosen, chosen) if isinstance(chosen, int) else chosen\n",
        "    both = (chosen, chosen) if isinstance(chosen, int) else (chosen[0], chosen[0])\n",
        "Down takes the work shape of gate and up.",
        "experts_edges",
    ),
    _host(
        "cuts-forgotten",
        FUSED_HOST,
        "placed, tokens, top, both, cuts_of(count, cuts),",
        "placed, tokens, top, both, cuts_of(count),",
        "Experts are always launched together.",
        "experts_edges",
    ),
    _host(
        "first-cut-only",
        FUSED_HOST,
        "        for cut in self.cuts:\n",
        "        for cut in self.cuts[:1]:\n",
        "Only the first batch of experts is launched.",
        "experts_edges",
    ),
    _host(
        "down-before-gate",
        FUSED_HOST,
        "witnesses += [self.gate_up(cut), self.down(cut)]",
        "witnesses += [self.down(cut), self.gate_up(cut)]",
        "down runs before gate and up have made h.",
    ),
    _host(
        "cut-of-others",
        FUSED_HOST,
        "return self._product(self.placed.experts.down, self.shape[1], cut, self.h)",
        "return self._product(self.placed.experts.down, self.shape[1], (cut[0], max(cut[1] - 1, cut[0])), self.h)",
        "down leaves out the last expert of a cut.",
        "experts_decades",
    ),
    _host(
        "paired-for-all",
        FUSED_HOST,
        "np.int32(experts.gate_up in _PAIRED)",
        "np.int32(0)",
        "Tokens lie in the order of formats that do not pair values.",
    ),
    _host(
        "status-kept",
        FUSED_HOST,
        "status=(status[0], status[1], status[2]),",
        "status=(0, 0, 0),",
        "What is not finite is not reported.",
        "experts_broken",
    ),
    _host(
        "ignored-kept",
        FUSED_HOST,
        "ignored=counted(self.ignored)[0],",
        "ignored=0,",
        "Ids that name nobody are not reported.",
        "experts_stray",
    ),
)


def mutants() -> Iterator[Mutant]:
    yield from (*_DECODERS, *_HOST)
