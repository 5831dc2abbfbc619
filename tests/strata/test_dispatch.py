"""One path serves each call, and the reason is never missing."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.device import LANES, PINNED_ARCHS, Device, dotted, named
from strata.dispatch import Served, serve
from strata.executors.base import StrataError
from strata.gates.gate import Decision, decide
from strata.gates.sources import of_path
from strata.kernels.paths import PATHS, Path
from strata.kernels.pool import MODES
from strata.switches import PROMPT_OLD, PROMPT_Q4, PROMPT_Q4_TC, SELECT_SIMT, SELECT_TC, SWITCHES, Switches, read
from tests.strata.gates import builder

#: Every compute capability from 6.0 to 12.1 that exists, and what serves it where the gate is open and nothing else
#: is asked: written out, the table that dispatch must make.
TIER = {
    60: "simt", 61: "simt", 62: "simt", 70: "simt", 72: "simt",
    75: "sm75",
    80: "sm80", 86: "sm80", 87: "sm80", 88: "sm80", 89: "sm80", 90: "sm80", 100: "sm80", 101: "sm80", 103: "sm80",
    110: "sm80", 120: "sm80", 121: "sm80",
}  # fmt: skip
#: Environments that ask for something, and the modes that they keep on the baseline everywhere.
ENVIRONMENTS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "none": ({}, ()),
    "old": ({PROMPT_OLD: "1"}, MODES),
    "old off": ({PROMPT_OLD: "0"}, ()),
    "q4 off": ({PROMPT_Q4: "0"}, ("q4_0",)),
    "q4 bad": ({PROMPT_Q4: "1"}, ()),
    "tc": ({PROMPT_Q4_TC: "1"}, ()),
    "tc and old": ({PROMPT_Q4_TC: "1", PROMPT_OLD: "1"}, MODES),
    "tc and q4 off": ({PROMPT_Q4_TC: "1", PROMPT_Q4: "0"}, ("q4_0",)),
    "select": ({SELECT_SIMT: "1"}, ()),
}


def open_gate(path: Path, device: Device) -> Decision:
    return Decision(True, f"open: record 0123456789ab proves {path.name}", record="0" * 64)


def locked_gate(path: Path, device: Device) -> Decision:
    return Decision(False, "locked: no record", "open it by `the command`")


def real_gate(path: Path, device: Device) -> Decision:
    return decide(path, device, of_path(path), ())


def on(capability: int) -> Device:
    """A card with a pinned compiler that knows it."""
    major = 13 if capability in PINNED_ARCHS[13] else 12
    return Device("a card", capability, (major, 0), major, PINNED_ARCHS[major])


def check(served: Served, device: Device) -> None:
    """What holds for every answer: a path that can run there, and one line of reason that names it."""
    assert served.reason
    assert "\n" not in served.reason
    assert (served.target is None) == (served.path is None or device.capability is None)
    assert (served.instead_of is None) == (served.cause is None)
    assert served.cause in (None, "switch", "compiler", "gate")
    if served.path is None:
        return
    assert (served.instead_of or served.path) in served.reason
    first = served.refused[0] if served.refused else None
    assert (served.instead_of, served.cause) == ((first.path, first.cause) if first else (None, None))
    for one in served.refused:
        refused = PATHS[one.path]
        assert served.path == refused.baseline or PATHS[served.path].operation == refused.operation
        assert one.path != served.path
    assert served.path in served.reason
    path = PATHS[served.path]
    assert device.capability is None or device.capability >= path.min_capability
    if path.baseline is not None:
        assert served.target is not None
        assert served.target.startswith("sm_")
        assert path.min_capability <= int(served.target[3:]) <= (device.capability or 0)


@pytest.mark.parametrize("asked", ENVIRONMENTS, ids=lambda asked: asked.replace(" ", "_"))
@pytest.mark.parametrize("gate", [open_gate, locked_gate])
def test_the_truth_table(gate: Callable[[Path, Device], Decision], asked: str) -> None:
    """Capability x mode x switches x gate."""
    environ, kept = ENVIRONMENTS[asked]
    switches = read(environ)
    assert set(TIER) == {arch for archs in PINNED_ARCHS.values() for arch in archs if arch >= 60}
    for capability, tier in TIER.items():
        for mode in MODES:
            want = tier if gate is open_gate and mode not in kept else "simt"
            if (mode, capability) == ("q4_0", 75) and environ.get(PROMPT_Q4_TC) != "1":
                want = "simt"
            operation = "decode_attention" if want == "simt" else "prompt_attention"
            device = on(capability)
            served = serve("prompt_attention", mode, device, switches, gate)
            check(served, device)
            assert (served.path, served.target) == (f"{operation}/{mode}/{want}", f"sm_{capability}")
            unasked = (mode, capability) == ("q4_0", 75) and environ.get(PROMPT_Q4_TC) != "1"
            cause = "switch" if mode in kept or unasked else "gate"
            assert served.cause == (None if want == tier else cause)


@given(
    st.integers(0, 200),
    st.sampled_from(MODES),
    st.sampled_from(["prompt_attention", "decode_attention", "kv_pack"]),
    st.one_of(st.none(), st.tuples(st.integers(9, 15), st.integers(0, 9))),
    st.sampled_from([None, 12, 13, 14]),
    st.lists(st.sampled_from(sorted(TIER)), unique=True),
    st.fixed_dictionaries({}, optional={name: st.sampled_from(["0", "1", "x"]) for name in SWITCHES}),
    st.booleans(),
)
def test_any_device_gets_an_answer(
    capability: int,
    mode: str,
    operation: str,
    driver: tuple[int, int] | None,
    compiler: int | None,
    archs: list[int],
    environ: dict[str, str],
    is_open: bool,
) -> None:
    device = Device("any", capability, driver, compiler, tuple(sorted(archs)))
    gate = open_gate if is_open else locked_gate
    served = serve(operation, mode, device, read(environ), gate)
    check(served, device)
    runnable = driver is not None and compiler is not None and driver >= (12, 0) and compiler <= driver[0]
    assert (served.path is not None) == (runnable and capability >= 60 and min(archs, default=999) <= capability)
    if not is_open:
        assert served.path is None or PATHS[served.path].tier == "simt"
    if operation != "prompt_attention" and served.path is not None:
        assert served.path == f"{operation}/{mode}/simt"


SELECT, SELECT_WARP = "block_select/fp32", "block_select_warp/fp32/simt"


@given(
    st.sampled_from(sorted(TIER)),
    st.fixed_dictionaries({}, optional={name: st.sampled_from(["0", "1"]) for name in (SELECT_SIMT, SELECT_TC)}),
    st.sets(st.sampled_from(["simt", "sm75", "sm80"])),
)
def test_the_highest_tier_that_is_asked_for_and_open_selects(
    capability: int, environ: dict[str, str], opened: set[str]
) -> None:
    """Of tensor cores that of the device, then the plain one, then the baseline; each refusal with its own cause."""

    def gate(path: Path, device: Device) -> Decision:
        return (open_gate if path.tier in opened else locked_gate)(path, device)

    device = on(capability)
    served = serve("block_select", "fp32", device, read(environ), gate)
    check(served, device)
    tried = [tier for tier in (TIER[capability], "simt") if tier != "simt"] + ["simt"]
    asked = {tier: environ.get(SELECT_SIMT if tier == "simt" else SELECT_TC) == "1" for tier in tried}
    due = next((tier for tier in tried if asked[tier] and tier in opened), None)
    assert served.path == (SELECT_WARP if due is None else f"{SELECT}/{due}")
    before = tried[: len(tried) if due is None else tried.index(due)]
    assert [one.path for one in served.refused] == [f"{SELECT}/{tier}" for tier in before]
    for tier, one in zip(before, served.refused, strict=True):
        assert one.cause == ("gate" if asked[tier] else "switch")
        switch = SELECT_SIMT if tier == "simt" else SELECT_TC
        assert (f"{switch}=1 asks" in one.why) != asked[tier]
        assert f"instead of {one.path}: {one.why}" in served.reason
    if due is not None:
        assert served.reason.endswith(f"{served.path} is {gate(PATHS[served.path], device).reason}") == bool(before)


def test_two_refusals_are_one_line() -> None:
    served = serve("block_select", "fp32", on(90), read({SELECT_TC: "1"}), locked_gate)
    assert served.reason == (
        "block_select_warp/fp32/simt instead of block_select/fp32/sm80: locked: no record; open it by `the command`, "
        "and instead of block_select/fp32/simt: it serves only where STRATA_SELECT_SIMT=1 asks; the gate says "
        "locked: no record; open it by `the command`"
    )
    assert (served.instead_of, served.cause) == ("block_select/fp32/sm80", "gate")
    served = serve("block_select", "fp32", LANES, read({SELECT_TC: "1"}), open_gate)
    assert (served.path, "so no path is proved for it" in served.reason) == (SELECT_WARP, True)


def test_any_card_s_record_opens_a_plain_path_everywhere() -> None:
    """Its bits are the same on every card; a record of lanes opens it nowhere."""
    value = builder.value([f"{SELECT}/simt"], builder.TURING)
    record = builder.parsed(value)
    value["provenance"] |= {"executor": "lanes", "capability": None}
    lanes = builder.parsed(value)
    path = PATHS[f"{SELECT}/simt"]

    def proved(path: Path, device: Device) -> Decision:
        return decide(path, device, of_path(path), [record])

    for capability in TIER:
        decision = decide(path, on(capability), of_path(path), [record])
        assert decision.open
        assert decision.doubt == ""
        assert not decide(path, on(capability), of_path(path), [lanes]).open
        served = serve("block_select", "fp32", on(capability), read({SELECT_SIMT: "1"}), proved)
        assert served.path == path.name
    old = builder.parsed(builder.value([path.name], ("NVIDIA GTX 1080", 61, "sm_61")))
    refused = decide(path, on(90), of_path(path), [old])
    assert not refused.open
    assert "says compute capability 6.1, expected 7.0 or newer" in refused.reason


@pytest.mark.parametrize(
    ("capability", "path", "target"),
    [
        (76, "prompt_attention/fp16/sm75", "sm_75"),
        (91, "prompt_attention/fp16/sm80", "sm_90"),
        (122, "prompt_attention/fp16/sm80", "sm_121"),
        (130, "decode_attention/fp16/simt", "compute_121"),
        (200, "decode_attention/fp16/simt", "compute_121"),
    ],
)
def test_devices_that_nobody_has_seen(capability: int, path: str, target: str) -> None:
    """A later minor runs the nearest lower machine code; a new major only PTX, of which no record speaks."""
    device = Device("new", capability, (13, 0), 13, PINNED_ARCHS[13])
    served = serve("prompt_attention", "fp16", device, Switches(), open_gate)
    check(served, device)
    assert (served.path, served.target) == (path, target)
    if target.startswith("compute"):
        assert f"no machine code for compute capability {dotted(capability)}" in served.reason


def test_machine_code_below_the_tier_does_not_serve_it() -> None:
    """sm_72 code runs on 7.5, but cannot hold Turing's instructions."""
    served = serve("prompt_attention", "fp16", Device("x", 75, (13, 0), 12, (70, 72)), Switches(), open_gate)
    assert (served.path, served.target, served.cause) == ("decode_attention/fp16/simt", "sm_72", "compiler")


