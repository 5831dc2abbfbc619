"""What the figures of a run come to, family by family: a family is one recipe of a profile on one path.

A value check (`bound`, `agreement`, `baseline bound`, the published gates, the rotation of kv_pack)
says how much of what it allows was used: its slack, the largest |got - want| / bound of its elements.
Each is kept as

- `max`, over the cases of the family: how near a case came to failing;
- `median`, over the cases: what is usual, which one hard case does not hide;
- `rms`, over the elements of all cases: the largest of few elements moves with the luck of a rounding,
  the root mean square of all moves only when the arithmetic or the bound does.

Checks of bits have no figure here: they hold or they do not.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TypeVar

from strata.executors.base import StrataError
from strata.kernels.paths import PATHS
from validation.core.verdict import Verdict
from validation.run import plan as profiles

#: Path and recipe.
Key = tuple[str, str]
#: The case texts of a family are known by so many hex digits of their digest.
_DIGEST = 16
#: Recipes whose data is not in this repository: nothing to keep figures of.
_FOREIGN = ("captured",)


_Result = TypeVar("_Result", bound=Mapping[str, Any])


@dataclass(frozen=True)
class Family:
    """cases: how many; digest: of their texts; figures: by name, such as `bound rms`, NaN where a case had a NaN."""

    cases: int
    digest: str
    figures: Mapping[str, float] = field(default_factory=dict)


def digest(texts: Iterable[str]) -> str:
    """Hex digits that stand for the case texts of a family, in any order."""
    return hashlib.sha256("\n".join(sorted(texts)).encode()).hexdigest()[:_DIGEST]


def planned(profile: str, seed: int) -> dict[Key, str]:
    """The families that a profile has on all paths, with the digest of their cases."""
    paths = list(PATHS.values())
    entries = profiles.entries(seed, profile, paths)
    texts: dict[Key, list[str]] = {}
    for job in profiles.plan(paths, entries, lanes=True):
        texts.setdefault((job.path.name, job.case.recipe), []).append(job.case.text())
    return {key: digest(own) for key, own in sorted(texts.items())}


def of_results(results: Sequence[Mapping[str, Any]]) -> dict[Key, Family]:
    """The families of finished cases, as `run.json` holds them. A family with a case that was not run is left out.

    Raises StrataError when `results` are not results of cases.
    """
    groups: dict[Key, list[Mapping[str, Any]]] = {}
    try:
        for result in results:
            if result["recipe"] not in _FOREIGN:
                groups.setdefault((result["path"], result["recipe"]), []).append(result)
        return {
            key: Family(len(own), digest(str(result["case"]) for result in own), _figures(own))
            for key, own in sorted(groups.items())
            if all(result["verdict"] != Verdict.NOT_RUN.value for result in own)
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StrataError(f"these are no results of cases: {type(error).__name__} {error}") from error


def of_profile(results: Sequence[_Result], profile: str, seed: int) -> list[_Result]:
    """What a run of the profile alone would have given, of the results of a record: that holds each case once, and
    the required sizes besides."""
    by_pair = {(result["path"], result["case"]): result for result in results}
    paths = [PATHS[name] for name in dict.fromkeys(result["path"] for result in results)]
    if not paths:
        return []
    entries = profiles.entries(seed, profile, paths)
    entries = [entry for entry in entries if any(profiles.fits(entry.case, path) for path in paths)]
    planned = profiles.plan(paths, entries, lanes=False)
    pairs = [(job.path.name, job.case.text()) for job in planned]
    return [by_pair[pair] for pair in pairs if pair in by_pair]


def _figures(results: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    slack: dict[str, list[float]] = {}
    squares: dict[str, list[tuple[float, int]]] = {}
    for result in results:
        for check in result["checks"]:
            of = check["figures"]
            if "slack" in of:
                slack.setdefault(check["name"], []).append(float(of["slack"]))  # also "NaN" and "Infinity"
            if "rms" in of:
                squares.setdefault(check["name"], []).append((float(of["rms"]), int(of["compared"])))
    out: dict[str, float] = {}
    for name, values in sorted(slack.items()):
        broken = any(math.isnan(value) for value in values)
        out[f"{name} max"] = math.nan if broken else max(values)
        out[f"{name} median"] = math.nan if broken else median(values)
        if name in squares:
            total = sum(count for _, count in squares[name])
            out[f"{name} rms"] = math.sqrt(sum(rms * rms * count for rms, count in squares[name]) / total)
    return out


def median_slack(results: Sequence[Mapping[str, Any]]) -> float | None:
    """Median over cases of the slack of `bound`, the derived bound of the path itself; None without any."""
    found = [
        float(check["figures"]["slack"])
        for result in results
        for check in result["checks"]
        if check["name"] == "bound" and "slack" in check["figures"]
    ]
    if any(math.isnan(value) for value in found):
        return math.nan
    return median(found) if found else None
