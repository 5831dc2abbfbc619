"""What the gate needs of one parity record, taken from bytes or from a parsed value.

Only shapes are checked here, those of the fields that the gate reads. The verifier checks the rest, and the numbers.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from strata.executors.base import StrataError
from strata.gates.sources import Program, program

SCHEMA = "strata-parity-record/1"
#: Bytes a record may have.
LARGEST = 16 << 20
LARGEST_NUMBER = (1 << 53) - 1

_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_DIGEST = re.compile(r"[0-9a-f]{64}")


class RecordProblem(StrataError):  # noqa: N818 - a state of a file more than a fault
    """Bytes that cannot serve as a record; the message says what was expected."""


@dataclass(frozen=True)
class Image:
    """A compiled kernel, as a record has it.

    Parameters
    ----------
    program
        The entry and the macros.
    arch
        What it was compiled for.
    loaded
        What the card said that it had loaded.
    flags
        The compiler's, without target and macros.
    sources
        Names of the files that it was made of.
    """

    program: Program
    arch: str
    loaded: str
    flags: tuple[str, ...]
    sources: frozenset[str]


@dataclass(frozen=True)
class CaseRun:
    """One case, as a record has it.

    Parameters
    ----------
    path
        The name of the path that ran it.
    text
        The text of the case.
    verdict
        What became of it.
    images
        The images that it launched, by their place in the record.
    """

    path: str
    text: str
    verdict: str
    images: tuple[int, ...]


@dataclass(frozen=True)
class Record:
    """What the gate needs of a record.

    Parameters
    ----------
    name
        SHA-256 of its bytes, in hexadecimal digits.
    local
        Whether it is this machine's own and not accepted for everybody.
    executor, device
        What ran its cases.
    capability
        The compute capability of the card, times ten; None on the CPU.
    sources
        SHA-256 of the kernels' sources, by name.
    images
        The compiled kernels.
    planned, plan_digest, plan_paths
        What was to run: the number of cases, the digest of the plan, and the names of its paths.
    cases
        What ran.
    codebooks
        SHA-256 by format, of experts alone.
    """

    name: str
    local: bool
    executor: str
    device: str
    capability: int | None
    sources: Mapping[str, str]
    images: tuple[Image, ...]
    planned: int
    plan_digest: str
    plan_paths: tuple[str, ...]
    cases: tuple[CaseRun, ...]
    codebooks: Mapping[str, str] = field(default_factory=dict)

    @property
    def short(self) -> str:
        """Enough of the name to find the file."""
        return self.name[:12]


def parse(data: bytes, name: str, local: bool) -> Record:
    """The record of a file's bytes.

    Parameters
    ----------
    data
        The bytes, in the canonical form of JSON.
    name
        The SHA-256 that names them.
    local
        Whether it is this machine's own.

    Raises
    ------
    RecordProblem
        When the bytes are not those of `name`, are no canonical JSON, or are no record.

    References
    ----------
    RFC 8785, JSON Canonicalization Scheme (JCS), 2020.
    """
    if len(data) > LARGEST:
        raise RecordProblem(f"more than {LARGEST:,} bytes, which no record has")
    if hashlib.sha256(data).hexdigest() != name:
        raise RecordProblem("its name is not the SHA-256 of its bytes: renamed or damaged")
    try:
        value = json.loads(data, parse_int=_number, parse_float=_refuse, parse_constant=_refuse)
        # Duplicate keys, spare blanks and escapes all end here: the value is written in one way only.
        canonical = json.dumps(value, separators=(",", ":"), sort_keys=True).encode() == data
    except (ValueError, RecursionError) as error:
        raise RecordProblem(f"not the JSON of a record: {str(error)[:80]}") from None
    if not canonical:
        raise RecordProblem("not in canonical form (RFC 8785)")
    if not set(_ESCAPED.findall(data)) <= {b'"', b"\\"}:
        raise RecordProblem("text with more than printable ASCII")
    return of_value(value, name, local)


def of_value(value: Any, name: str, local: bool) -> Record:
    """The record of a parsed value.

    Parameters
    ----------
    value
        What JSON says.
    name
        The SHA-256 that names its bytes.
    local
        Whether it is this machine's own.

    Raises
    ------
    RecordProblem
        For a value that lacks what the gate needs.
    """
    try:
        if value["schema"] != SCHEMA:
            raise RecordProblem(f"its schema is {_shown(value['schema'])}, expected {SCHEMA}")
        where, plan = value["provenance"], value["plan"]
        return Record(
            name=name,
            local=local,
            executor=_text(where["executor"]),
            device=_text(where["device"]),
            capability=None if where["capability"] is None else _count(where["capability"]),
            sources={_text(file): _digest(digest) for file, digest in _items(value["sources"])},
            images=tuple(map(_image, _list(value["images"]))),
            planned=_count(plan["planned"]),
            plan_digest=_digest(plan["digest"]),
            plan_paths=tuple(map(_text, _list(plan["paths"]))),
            cases=tuple(_case(case, len(value["images"])) for case in _list(value["cases"])),
            codebooks={_text(form): _digest(digest) for form, digest in _items(value.get("codebooks", {}))},
        )
    except KeyError as error:
        raise RecordProblem(f"a record without {error.args[0]!a}") from None
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise RecordProblem(f"not shaped as a record: {ascii(str(error))[:80]}") from None


def _image(value: Any) -> Image:
    words = [_text(word) for word in _list(value["options"])]
    own = ("-arch=", "-D", "--ptxas-options=", "-I")
    return Image(
        program(_text(value["entry"]), tuple((_text(key), _count(number)) for key, number in _list(value["defines"]))),
        _text(value["arch"]),
        _text(value["loaded"]),
        tuple(word for word in words if not word.startswith(own)),
        frozenset(map(_text, _list(value["sources"]))),
    )


def _case(value: Any, images: int) -> CaseRun:
    launched = tuple(_count(launch["image"]) for launch in _list(value["launches"]))
    if any(image >= images for image in launched):
        raise RecordProblem(f"a case launched image {max(launched)} of {images}")
    return CaseRun(_text(value["path"]), _text(value["case"]), _text(value["verdict"]), launched)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not (value.isascii() and value.isprintable()) or len(value) > 400:
        raise RecordProblem(f"{_shown(value)} where at most 400 printable characters were expected")
    return value


def _digest(value: Any) -> str:
    if _DIGEST.fullmatch(_text(value)) is None:
        raise RecordProblem(f"{_shown(value)} where a SHA-256 was expected")
    return str(value)


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST_NUMBER:
        raise RecordProblem(f"{_shown(value)} where a whole number below 2**53 was expected")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise RecordProblem(f"{_shown(value)} where a list was expected")
    return value


def _items(value: Any) -> list[tuple[Any, Any]]:
    if not isinstance(value, dict):
        raise RecordProblem(f"{_shown(value)} where an object was expected")
    return list(value.items())


def _number(text: str) -> int:
    if len(text) > 17 or abs(int(text)) > LARGEST_NUMBER:
        raise ValueError(f"the number {text[:24]} is beyond 2**53 - 1")
    return int(text)


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text[:24]} is not a whole number")


def _shown(value: Any) -> str:
    """A few characters for a message: text and numbers as they are, of the rest the type."""
    if isinstance(value, str):
        return ascii(value[:40])
    return str(value)[:20] if isinstance(value, int) else type(value).__name__
