"""Builds the record of a finished run and writes it under its name. What the fields mean: docs/record.md."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path as FilePath
from typing import Any

import jsonschema

import strata
from strata.executors.base import KERNELS, Image, StrataError, source_digests
from strata.gates.sources import codebooks, included
from strata.kernels.paths import PATHS
from validation.core.float_bits import bits_of
from validation.core.recordable import Recordable
from validation.host import whole_file
from validation.operations import registry
from validation.record import merkle
from validation.record.canonical import decode, encode, name_of
from validation.record.evidence import Evidence, leaves
from validation.record.provenance import printable

SCHEMA = "strata-parity-record/1"
SCHEMA_FILE = KERNELS.parent / "gates" / "record.schema.json"


@dataclass(frozen=True)
class Plan:
    """What was to run.

    Parameters
    ----------
    profile, seed
        What the plan was made from.
    paths
        Names of the paths.
    pairs
        (path, case text), in order.
    """

    profile: str
    seed: int
    paths: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical bytes of [[path, case], ...]."""
        return hashlib.sha256(encode([list(pair) for pair in self.pairs])).hexdigest()


def record(
    plan: Plan,
    results: Sequence[Mapping[str, Any]],
    evidence: Sequence[Evidence | None],
    provenance: Mapping[str, Any],
    identification: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The record of a run.

    Cases that did not pass are in it, with their verdicts.

    Parameters
    ----------
    plan
        What was to run.
    results
        The results of the cases, as `runner.run_case` gives them.
    evidence
        The evidence beside each result.
    provenance
        What ran it, see `provenance.provenance`.
    identification
        What the tensor core answered, see `identify.identification`; None where it was not asked.

    Raises
    ------
    StrataError
        Unless every planned case, and no other, ended with an output: a record never holds fewer cases than were
        planned.
    """
    kept = _complete(plan, results, evidence)
    images = _Images()
    cases = [_case(result, item, images) for result, item in zip(results, kept, strict=True)]
    root = root_of(cases)
    tables = {form: digest for name in plan.paths for form, digest in codebooks(PATHS[name]).items()}
    return {
        "schema": SCHEMA,
        "project": strata.__version__,
        "provenance": dict(provenance),
        "sources": dict(source_digests()),
        **({"codebooks": tables} if tables else {}),
        "images": images.found,
        "plan": {
            "profile": plan.profile,
            "seed": plan.seed,
            "paths": list(plan.paths),
            "planned": len(plan.pairs),
            "digest": plan.digest,
        },
        "cases": cases,
        "root": root,
        "challenge": list(answers(root, kept)),
        "identification": None if identification is None else dict(identification),
        "timings": [timing for result in results if (timing := _timing(result))],
    }


def root_of(cases: Sequence[Mapping[str, Any]]) -> str:
    """The root over all cases of a record, outputs and verdicts included: what chooses the rows to show."""
    return merkle.root([merkle.leaf(encode(case)) for case in cases])


def answers(root: str, evidence: Sequence[Evidence]) -> list[dict[str, Any]]:
    """The chosen rows with their proofs.

    Parameters
    ----------
    root
        The root over all cases, which chooses the rows.
    evidence
        The evidence of each case.

    Raises
    ------
    StrataError
        When an output changed since it was kept.
    """
    found = []
    for index, item in enumerate(evidence):
        values = item.values()
        nodes = leaves(item.path, item.case, values)
        operation = _operation(item)
        for asked in operation.asked(operation.parse(item.case), root, index):
            answer = {"case": index, "row": asked.row, "proof": merkle.proof(nodes, asked.row)}
            if asked.bits:
                answer["bits"] = values[asked.row].tobytes().hex()
            found.append(answer)
    return found


def check(value: Mapping[str, Any]) -> None:
    """Refuse a value that breaks the schema of records.

    Parameters
    ----------
    value
        The value.

    Raises
    ------
    StrataError
        Naming the first place where it does.
    """
    error = jsonschema.exceptions.best_match(_validator().iter_errors(value))
    if error is not None:
        where = "/".join(map(str, error.absolute_path)) or "the top"
        raise StrataError(f"the record breaks its schema at {where}: {error.message[:200]}")


def write(value: Mapping[str, Any], directory: FilePath) -> FilePath:
    """Check a record and write it as `<sha256>.json`; the file is there whole or not at all.

    Parameters
    ----------
    value
        The record.
    directory
        Where it goes.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    StrataError
        When it breaks the schema or cannot be written.
    """
    check(value)
    data = encode(value)
    decode(data)  # what a reader would refuse is not written
    file = directory / f"{name_of(data)}.json"
    whole_file.write(file, data)
    return file


def _complete(plan: Plan, results: Sequence[Mapping[str, Any]], evidence: Sequence[Evidence | None]) -> list[Evidence]:
    """The evidence of every case. Raises StrataError when a planned case is missing or without an output."""
    ended = tuple((result["path"], result["case"]) for result in results)
    if ended != plan.pairs or len(evidence) != len(results):
        raise StrataError(f"no record: {len(ended)} cases ended of the {len(plan.pairs)} that were planned")
    kept = []
    for result, item in zip(results, evidence, strict=True):
        if item is None:
            raise StrataError(f"no record: a case gave no output: {result['path']} {result['case']}")
        if (item.path, item.case) != (result["path"], result["case"]):
            raise StrataError(f"no record: the output kept for {result['path']} {result['case']} is of another case")
        kept.append(item)
    return kept


class _Images:
    """The images of a record, each once, in the order in which they were launched first."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []

    def index(self, image: Image, loaded: str) -> int:
        kernel = image.kernel
        one = {
            "entry": kernel.entry,
            "defines": [[name, value] for name, value in kernel.defines],
            "arch": image.arch,
            "loaded": loaded,
            "options": list(image.options),
            "compiler": printable(image.compiler, 160),
            "digest": image.digest,
            "sources": included(f"{kernel.source}.cu"),
            "figures": {name: int(value) for name, value in image.figures.items()},
        }
        if one not in self.found:
            self.found.append(one)
        return self.found.index(one)


def _case(result: Mapping[str, Any], kept: Evidence, images: _Images) -> dict[str, Any]:
    by_digest = {(image.kernel.entry, image.digest): image for image in kept.images}
    launches = []
    for witness in kept.witnesses:
        image = by_digest.get((witness.entry, witness.image))
        if image is None:
            raise StrataError(f"no record: {kept.path} {kept.case} ran an image that is not its path's")
        index = images.index(image, witness.arch)
        launches.append({"image": index, "grid": list(witness.grid), "blocks": witness.blocks_run})
    checks = result["checks"]
    return {
        "path": kept.path,
        "case": kept.case,
        "inputs": kept.inputs,
        "rows": kept.rows,
        "output": kept.output,
        "verdict": result["verdict"],
        "checks": [[check["name"], check["verdict"]] for check in checks],
        # Figures that are not finite are text in a result ("NaN", "Infinity"), which float() reads.
        "slack": {
            check["name"]: bits_of(float(s)) for check in checks if (s := check["figures"].get("slack")) is not None
        },
        "prediction": _prediction(_operation(kept), checks),
        "launches": launches,
    }


def _prediction(operation: Recordable, checks: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """How many bits of the path were predicted and differed, and the readings that gave all; None where none was."""
    claim = operation.claim(checks)
    if claim is None:
        return None
    return {"readings": list(claim.readings), "compared": claim.compared, "differing": claim.differing}


def _operation(kept: Evidence) -> Recordable:
    return registry.recordable(PATHS[kept.path].operation)


def _timing(result: Mapping[str, Any]) -> dict[str, Any] | None:
    """Device times in whole nanoseconds, None for a case without."""
    new, old = (result["figures"].get(f"device_{side}") for side in ("new", "old"))
    if not new or not old:
        return None
    nanoseconds = [[max(1, round(time * 1e6)) for time in side["milliseconds"]] for side in (new, old)]
    return {"path": result["path"], "case": result["case"], "new_ns": nanoseconds[0], "old_ns": nanoseconds[1]}


@cache
def _validator() -> Any:
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema)
