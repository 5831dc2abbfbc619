"""Carries out the table of forgeries, fixtures/records/forgeries.json, on the base records beside it.

A forgery's `steps` edit a base as RFC 6902 says, and by five more operations: `flip` a bit of hex digits, `raise` a
number, `show` other rows for the first case, `fill` a list, `take` the same place of another base. A path ending in
`*` means every item; a part `with:key` or `without:key` means the first item of a list that has a key, or has it not.
`sign` says what the forger makes good afterwards: `outputs` (Merkle roots of the rows), `plan`, `root`, `challenge`.
`after` edits once more. `bytes` edits the canonical bytes at last; `raw` gives all bytes. The file is called by its
digest unless `file` says otherwise.
"""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from fixtures.records.bases import BASES, planned
from strata.executors.base import source_digests
from validation.core.challenge import chosen
from validation.core.recordable import Asked
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.record import FusedExperts
from validation.record import canonical, merkle
from validation.record.evidence import leaves
from validation.record.make import root_of
from validation.record.rules.plan import digest
from validation.record.verify import Against, lanes

TABLE_FILE = BASES[0].file.with_name("forgeries.json")
TABLE: list[dict[str, Any]] = json.loads(TABLE_FILE.read_text())
_LOADED: dict[str, Any] = {}


def against(bits: bool = True) -> Against:
    """What fixtures are held against: this checkout, and their own small plan."""
    return Against(planned, lanes if bits else None)


def base(name: str) -> Any:
    """A copy of a base file, an object, its record naming today's sources."""
    if name not in _LOADED:
        found = json.loads(FilePath(BASES[0].file).with_name(f"{name}.json").read_text())
        found["record"]["sources"] = dict(source_digests())
        _LOADED[name] = found
    return deepcopy(_LOADED[name])


def forged(entry: dict[str, Any]) -> tuple[bytes, str]:
    """The bytes and the file name of a forgery."""
    if "raw" in entry:
        data = entry["raw"].encode("latin-1") * entry.get("times", 1)
    else:
        found = base(entry["base"])
        for step in entry.get("steps", []):
            apply(found, step)
        sign(found, entry.get("sign", []))
        for step in entry.get("after", []):
            apply(found, step)
        data = json.dumps(found["record"], separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()
        for edit in entry.get("bytes", []):
            data = edited(data, edit)
    return data, entry.get("file", f"{canonical.name_of(data)}.json")


def apply(document: Any, step: dict[str, Any]) -> None:
    """One step. Raises KeyError or IndexError for a place that is not there."""
    if step["op"] == "show":
        document["rows"][0] = document["others"][step["of"]]
        return
    if step["op"] == "take":
        value = _at(base(step["base"]), _parts(step["path"]))
        apply(document, {"op": "replace", "path": step["path"], "value": value})
        return
    if step["path"].endswith("/*"):
        holder = _at(document, _parts(step["path"])[:-1])
        for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
            apply(document, step | {"path": f"{step['path'][:-1]}{key}"})
        return
    *parents, last = _parts(step["path"])
    holder = _at(document, parents)
    if step["op"] in ("move", "copy"):
        value = deepcopy(_at(document, _parts(step["from"])))
        if step["op"] == "move":
            apply(document, {"op": "remove", "path": step["from"]})
        _add(holder, last, value)
    elif step["op"] == "add":
        _add(holder, last, step["value"])
    elif step["op"] == "fill":
        _add(holder, last, [step["value"]] * step["times"])
    elif step["op"] == "raise":
        holder[_key(holder, last)] += step["by"]
    elif step["op"] == "flip":
        key = _key(holder, last)
        data = bytearray.fromhex(holder[key])
        data[step["bit"] // 8] ^= 1 << step["bit"] % 8
        holder[key] = data.hex()
    else:
        key = _key(holder, last)
        holder[key]  # replaces or removes only what is there
        if step["op"] == "remove":
            del holder[key]
        else:
            holder[key] = step["value"]


def sign(document: dict[str, Any], what: list[str]) -> None:
    """Make good what a forger can, in the order that lets all of it hold."""
    record, rows = document["record"], document["rows"]
    experts = any(case["path"].startswith("expert_fused/") for case in record["cases"])
    arrays = [np.array([np.frombuffer(bytes.fromhex(row), "<f4") for row in case]) for case in rows]
    nodes = [leaves(case["path"], case["case"], array) for case, array in zip(record["cases"], arrays, strict=False)]
    if "outputs" in what:
        for case, each in zip(record["cases"], nodes, strict=True):
            case["output"] = merkle.root(each)
    if "plan" in what:
        record["plan"]["planned"] = len(record["cases"])
        record["plan"]["digest"] = digest([(case["path"], case["case"]) for case in record["cases"]])
    if "root" in what:
        record["root"] = root_of(record["cases"])
    if "challenge" in what:
        record["challenge"] = []
        for index, case in enumerate(record["cases"]):
            due = [Asked(row) for row in chosen(record["root"], index, len(rows[index]))]
            if experts:
                due = FusedExperts().asked(ExpertCase.parse(case["case"]), record["root"], index)
            for asked in due:
                bits = {"bits": rows[index][asked.row]} if asked.bits else {}
                proof = merkle.proof(nodes[index], asked.row)
                record["challenge"].append({"case": index, "row": asked.row, **bits, "proof": proof})


def edited(data: bytes, edit: dict[str, Any]) -> bytes:
    """`cut` bytes off the end, `encode` the text otherwise, write it `pretty`, or put `to` for the first `from`."""
    if "cut" in edit:
        return data[: -edit["cut"]]
    if "pretty" in edit:
        return json.dumps(json.loads(data), indent=1, sort_keys=True).encode()
    if "encode" in edit:
        return data.decode().encode(edit["encode"])
    old = edit["from"].encode()
    assert old in data, edit
    return data.replace(old, edit["to"].encode() * edit.get("times", 1), 1)


def _parts(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _at(document: Any, parts: list[str]) -> Any:
    for part in parts:
        document = document[_key(document, part)]
    return document


def _key(holder: Any, part: str) -> Any:
    word, _, key = part.partition(":")
    if word in ("with", "without"):
        return next(index for index, item in enumerate(holder) if (key in item) is (word == "with"))
    return int(part) if isinstance(holder, list) else part


def _add(holder: Any, last: str, value: Any) -> None:
    if isinstance(holder, list):
        holder.insert(len(holder) if last == "-" else int(last), value)
    else:
        holder[last] = value
