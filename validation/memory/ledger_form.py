"""What a byte ledger is made of: its fields, none of which may be absent or unknown, and the digests in it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any

import jsonschema

from strata.executors.base import KERNELS, StrataError

SCHEMA = "strata-memory-ledger/2"
_MEMORY = KERNELS.parent / "memory"
#: Bounds of what is made again without a card: no model has more, and a made-up file does not keep a reader busy.
_LAYERS, _EXPERTS, _BLOB, _SLOTS = 1024, 4096, 64 << 20, 50_000


def _object(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}


def _whole(least: int = 0, most: int = 1 << 50) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most}


_DIGEST = {"type": "string", "pattern": "^[0-9a-f]{64}\\Z"}
_DIGEST_OR_NONE = {"type": "string", "pattern": "^([0-9a-f]{64})?\\Z"}
_TEXT = {"type": "string", "maxLength": 200}

#: See docs/memory_proof.md for what each field says.
FORM = _object(
    schema={"const": SCHEMA},
    project=_TEXT,
    provenance=_object(device=_TEXT),
    sources={"type": "object", "additionalProperties": _DIGEST},
    geometry=_object(
        layers=_whole(1, _LAYERS),
        experts=_whole(1, _EXPERTS),
        blobs={"type": "array", "items": _whole(1, _BLOB), "minItems": 1, "maxItems": _LAYERS},
    ),
    arena=_object(granularity=_whole(1), piece=_whole(1)),
    slots={
        "type": "array",
        "minItems": 1,
        "maxItems": _SLOTS,
        "items": _object(
            offset=_whole(),
            layer=_whole(-1, _LAYERS - 1),
            row=_whole(-1, _LAYERS * _EXPERTS - 1),
            before=_DIGEST_OR_NONE,
            meanwhile=_DIGEST_OR_NONE,
            after=_DIGEST_OR_NONE,
        ),
    },
    beside=_object(before=_DIGEST, meanwhile=_DIGEST, after=_DIGEST),
    lent=_object(asked=_whole(1), first=_whole(1), mib=_whole(1), experts=_whole(1), borrowed=_whole(1)),
    reclaimed=_object(mib=_whole(1), experts=_whole(1), compared=_whole(1)),
)


class LedgerError(StrataError):
    """A file that is no ledger: a field is absent, unknown, or of another kind."""


def formed(ledger: Any) -> Mapping[str, Any]:
    """The ledger, once it has the form of one. Raises LedgerError naming the first place where it has not."""
    error = jsonschema.exceptions.best_match(_validator().iter_errors(ledger))
    if error is not None:
        where = "/".join(map(str, error.absolute_path)) or "the top"
        said = " ".join(error.message.split()).encode("ascii", "backslashreplace").decode()
        raise LedgerError(f"no ledger of schema {SCHEMA}: at {where}: {said[-160:]}")
    found: Mapping[str, Any] = ledger
    return found


def digest(data: Any) -> str:
    """SHA-256 of a uint8 array, 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def sources() -> dict[str, str]:
    """SHA-256 of the code that a ledger is about, by path below `strata`."""
    files = [*sorted(_MEMORY.rglob("*.py")), KERNELS / "compare_bytes.cu", KERNELS / "compare_bytes.py"]
    return {file.relative_to(KERNELS.parent).as_posix(): digest(file.read_bytes()) for file in files}


@cache
def _validator() -> Any:
    return jsonschema.Draft202012Validator(FORM)
