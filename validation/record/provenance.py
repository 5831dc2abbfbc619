"""Where and by what a record was made: attested, so believed or not, and never used to prove a number."""

from __future__ import annotations

import platform
import re
from datetime import UTC, datetime
from typing import Any

import numpy as np

from strata.executors.lanes.rules import parse_rule
from validation.run.executors import ExecutorPool

_DRIVER = re.compile(r"[0-9]{3}\.[0-9]{1,4}(\.[0-9]{1,3})?")
_RUNTIME = re.compile(r"[0-9]{2}\.[0-9]{1,2}")
_NVRTC = re.compile(r"[0-9]{2}\.[0-9]{1,2}\.[0-9]{1,4}")


def provenance(executor_pool: ExecutorPool, predicted: bool) -> dict[str, Any]:
    """The part `provenance` of a record.

    What is not known of a device is null.

    Parameters
    ----------
    executor_pool
        What ran the cases.
    predicted
        Whether lanes predicted bits on a card, whose compiler then counts.
    """
    facts = executor_pool.first.describe()
    lanes = executor_pool.lanes
    compiler = facts if lanes else executor_pool.predictor(executor_pool.rule).describe() if predicted else {}
    return {
        "executor": executor_pool.first.name,
        "device": f"CPU {platform.machine()}" if lanes else printable(facts.get("device") or "unknown", 120),
        "capability": executor_pool.first.capability,
        "multiprocessors": _count(facts.get("multiprocessors")),
        "memory_bytes": _count(facts.get("memory_bytes")),
        "driver": _matching(_DRIVER, facts.get("driver")),
        "cuda_runtime": _matching(_RUNTIME, facts.get("cuda_runtime")),
        "clock_khz": _count(facts.get("clock_khz")),
        "cupy": printable(facts["cupy"], 40) if facts.get("cupy") else None,
        "nvrtc": _matching(_NVRTC, facts.get("nvrtc")),
        "rule": _rule(executor_pool.rule) if lanes else None,
        "compiler": printable(compiler["compiler"], 160) if compiler.get("compiler") else None,
        "python": printable(platform.python_version(), 20),
        "numpy": printable(np.__version__, 20),
        "system": printable(f"{platform.system()} {platform.machine()}", 80),
        "made": datetime.now(UTC).date().isoformat(),
    }


def printable(text: Any, most: int) -> str:
    """A text as a record holds it, in printable ASCII; other characters become `?`.

    Parameters
    ----------
    text
        Any object; its `str` is taken.
    most
        Characters at most.
    """
    return "".join(char if char.isascii() and char.isprintable() else "?" for char in str(text))[:most]


def _count(value: Any) -> int | None:
    return int(value) if value else None


def _matching(pattern: re.Pattern[str], value: Any) -> str | None:
    return value if isinstance(value, str) and pattern.fullmatch(value) else None


def _rule(name: str) -> str:
    """A rule in one spelling: its name, or `block,F`."""
    rule = parse_rule(name)
    return name if re.fullmatch(r"[a-z][a-z0-9_]*", name) else f"{rule.block},{rule.frac}"
