"""Making a capture: the text, the run over it, and the check that its loss makes sense."""

from __future__ import annotations

import hashlib
import importlib.resources
import itertools
import os
import platform
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from strata.engine.tokenizer import Tokenizer
from validation.captured.archive import FORMAT, Capture, CaptureError, Metadata, check_loss, listed, load, save
from validation.captured.forward import Int64, Progress, hidden_states, loss_per_token
from validation.captured.gguf_model import Model, find_model, open_model

__all__ = [
    "DEFAULT_LAYERS",
    "DEFAULT_TOKENS",
    "MIN_TOKENS",
    "Capture",
    "capture",
    "load",
    "run",
    "source_text",
    "unigram_entropy",
]

DEFAULT_TOKENS = 2048
DEFAULT_LAYERS = (0, 5, 11, 17)
#: Below this many tokens nearly all are distinct and `unigram_entropy` approaches ln(tokens): no yardstick.
MIN_TOKENS = 256


def source_text() -> tuple[str, str]:
    """The text and where it comes from. It starts with a document of the `email` package that is longer than the
    default capture and hardly ever edited, so that the default tokens do not depend on the Python; the topics
    of `help()`, which every release edits, follow. The capture's text digest tells. Raises CaptureError."""
    try:
        start = importlib.resources.files("email").joinpath("architecture.rst").read_text(encoding="utf-8")
        from pydoc_data.topics import topics
    except (ImportError, OSError) as error:
        raise CaptureError(
            f"this Python lacks part of its standard library ({error}); expected "
            "email/architecture.rst and pydoc_data.topics"
        ) from None
    text = "\n".join([start, *(topics[name] for name in sorted(topics))])
    return text, "email/architecture.rst, pydoc_data.topics"


def unigram_entropy(tokens: Int64) -> float:
    """Entropy of the tokens' own frequencies in nats: the loss of the best model that ignores context, fitted
    on this very text. A language model that is worse has been computed wrongly; a right one stays far below."""
    counts = np.unique(tokens, return_counts=True)[1]
    share = counts / len(tokens)
    return float(-np.sum(share * np.log(share)))


def capture(tokens: int, layers: Sequence[int], out: Path, progress: Progress) -> Capture:
    """Run the model over the first `tokens` tokens, the start token included, and write `layers` to `out`.

    Nothing is written unless the loss makes sense. Raises CaptureError, ModelError.
    """
    _check_writable(out)
    parts = find_model()
    progress("open", 0, 1)
    with open_model(parts) as model:
        progress("open", 1, 1)
        result = run(model, tokens, layers, progress)
    save(result, out)
    return result


def run(model: Model, tokens: int, layers: Sequence[int], progress: Progress) -> Capture:
    """Capture `layers` of an open model. Raises CaptureError for a request it cannot fill or a bad loss."""
    hyper = model.hyper
    if not MIN_TOKENS <= tokens <= hyper.context_length:
        raise CaptureError(f"tokens is {tokens}; expected {MIN_TOKENS} to {hyper.context_length}")
    if not layers or len(set(layers)) != len(layers) or not set(layers) <= set(range(hyper.n_layer)):
        raise CaptureError(f"layers is {listed(layers)}; expected distinct numbers from 0 to {hyper.n_layer - 1}")
    text, source = source_text()
    tokenizer = Tokenizer(model.vocabulary())
    ids = np.fromiter(itertools.islice(tokenizer.encode(text), tokens), dtype=np.int64)
    if len(ids) < tokens:
        raise CaptureError(f"tokens is {tokens}; expected at most {len(ids)}, the length of the text")
    hidden, kept = hidden_states(model, ids, layers, progress)
    loss, limit = loss_per_token(model, hidden, ids, progress), unigram_entropy(ids)
    check_loss(loss, limit)
    metadata = Metadata(
        format=FORMAT,
        model_sha256=model.sha256,
        text_source=source,
        text_sha256=hashlib.sha256(tokenizer.decode(ids.tolist()).encode()).hexdigest(),
        tokens=tokens,
        layers=tuple(layers),
        n_head=hyper.n_head,
        n_head_kv=hyper.n_head_kv,
        head_dim=hyper.head_dim,
        rope_included=True,
        loss=loss,
        loss_limit=limit,
        numpy=np.__version__,
        python=platform.python_version(),
    )
    return Capture({layer: kept[layer] for layer in layers}, metadata)


def _check_writable(out: Path) -> None:
    """Say at once, not after the forward pass, that `out` cannot be written."""
    if out.is_dir() or not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
        raise CaptureError(f"cannot write {out}; expected a file name in an existing, writable folder")