def test_a_refusal_names_record_and_command() -> None:
    """In one line, with the path that would have served."""
    switches = read({PROMPT_Q4_TC: "1"})
    served = serve("prompt_attention", "q4_0", named(75), switches, real_gate)
    assert served.reason == (
        "decode_attention/q4_0/simt instead of prompt_attention/q4_0/sm75: locked: no accepted record that says "
        "compute capability 7.5; a card of compute capability 7.5 opens it by `nox -s parity -- --record`"
    )
    failed = builder.value(["prompt_attention/q4_0/sm75"])
    failed["cases"][0]["verdict"] = "EXCEEDS"
    record = builder.parsed(failed)

    def gate(path: Path, device: Device) -> Decision:
        return decide(path, device, of_path(path), [record])

    served = serve("prompt_attention", "q4_0", named(75), switches, gate)
    assert f"record {record.short} failed 1 of 3 cases" in served.reason
    assert "`nox -s parity -- --record`" in served.reason


def test_q4_on_turing_must_be_asked_for() -> None:
    served = serve("prompt_attention", "q4_0", named(75), Switches(), open_gate)
    assert served.reason == (
        "decode_attention/q4_0/simt instead of prompt_attention/q4_0/sm75: it serves only where "
        "STRATA_PROMPT_ATTN_Q4_TC=1 asks; the gate says open: record 0123456789ab "
        "proves prompt_attention/q4_0/sm75"
    )


