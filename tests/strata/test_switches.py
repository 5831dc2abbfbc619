"""Switches: absent means off, bad values count as absent, and nothing that was asked for is ignored in silence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.switches import KINDS, PREFIX, SETTINGS, SWITCHES, Switch, Switches, read

ROOT = Path(__file__).resolve().parents[2]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def test_the_table_is_what_is_documented() -> None:
    assert set(SWITCHES) == {
        "STRATA_PROMPT_ATTN_Q4",
        "STRATA_PROMPT_ATTN_Q4_TC",
        "STRATA_PROMPT_ATTN_OLD",
        "STRATA_SELECT_SIMT",
        "STRATA_SELECT_TC",
        "STRATA_PREFILL_ELASTIC_LOAN",
        "STRATA_PREFILL_MTP_LOAN",
        "STRATA_PREFILL_HEAD_LOAN",
        "STRATA_PREFILL_RETAIN_STARTUP_CHUNK",
        "STRATA_PREFILL_REPEAT_LOAN",
        "STRATA_PREFILL_REPEAT_MIN_TOKENS",
        "STRATA_VERIFY_RECLAIM",
        "STRATA_PF_FUSED",
        "STRATA_PF_FUSED_NATIVE",
        "STRATA_PF_FUSED_NATIVE_SM75",
        "STRATA_PF_FUSED_NATIVE_SM75_ADAPTIVE",
        "STRATA_PF_FUSED_TILE",
    }
    for name, switch in SWITCHES.items():
        assert name == switch.name
        assert switch.kind in KINDS
        assert switch.meaning.endswith(".")
        assert "\n" not in switch.meaning
    assert not set(SWITCHES) & set(SETTINGS)


def test_every_name_in_the_code_is_known() -> None:
    """A quoted STRATA_* name in Python is a variable of the environment, and must be in a table."""
    files = [*(ROOT / "strata").rglob("*.py"), *(ROOT / "validation").rglob("*.py"), ROOT / "noxfile.py"]
    files += (ROOT / "tests").rglob("bench_*.py")
    found = {name for file in files for name in re.findall(r"[\"'](STRATA_[A-Z0-9_]+)[\"']", file.read_text())}
    assert {"STRATA_CACHE_DIR", "STRATA_BENCH_EXECUTOR", "STRATA_PROMPT_ATTN_Q4"} <= found
    macros = set(re.findall(r"-D(STRATA_[A-Z0-9_]+)", (ROOT / "strata/executors/lanes/build.py").read_text()))
    assert found <= {*SWITCHES, *SETTINGS, *macros}


def test_the_readme_names_every_switch_and_no_other() -> None:
    named = set(re.findall(r"STRATA_[A-Z0-9_]+", (ROOT / "README.md").read_text()))
    assert set(SWITCHES) <= named
    assert named <= {*SWITCHES, *SETTINGS}


def test_absent_and_empty_are_off() -> None:
    for environ in ({}, dict.fromkeys(SWITCHES, ""), {"PATH": "/bin", "STRATAGEM": "1"}):
        switches = read(environ)
        assert switches == Switches()
        assert {name: switches.value(name) for name in SWITCHES} == {name: s.default for name, s in SWITCHES.items()}


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("STRATA_PROMPT_ATTN_Q4", "0", None),
        ("STRATA_PROMPT_ATTN_Q4", "1", None),
        ("STRATA_PF_FUSED_NATIVE", "0", None),
        ("STRATA_PF_FUSED_NATIVE", "1", None),
        ("STRATA_PROMPT_ATTN_Q4", "2", "STRATA_PROMPT_ATTN_Q4='2': expected 0 or 1; counts as absent"),
        ("STRATA_PROMPT_ATTN_OLD", "1", None),
        ("STRATA_PROMPT_ATTN_OLD", "0", None),
        ("STRATA_PROMPT_ATTN_OLD", "yes", "STRATA_PROMPT_ATTN_OLD='yes': expected 0 or 1; counts as absent"),
        ("STRATA_PROMPT_ATTN_Q4_TC", " 1", "STRATA_PROMPT_ATTN_Q4_TC=' 1': expected 0 or 1; counts as absent"),
        ("STRATA_SELECT_SIMT", "0", None),
        ("STRATA_SELECT_SIMT", "1", None),
        ("STRATA_SELECT_TC", "1", None),
        ("STRATA_SELECT_TC", "2", "STRATA_SELECT_TC='2': expected 0 or 1; counts as absent"),
    ],
)
def test_values(name: str, value: str, problem: str | None) -> None:
    switches = read({name: value})
    assert switches.problems == (() if problem is None else (problem,))
    assert switches.value(name) == (value if problem is None else SWITCHES[name].default)


@pytest.mark.parametrize("value", ["2", "yes", "true", " 1", "00"])
def test_a_safeguard_in_the_wrong_word_is_on(value: str) -> None:
    """More is compared than was clearly asked for, never less, and the doctor says so."""
    switches = read({"STRATA_VERIFY_RECLAIM": value})
    assert switches.value("STRATA_VERIFY_RECLAIM") == "1"
    assert switches.problems == (f"STRATA_VERIFY_RECLAIM={value!r}: expected 0 or 1; counts as 1",)
    assert read({"STRATA_VERIFY_RECLAIM": "0"}).value("STRATA_VERIFY_RECLAIM") == "0"
    assert [name for name, switch in SWITCHES.items() if switch.otherwise] == ["STRATA_VERIFY_RECLAIM"]


def test_what_a_bad_value_counts_as_is_a_good_one() -> None:
    with pytest.raises(ValueError, match="expected 0 or 1"):
        Switch("STRATA_X", "flag", ("0", "1"), "0", "A flag.", "none", otherwise="yes")


def test_a_switch_of_an_operation_to_come_says_so() -> None:
    row = Switch("STRATA_X", "flag", ("0", "1"), "0", "1: asks for what is to come.", "weave", works=False)
    switches = read({row.name: "1"}, {row.name: row})
    assert dict(switches.values) == {row.name: "1"}
    assert switches.problems == ("STRATA_X=1 has no effect yet: weave does not exist in this version",)
    assert all(switch.works for switch in SWITCHES.values())


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("STRATA_PROMPT_ATTN_Q4TC", "STRATA_PROMPT_ATTN_Q4_TC"),
        ("STRATA_PROMPT_ATN_OLD", "STRATA_PROMPT_ATTN_OLD"),
        ("strata_prompt_attn_old", "STRATA_PROMPT_ATTN_OLD"),
        ("STRATA_CACHEDIR", "STRATA_CACHE_DIR"),
        ("STRATA_PF_FUSE", "STRATA_PF_FUSED"),
        ("STRATA_", None),
        ("STRATA_BANANA", None),
        ("STRATA_QSA_WARP", None),
    ],
)
def test_unknown_names_are_reported_with_one_that_is_near(name: str, near: str | None) -> None:
    (line,) = read({name: "1"}).problems
    said = "`strata switches` lists all" if near is None else f"the nearest known name is {near}"
    assert line == f"{name}='1': no such switch, it has no effect; {said}"


def test_a_switch_that_no_engine_reads_says_so() -> None:
    """Of loans, and of what is compared after one: the library acts on them, and no engine of this version asks it."""
    library = {name for name, switch in SWITCHES.items() if switch.library}
    assert library == {name for name in SWITCHES if "LOAN" in name or "PREFILL" in name or "RECLAIM" in name}
    for name in library:
        asked = "2048" if SWITCHES[name].kind == "number" else "1"
        said = f"{name}={asked} acts only in the library so far: no engine in this version reads it"
        assert read({name: asked}).notes == (said,)
        assert read({name: asked}).problems == ()
        assert read({name: SWITCHES[name].default}).notes == ()
    assert all(read({name: "1"}).notes == () for name in set(SWITCHES) - library)


def test_numbers_have_a_range() -> None:
    switch = Switch("STRATA_WIDTH", "number", ("8", "64"), "16", "A width.", "none")
    table = {switch.name: switch}
    for good in ("8", "64", "016"):
        assert read({switch.name: good}, table).problems == ()
    for bad in ("7", "65", "-8", "+8", "8.0", "\u0668", "9" * 400, "x"):
        (line,) = read({switch.name: bad}, table).problems
        assert "expected a whole number 8..64" in line
        assert len(line) < 200


@pytest.mark.parametrize(
    ("name", "kind", "allowed"),
    [
        ("X", "flag", ("1",)),
        ("STRATA_X", "word", ("1",)),
        ("STRATA_X", "flag", ()),
        ("STRATA_X", "number", ("2", "1")),
    ],
)
def test_a_malformed_row_is_refused(name: str, kind: str, allowed: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=name):
        Switch(name, kind, allowed, "", "Nothing.", "none")


@given(st.dictionaries(st.one_of(st.sampled_from([*SWITCHES, *SETTINGS]), TEXT.map(lambda t: PREFIX + t)), TEXT))
def test_any_environment_is_read(environ: dict[str, str]) -> None:
    """Never raises; a value either counts or is reported, in one line of plain text."""
    switches = read(environ)
    assert read(dict(reversed(environ.items()))) == switches
    for line in switches.problems:
        assert line.isascii()
        assert line.isprintable()
    for name, value in environ.items():
        if name in SWITCHES and value:
            reported = any(line.startswith(f"{name}=") for line in switches.problems)
            counts = value if SWITCHES[name].takes(value) else SWITCHES[name].otherwise
            assert switches.values.get(name, "") == counts
            assert reported or name in switches.values
        assert not (name not in SWITCHES and name in switches.values)
    unknown = [name for name in environ if name not in SWITCHES and name not in SETTINGS]
    assert len([line for line in switches.problems if "no such switch" in line]) == len(unknown)
