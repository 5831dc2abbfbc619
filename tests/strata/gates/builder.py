"""Makes records for tests: the shape of strata/gates/record.schema.json, of the kernels as they lie in a directory.

What only the verifier reads (rows, proofs, slack) has the right shape and no meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path as FilePath
from typing import Any

from strata.executors.base import KERNELS
from strata.executors.cuda.images import FLAGS
from strata.gates.evidence import plan_digest
from strata.gates.record import Record, of_value
from strata.gates.sources import Program, included, of_path, program
from strata.kernels import registry
from strata.kernels.paths import PATHS
from validation.operations.block_select import plan as select_plan
from validation.operations.experts import required
from validation.operations.kv_pack.case import Case
from validation.operations.linear import plan as linear_plan
from validation.record.canonical import encode, name_of

DIGEST = "0" * 64
#: Cases of a record of attention: both required ones and a small one.
SIZES = ((4096, 512), (1500, 512), (211, 3))
#: Cases of records of other operations: the required ones.
REQUIRED_CASES = {
    "expert_fused": tuple(case.text() for case in required.cases(1)),
    "block_select": tuple(one.case.text() for one in select_plan.required(1)),
    "linear": tuple(one.case.text() for one in linear_plan.required(1)),
}
TURING, HOPPER = ("NVIDIA T4", 75, "sm_75"), ("NVIDIA H200", 90, "sm_90")
PROMPT = [name for name in PATHS if name.startswith("prompt_attention/")]
GATED = [name for name, path in PATHS.items() if path.baseline is not None]


def case_text(context: int, queries: int, seed: int = 1) -> str:
    """The text of a case of the required recipe."""
    return Case("signed_decades", seed, context, queries).text()


def value(
    paths: Sequence[str],
    card: tuple[str, int | None, str] = TURING,
    sizes: Sequence[tuple[int, int]] = SIZES,
    executor: str = "cuda",
    directory: FilePath = KERNELS,
) -> dict[str, Any]:
    """A record in which every case of every path passed. card: name, capability times ten, what was loaded."""
    device, capability, loaded = card
    images: list[dict[str, Any]] = []
    cases: list[dict[str, Any]] = []
    for name in paths:
        own = _images(name, loaded, directory)
        launched = range(len(images), len(images) + len(own))
        images += own
        texts = REQUIRED_CASES.get(PATHS[name].operation) or [case_text(*size) for size in sizes]
        cases += [_case(name, text, launched) for text in texts]
    pairs = [(case["path"], case["case"]) for case in cases]
    sources = {file: digest for name in paths for file, digest in of_path(PATHS[name], directory).files.items()}
    tables = {form: digest for name in paths for form, digest in of_path(PATHS[name], directory).codebooks.items()}
    card_facts = dict.fromkeys(
        ("driver", "cuda_runtime", "cupy", "nvrtc", "multiprocessors", "memory_bytes", "clock_khz")
    )
    return {
        "schema": "strata-parity-record/1",
        "project": "0.1.0",
        "provenance": {
            **card_facts, "executor": executor, "device": device, "capability": capability, "rule": None,
            "compiler": None, "python": "3.12.1", "numpy": "2.1.0", "system": "Linux x86_64", "made": "2030-01-31",
        },
        "sources": sources,
        **({"codebooks": tables} if tables else {}),
        "images": images,
        "plan": {
            "profile": "standard", "seed": 1, "paths": list(paths), "planned": len(cases), "digest": plan_digest(pairs),
        },
        "cases": cases,
        "root": DIGEST,
        "challenge": [{"case": 0, "row": 0, "bits": "0" * 2048, "proof": []}],
        "identification": None,
        "timings": [],
    }  # fmt: skip


def replan(record: dict[str, Any]) -> dict[str, Any]:
    """The record with a plan of just the cases it holds."""
    done = deepcopy(record)
    pairs = [(case["path"], case["case"]) for case in done["cases"]]
    done["plan"].update(planned=len(pairs), digest=plan_digest(pairs))
    return done


def parsed(record: dict[str, Any], local: bool = False) -> Record:
    """The record as the gate reads it, under its true name."""
    return of_value(record, name_of(encode(record)), local)


def write(record: dict[str, Any], folder: FilePath) -> str:
    """Put the record into a directory under its name; the name comes back."""
    data = encode(record)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name_of(data)}.json").write_bytes(data)
    return name_of(data)


def _images(name: str, loaded: str, directory: FilePath) -> list[dict[str, Any]]:
    """An image of every kernel that the path may launch."""
    path = PATHS[name]
    made = of_path(path, directory)
    if path.operation in REQUIRED_CASES:  # whose kernels are of two files
        return [
            _image(program(kernel.entry, kernel.defines), included(f"{kernel.source}.cu", directory), loaded)
            for kernel in registry.find(path.operation).kernels(path)
        ]
    # Paths that need no record have no list of kernels: any entry does.
    return [_image(one, list(made.files), loaded) for one in sorted(made.programs) or [(path.operation, ())]]


def _image(one: Program, files: Sequence[str], loaded: str) -> dict[str, Any]:
    entry, defines = one
    arch = loaded.partition(" on ")[0]
    options = [*FLAGS, f"-arch={arch}", *(f"-D{key}={number}" for key, number in defines)]
    return {
        "entry": entry, "defines": [list(define) for define in reversed(defines)], "arch": arch, "loaded": loaded,
        "options": options, "compiler": "NVRTC 13.0.88", "digest": DIGEST, "sources": sorted(files), "figures": {},
    }  # fmt: skip


def _case(path: str, text: str, images: Sequence[int]) -> dict[str, Any]:
    return {
        "path": path, "case": text, "inputs": DIGEST, "rows": 24, "output": DIGEST, "verdict": "WITHIN_BOUND",
        "checks": [["error", "WITHIN_BOUND"]], "slack": {"fp64": DIGEST[:16]}, "prediction": None,
        "launches": [{"image": image, "grid": [1, 1, 1], "blocks": 1} for image in images],
    }  # fmt: skip
