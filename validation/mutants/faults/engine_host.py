"""Mutants of what the engine reads and chooses: files that lie, models that do not fit, tokens, what is printed."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

_ENGINE, _TESTS = "strata/engine/", "tests/strata/engine/test_"


def _fault(name: str, file: str, old: str, new: str, why: str, test: str = "") -> Mutant:
    return Mutant(f"engine-{name}", f"{_ENGINE}{file}.py", old, new, why, tests=(f"{_TESTS}{test or file}.py",))


_SCAN = (
    _fault(
        "tensors-overlap-a-little",
        "gguf_scan",
        "if one.offset + one.nbytes > other.offset:",
        "if one.offset + one.nbytes > other.offset + 31:",
        "Two tensors may share some bytes.",
        "gguf_file",
    ),
    _fault(
        "file-longer-than-it-is",
        "gguf_scan",
        "if entry.offset + entry.nbytes > self._end:",
        "if entry.offset > self._end:",
        "A tensor that the file has a part of is read as far as it goes.",
        "gguf_file",
    ),
    _fault(
        "file-overlapping-tensors",
        "gguf_scan",
        "if one.offset + one.nbytes > other.offset:",
        "if one.offset >= other.offset:",
        "Tensors that begin at different places may share bytes.",
        "gguf_file",
    ),
    _fault(
        "file-lengths-without-end",
        "gguf_scan",
        "        if nbytes > self._end - self._at:\n            self._truncated(what)\n",
        "",
        "A length is believed before the bytes are there.",
        "gguf_file",
    ),
    _fault(
        "file-zero-lengths",
        "gguf_scan",
        "if not 0 < length < _BEYOND or",
        "if not length < _BEYOND or",
        "A tensor without elements is one.",
        "gguf_file",
    ),
    _fault(
        "file-twice-the-same-key",
        "gguf_scan",
        "if key in metadata:",
        "if False:",
        "Of two values of one key the last one counts.",
        "gguf_file",
    ),
    _fault(
        "file-strings-without-number",
        "gguf_scan",
        "if self._strings > MOST_STRINGS:",
        "if False:",
        "A file may ask for as many strings as it has bytes for.",
        "gguf_file",
    ),
    _fault(
        "file-waits-for-a-pipe",
        "gguf_file",
        "if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():",
        "if stat.S_ISBLK(path.stat().st_mode):",
        "A pipe in place of a file is opened, which waits for a writer for ever.",
    ),
)

_MODEL = (
    _fault(
        "model-tensor-without-a-role",
        "gemma3",
        "if name not in self._used:",
        "if False:",
        "A bias that a file has is left out of every sum.",
    ),
    _fault(
        "model-matrix-turned",
        "gemma3",
        "        if found.shape != shape:\n",
        "        if sorted(found.shape) != sorted(shape):\n",
        "A matrix may be the transpose of what its role needs.",
    ),
    _fault(
        "model-scaled-rope",
        "gemma3",
        '    "rope.scaling.factor": (None, 1.0),\n',
        "",
        "Rope that a file stretches is computed unstretched.",
    ),
    _fault(
        "model-first-layer-global",
        "gemma3",
        "return (layer + 1) % self.global_period == 0",
        "return layer % self.global_period == 0",
        "The first layer of each period sees every cell, not the last one.",
    ),
)

_TOKENS = (
    _fault(
        "text-of-half-a-character",
        "tokenizer",
        "return self._decoder.decode(self._tokenizer.piece(token))",
        'return self._tokenizer.piece(token).decode("utf-8", "replace")',
        "Bytes of a character that comes in two tokens are shown as two marks.",
    ),
    _fault(
        "end-of-a-turn-is-text",
        "tokenizer",
        "ends.add(token)",
        "pass",
        "An answer goes on behind the end of its turn.",
    ),
    _fault(
        "sampler-order-of-a-sort",
        "sampler",
        "equal[: k - len(above)]",
        "equal[len(equal) - (k - len(above)) :]",
        "Of equal logits top-k keeps the larger tokens.",
    ),
    _fault(
        "sampler-nucleus-one-short",
        "sampler",
        "return int(heaviest[np.searchsorted(sums, wanted)])",
        "return int(heaviest[max(0, int(np.searchsorted(sums, wanted)) - 1)])",
        "top-p leaves out the token that reaches the share.",
    ),
    _fault(
        "sampler-remembers",
        "sampler",
        "np.random.Philox(key=seed, counter=position)",
        "np.random.Philox(key=seed, counter=0)",
        "Every place of a text draws the same number.",
    ),
    _fault(
        "sampler-float32-weights",
        "sampler",
        "    return np.rint(value).astype(np.int64)\n",
        "    return np.rint(value.astype(np.float32)).astype(np.int64)\n",
        "Weights have 24 bits.",
    ),
    _fault(
        "sampler-penalty-lifts",
        "sampler",
        "np.where(y > 0, y / sampling.repeat_penalty, y * sampling.repeat_penalty)",
        "y / sampling.repeat_penalty",
        "A penalty makes a token with a negative logit likelier.",
    ),
    _fault(
        "sampler-takes-what-is-no-number",
        "sampler",
        "if not np.isfinite(largest):",
        "if np.isposinf(largest):",
        "A NaN among the logits is the likeliest token.",
    ),
)

_COMMAND = (
    _fault(
        "generate-one-decode-too-many",
        "generate",
        "if rates.written == request.most or len(before) == request.context:",
        "if rates.written > request.most or len(before) == request.context:",
        "A token more is written than was asked for.",
    ),
    _fault(
        "generate-beyond-the-context",
        "generate",
        "if rates.written == request.most or len(before) == request.context:",
        "if rates.written == request.most:",
        "A full context is written past.",
    ),
    _fault(
        "generate-end-is-printed",
        "generate",
        "        if token in tokenizer.ends:\n            break\n",
        "",
        "Nothing ends an answer but its length.",
    ),
    _fault(
        "generate-interrupted-is-whole",
        "generate",
        "        return COULD_NOT_RUN\n",
        "        return 0\n",
        "An answer that was broken off counts as whole.",
    ),
    _fault(
        "generate-dumps-in-place",
        "generate",
        "        with replacing(request.dump) as target:\n",
        '        with request.dump.open("wb") as target:\n',
        "A full disk leaves a part of the first logits.",
    ),
    _fault(
        "fetch-believes-its-parts",
        "packaged",
        "        if digest != model.sha256:\n",
        "        if not digest:\n",
        "A model's file is whatever the packages hold.",
    ),
    _fault(
        "fetch-replaces-another-file",
        "packaged",
        "        if out is not None:\n",
        "        if False:\n",
        "A file that somebody else keeps under the name is lost.",
    ),
)


def mutants() -> Iterator[Mutant]:
    """Every mutant of what the engine reads and chooses."""
    yield from (*_SCAN, *_MODEL, *_TOKENS, *_COMMAND)