@pytest.mark.parametrize(
    ("device", "why"),
    [
        (Device("old", 52, (12, 0), 12, PINNED_ARCHS[12]), "5.2, decode_attention/int8/simt needs 6.0"),
        (Device("x", 90, None, 13, PINNED_ARCHS[13]), r"driver runs no CUDA, expected 12\.0 or newer \(driver 525\)"),
        (Device("x", 90, (11, 8), 12, PINNED_ARCHS[12]), r"its driver runs CUDA 11\.8, expected 12\.0 or newer"),
        (Device("x", 90, (12, 9), 13, PINNED_ARCHS[13]), "runs CUDA 12, the compiler is of CUDA 13: use cuda12x"),
        (Device("x", 90, (13, 0)), "there is no NVRTC; the extras cuda12x and cuda13x bring one"),
        (Device("x", 70, (13, 0), 13, PINNED_ARCHS[13]), r"knows 7\.5 and newer, this is 7\.0: use cuda12x"),
        (Device("x", 90, (13, 0), 13), r"\(CUDA 13\) knows nothing, this is 9\.0"),
    ],
)  # fmt: skip
def test_where_nothing_runs(device: Device, why: str) -> None:
    served = serve("prompt_attention", "int8", device, Switches(), open_gate)
    check(served, device)
    assert served.path is None
    assert served.reason.startswith("no path of prompt_attention/int8 can run: ")
    assert re.search(why, served.reason)


def test_the_cpu_is_served_by_the_baseline() -> None:
    served = serve("prompt_attention", "int8", LANES, Switches(), open_gate)
    check(served, LANES)
    assert served.path == "decode_attention/int8/simt"
    assert "is no card" in served.reason


def test_an_operation_with_one_path_needs_no_gate() -> None:
    for operation in ("decode_attention", "kv_pack"):
        served = serve(operation, "k8v4", on(90), read({PROMPT_OLD: "1"}), locked_gate)
        assert served == Served(f"{operation}/k8v4/simt", f"{operation}/k8v4/simt: it is the only one", "sm_90")
    served = serve("prompt_attention", "k8v4", on(70), Switches(), open_gate)
    assert served.reason == "decode_attention/k8v4/simt: compute capability 7.0 has no other"


def test_unknown_names_are_refused() -> None:
    with pytest.raises(
        StrataError, match=r"operation 'block_choose': expected one of decode_attention, prompt_attention"
    ):
        serve("block_choose", "int8", LANES, Switches(), open_gate)
    with pytest.raises(StrataError, match=r"prompt_attention: mode 'q4', expected one of fp16, int8, k8v4, q4_0"):
        serve("prompt_attention", "q4", LANES, Switches(), open_gate)
