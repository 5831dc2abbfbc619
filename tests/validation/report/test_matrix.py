"""What the gate makes of the records of a report: each kind of evidence has its own state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path as FilePath

from strata.kernels.paths import PATHS
from tests.strata.gates import builder
from tests.strata.gates.builder import HOPPER, PROMPT, TURING
from validation.record.canonical import encode, name_of
from validation.report.from_record import of_record
from validation.report.gate_part import gate
from validation.report.matrix import Matrix, matrix
from validation.report.read import Evidence
from validation.report.source import Source, Verified

SM75, SM80 = "prompt_attention/q4_0/sm75", "prompt_attention/q4_0/sm80"
LANES = ("CPU x86_64", None, "lanes-x86_64")


def source(paths: list[str], card: tuple[str, int | None, str], executor: str = "cuda") -> Source:
    data = encode(builder.value(paths, card, executor=executor))
    return of_record(data, f"{name_of(data)}.json")


def states(made: Matrix, path: str) -> dict[str, str]:
    """The state of a path by column."""
    cells = dict(made.rows)[path]
    return {title: cell.state for (title, _), cell in zip(made.columns, cells, strict=True)}


def test_without_a_record_nothing_is_open_and_every_lock_says_its_way() -> None:
    made = matrix(Evidence([]))
    assert [path for path, _ in made.rows] == [name for name, path in PATHS.items() if path.baseline is not None]
    for path, cells in made.rows:
        found = states(made, path)
        elsewhere = set() if PATHS[path].tier == "simt" else {"n/a"}
        assert set(found.values()) == {"locked", "simulated"} | elsewhere
        assert all(cell.way for cell in cells if cell.state == "locked")
    text = gate(Evidence([]), made)
    assert "a run by itself opens nothing" in text
    assert "state open" not in text.partition("<ul")[0]


def test_a_record_of_a_newer_card_opens_sm80_and_is_a_surrogate_for_turing() -> None:
    evidence = Evidence([source(PROMPT, HOPPER)])
    made = matrix(evidence)
    assert states(made, SM75) == {
        **dict.fromkeys(("8.0", "8.6", "8.9", "9.0", "10.0", "12.0"), "n/a"), "7.5": "surrogate", "CPU": "simulated",
    }  # fmt: skip
    assert states(made, SM80) == {
        **dict.fromkeys(("8.0", "8.6", "8.9", "9.0", "10.0", "12.0"), "open"), "7.5": "n/a", "CPU": "simulated",
    }  # fmt: skip
    text = gate(evidence, made)
    assert "No verifier has looked at 1" in text
    # It is not accepted yet, and the page must not say so.
    assert "(accepted)" not in text


def test_a_turing_record_opens_sm75_there_alone() -> None:
    made = matrix(Evidence([source([SM75], TURING)]))
    assert states(made, SM75)["7.5"] == "open"
    assert list(states(made, SM75).values()).count("open") == 1
    assert "open" not in states(made, SM80).values()


def test_a_record_of_lanes_is_simulated_and_opens_nothing() -> None:
    made = matrix(Evidence([source([SM75], LANES, "lanes")]))
    assert states(made, SM75)["7.5"] == "simulated"
    assert all("open" not in states(made, path).values() for path, _ in made.rows)


def test_refused_and_misnamed_records_open_nothing() -> None:
    good = source(PROMPT, HOPPER)
    for bad in (
        replace(good, verified=Verified(good.name, False, "REFUSED")),
        of_record(encode(builder.value(PROMPT, HOPPER)), str(FilePath("other.json"))),
    ):
        made = matrix(Evidence([bad]))
        assert all("open" not in states(made, path).values() for path, _ in made.rows)


def test_a_card_beside_the_usual_ones_has_a_column() -> None:
    made = matrix(Evidence([source([SM80], ("NVIDIA Thor", 110, "sm_110"))]))
    assert ("11.0", "") in made.columns
    assert states(made, SM80)["11.0"] == "open"
