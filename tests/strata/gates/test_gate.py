"""The gate opens for a record that says so, of the path as it is now, and for nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.device import LANES, Device, named
from strata.formats import codebooks
from strata.gates.gate import COMMAND, Decision, decide
from strata.gates.policy import POLICY, Policy, Rule
from strata.gates.record import Record
from strata.gates.sources import of_path
from strata.kernels.paths import PATHS
from strata.kernels.tiers import NEWEST
from tests.strata.gates import builder
from tests.strata.gates.builder import HOPPER, TURING
from validation.operations.experts import required as experts
from validation.operations.experts.plan import small
from validation.run import plan as profiles

T4, H200 = Device("NVIDIA T4", 75), Device("NVIDIA H200", 90)
SM75, SM80 = "prompt_attention/q4_0/sm75", "prompt_attention/q4_0/sm80"
#: Asks nothing but a record, of every tier: what is still refused is refused by nature.
ANYTHING = Policy(
    dict.fromkeys(("sm75", "sm80", "simt"), Rule((0, NEWEST), (0, NEWEST))),
    dict.fromkeys({path.operation for path in PATHS.values()}, ()),
)
CAPABILITIES = (60, 61, 70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)


def ask(name: str, device: Device, *records: Record, policy: Policy = POLICY) -> Decision:
    decision = decide(PATHS[name], device, of_path(PATHS[name]), records, policy)
    assert "\n" not in decision.line
    assert decision.reason.startswith("open" if decision.open else "locked")
    assert bool(decision.way) != decision.open
    return decision


def test_without_a_record_every_tensor_core_path_is_locked() -> None:
    for name, path in PATHS.items():
        assert ask(name, named(75)).open == (path.baseline is None)
    assert ask(SM75, T4).line == (
        "locked: no accepted record that says compute capability 7.5; a card of compute capability 7.5 opens it by "
        "`nox -s parity -- --record`"
    )
    way = ask("expert_fused/iq3_s/q2_0/sm75", T4).way
    assert way.endswith("opens it by `nox -s parity -- --record --paths 'expert_fused/*'`")


def test_attested_records_open_their_tier() -> None:
    turing, hopper = (builder.parsed(builder.value([name], card)) for name, card in ((SM75, TURING), (SM80, HOPPER)))
    for capability in CAPABILITIES:
        device = Device("any", capability)
        assert ask(SM75, device, turing, hopper).open == (capability == 75)
        assert ask(SM80, device, turing, hopper).open == (capability >= 80)
    opened = ask(SM80, Device("any", 86), turing, hopper)
    assert opened.record == hopper.name
    assert opened.reason == f"open: record {hopper.short}, which says compute capability 9.0 (accepted)"
    assert not ask("prompt_attention/int8/sm75", T4, turing).open


@given(st.sampled_from(CAPABILITIES), st.sets(st.sampled_from(CAPABILITIES), min_size=1, max_size=3), st.booleans())
def test_a_rule_that_nobody_knows_is_said_on_the_line(capability: int, recorded: set[int], experts: bool) -> None:
    """Unless a record of that very kind of card opened the path, or the path's bits follow no rule."""
    name = "expert_fused/iq3_s/q2_0/sm80" if experts else SM80
    records = [parsed_of(name, one) for one in recorded]
    decision = ask(name, Device("any", capability), *records)
    opened = capability >= 80 and any(one >= 80 for one in recorded)
    assert decision.open == opened
    unknown = opened and not experts and capability not in (80, 86, 89, 90) and capability not in recorded
    said = f"which tensor-core rule {capability // 10}.{capability % 10} follows is not known"
    assert (said in decision.reason) == (said in decision.doubt) == unknown
    if capability in recorded and opened:
        assert f"which says compute capability {capability // 10}.{capability % 10} " in decision.reason


@cache
def parsed_of(name: str, capability: int) -> Record:
    return builder.parsed(builder.value([name], (f"card {capability}", capability, f"sm_{capability}")))


@pytest.mark.parametrize("policy", [POLICY, ANYTHING], ids=["the policy", "a policy that asks nothing"])
@pytest.mark.parametrize("device", [T4, H200, Device("x", 120)], ids=lambda device: device.name)
@pytest.mark.parametrize(
    ("name", "card", "executor", "why"),
    [
        (SM75, ("NVIDIA H200", 90, "compute_75 on sm_90"), "cuda",
         "surrogate: record ID ran sm_75 code on compute capability 9.0, which is no evidence for Turing"),
        (SM75, ("NVIDIA H200", 90, "sm_90"), "cuda",
         "surrogate: record ID ran sm_90 code on compute capability 9.0, which is no evidence for Turing"),
        (SM75, ("NVIDIA H200", 90, "sm_75"), "cuda",
         "surrogate: record ID ran sm_75 code on compute capability 9.0, which is no evidence for Turing"),
        (SM75, ("NVIDIA T4", 75, "compute_75 on sm_75"), "cuda",
         "record ID ran compute_75 on sm_75, compiled for compute_75, which is no evidence for machine code"),
        (SM75, ("NVIDIA T4", 75, "sm_90"), "cuda",
         "surrogate: record ID says sm_90 ran on compute capability 7.5, which cannot"),
        (SM75, ("NVIDIA T4", 75, "sm_70"), "cuda",
         "surrogate: record ID ran sm_70 code, which cannot hold sm75 paths"),
        (SM80, ("NVIDIA H200", 90, "compute_80 on sm_90"), "cuda",
         "record ID ran compute_80 on sm_90, compiled for compute_80, which is no evidence for machine code"),
        (SM80, ("NVIDIA T4", 75, "sm_75"), "cuda",
         "surrogate: record ID ran sm_75 code, which cannot hold sm80 paths"),
        (SM75, ("lanes", None, "lanes-x86_64"), "lanes",
         "simulated: record ID ran on the CPU (lanes), which is no evidence for a card"),
        (SM75, ("lanes", 75, "sm_75"), "lanes",
         "simulated: record ID ran on the CPU (lanes), which is no evidence for a card"),
        (SM80, ("NVIDIA H200", None, "sm_90"), "cuda",
         "simulated: record ID ran on the CPU (lanes), which is no evidence for a card"),
    ],
)  # fmt: skip
def test_other_evidence_opens_nothing(
    name: str, card: Any, executor: str, why: str, device: Device, policy: Policy
) -> None:
    for local in (False, True):
        record = builder.parsed(builder.value([name], card, executor=executor), local)
        decision = ask(name, device, record, policy=policy)
        assert not decision.open
        assert why.replace("ID", record.short) in decision.line
        assert COMMAND in decision.way


def test_required_sizes_are_those_that_records_are_made_with() -> None:
    """The hostile ones at the very size that the profiles plan, so that one case serves both."""
    texts = [entry.case.text() for entry in profiles.required(1)]
    for operation in POLICY.required:
        assert POLICY.missing(operation, texts) == ""
    assert {case for case in experts.cases(1) if case.recipe != experts.PUBLISHED.recipe} == {
        small(each.recipe, 1) for each in experts.HOSTILE
    }


def test_nothing_opens_on_lanes() -> None:
    everything = builder.parsed(builder.value([SM75])), builder.parsed(builder.value([SM80], HOPPER))
    for policy in (POLICY, ANYTHING):
        for name in (SM75, SM80):
            assert ask(name, LANES, *everything, policy=policy).reason.startswith("locked: simulated: ")


def test_a_local_record_counts_on_its_own_kind_of_card_alone() -> None:
    own = builder.parsed(builder.value([SM80], HOPPER), local=True)
    assert ask(SM80, H200, own).reason.endswith("(this machine's own)")
    for device in (Device("NVIDIA H200", 80), Device("NVIDIA H100", 90), Device("NVIDIA GeForce RTX 4090", 89)):
        assert f"record {own.short} is NVIDIA H200's own and counts there alone" in ask(SM80, device, own).line
    accepted = replace(own, local=False)
    assert ask(SM80, H200, own, accepted).reason.endswith("(accepted)")


def set_verdict(verdict: str, path: str = SM75) -> Callable[[dict[str, Any]], None]:
    def change(record: dict[str, Any]) -> None:
        next(case for case in record["cases"] if case["path"] == path)["verdict"] = verdict

    return change


def drop(context: int) -> Callable[[dict[str, Any]], None]:
    def change(record: dict[str, Any]) -> None:
        record["cases"] = [case for case in record["cases"] if f"context={context} " not in case["case"]]
        record.update(builder.replan(record))

    return change


def edit(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda record: record["plan"].update(fields)


def rename(record: dict[str, Any]) -> None:
    record["cases"][0]["case"] = builder.case_text(4096, 512, seed=2)


def repeat(record: dict[str, Any]) -> None:
    record["cases"].append(record["cases"][-1])
    record.update(builder.replan(record))


def other_launch(record: dict[str, Any]) -> None:
    """The first case launched the baseline only."""
    record["images"].append({**record["images"][0], "sources": ["decode_attention.cu"], "entry": "decode_attention"})
    record["cases"][0]["launches"] = [{"image": len(record["images"]) - 1, "grid": [1, 1, 1], "blocks": 1}]


def one_group_missing(record: dict[str, Any]) -> None:
    """Every case launched the kernels of two group sizes out of three."""
    for case in record["cases"]:
        del case["launches"][-1]


def other_macro(record: dict[str, Any]) -> None:
    defines = record["images"][0]["defines"]
    record["images"][0]["defines"] = [[key, 128 if key == "CELLS" else number] for key, number in defines]


def another_card(record: dict[str, Any]) -> None:
    record["provenance"]["capability"] = 80
    record["images"][0].update(arch="sm_80", loaded="sm_80")


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "exceeds": (set_verdict("EXCEEDS"), "failed 1 of 3 cases, the first recipe=signed_decades .*: EXCEEDS"),
    "void": (set_verdict("VOID"), ": VOID"),
    "not run": (set_verdict("NOT_RUN"), ": NOT_RUN"),
    "inconclusive": (set_verdict("INCONCLUSIVE"), ": INCONCLUSIVE"),
    "unknown verdict": (set_verdict("exact"), ": exact"),
    "4096 missing": (drop(4096), "lacks the required case of signed_decades at 4,096/512;"),
    "1500 missing": (drop(1500), "lacks the required case of signed_decades at 1,500/512;"),
    "case dropped": (lambda record: record["cases"].pop(), "planned 6 cases and holds 5"),
    "count edited": (edit(planned=7), "planned 7 cases and holds 6"),
    "digest edited": (edit(digest="1" * 64), "holds other cases than it planned"),
    "case renamed": (rename, "holds other cases than it planned"),
    "order": (lambda record: record["cases"].reverse(), "holds other cases than it planned"),
    "case twice": (repeat, "holds a case twice"),
    "path not planned": (edit(paths=["prompt_attention/int8/sm75"]), f"planned no case of {SM75}"),
    "source": (lambda record: record["sources"].update({"include/exp2.cuh": "1" * 64}), "another include/exp2.cuh"),
    "source left out": (lambda record: record["sources"].pop("prompt_attention.cu"), "another prompt_attention.cu"),
    "baseline only": (other_launch, "shows no launch of the path's kernel in recipe="),
    "a group that never ran": (one_group_missing, "never ran prompt_attention"),
    "another macro": (other_macro, "ran prompt_attention with other macros"),
    "a flag": (lambda record: record["images"][0]["options"].append("--use_fast_math"), "compiled with other flags"),
    "compiled as PTX": (
        lambda record: record["images"][0].update(arch="compute_75"),
        "ran sm_75, compiled for compute_75, which is no evidence for machine code",
    ),
    "another minor": (
        lambda record: record["provenance"].update(capability=76),
        "says compute capability 7.6, expected 7.5",
    ),
    "another card": (
        another_card,
        "ran sm_80 code on compute capability 8.0, which is no evidence for Turing",
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.replace(" ", "_"))
def test_one_change_closes_the_path(change: str) -> None:
    """Each by the rule that is meant, and with a way to open it."""
    alter, why = CHANGES[change]
    record = builder.value([SM75, "prompt_attention/int8/sm75"])
    assert ask(SM75, T4, builder.parsed(record)).open
    altered = deepcopy(record)
    alter(altered)
    assert altered != record
    parsed = builder.parsed(altered)
    decision = ask(SM75, T4, parsed)
    assert not decision.open
    assert decision.record == parsed.name
    assert re.search(why, decision.line)
    assert parsed.short in decision.line


def test_another_path_s_failure_closes_nothing() -> None:
    record = builder.value([SM75, "prompt_attention/int8/sm75"])
    set_verdict("EXCEEDS", "prompt_attention/int8/sm75")(record)
    assert ask(SM75, T4, builder.parsed(record)).open
    assert not ask("prompt_attention/int8/sm75", T4, builder.parsed(record)).open


POOL = [
    builder.parsed(record, local)
    for local in (False, True)
    for record in (
        builder.value([SM75]),
        builder.value([SM75, SM80], HOPPER),
        builder.value([SM80], ("NVIDIA H200", 90, "compute_80 on sm_90")),
        builder.value([SM75], sizes=builder.SIZES[:1]),
        builder.value([SM75], ("lanes", None, "lanes-x86_64"), executor="lanes"),
        builder.value([SM80], ("NVIDIA A100", 80, "sm_80")),
    )
]


@given(
    st.lists(st.sampled_from(range(len(POOL))), max_size=6),
    st.lists(st.sampled_from(range(len(POOL))), max_size=3),
    st.sampled_from([SM75, SM80]),
    st.sampled_from([T4, H200, LANES, Device("NVIDIA A100", 80), Device("new", 140)]),
)
def test_records_only_ever_add(chosen: list[int], more: list[int], name: str, device: Device) -> None:
    """Order does not matter, a record twice is a record once, and none closes what another opened."""
    records = [POOL[index] for index in chosen]
    decision = ask(name, device, *records)
    assert ask(name, device, *reversed(records), *records) == decision
    larger = ask(name, device, *records, *(POOL[index] for index in more))
    assert larger.open or not decision.open
    assert decision.open == any(ask(name, device, record).open for record in records)


FUSED75, FUSED80 = "expert_fused/iq3_s/q2_0/sm75", "expert_fused/iq3_s/q2_0/sm80"


def test_attested_records_of_experts_open_their_tier_alone() -> None:
    """Their bits are the same on every card, and a record from another is no evidence all the same."""
    turing, hopper = (
        builder.parsed(builder.value([name], card)) for name, card in ((FUSED75, TURING), (FUSED80, HOPPER))
    )
    for capability in CAPABILITIES:
        device = Device("any", capability)
        assert ask(FUSED75, device, turing, hopper).open == (capability == 75)
        assert ask(FUSED80, device, turing, hopper).open == (capability >= 80)
    surrogate = builder.parsed(builder.value([FUSED75], HOPPER))
    assert "which is no evidence for Turing" in ask(FUSED75, T4, surrogate).line
    simulated = builder.parsed(builder.value([FUSED75], TURING, executor="lanes"))
    assert "which is no evidence for a card" in ask(FUSED75, T4, simulated).line


def test_a_record_of_experts_ran_every_kernel_that_the_path_may_launch() -> None:
    whole = builder.value([FUSED75])
    for missing in range(len(whole["images"])):
        value = builder.value([FUSED75])
        for case in value["cases"]:
            case["launches"] = [launch for launch in case["launches"] if launch["image"] != missing]
        entry = whole["images"][missing]["entry"]
        assert f"never ran {entry}[" in ask(FUSED75, T4, builder.parsed(value)).line


def test_another_codebook_closes_the_paths_that_upload_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code, macros and flags are the same; the words that the host hands to the kernel are not."""
    other = "expert_fused/iq4_xs/q2_0/sm75"  # uploads none
    record = builder.parsed(builder.value([FUSED75, other], TURING))
    assert ask(FUSED75, T4, record).open
    words = codebooks.device_table
    monkeypatch.setattr(codebooks, "device_table", lambda form: words(form).byteswap())
    form = PATHS[FUSED75].mode.partition("/")[0]
    assert f"record {record.short} is of another codebook of {form};" in ask(FUSED75, T4, record).line
    assert ask(other, T4, record).open


def test_a_record_of_experts_that_names_no_codebook_opens_nothing() -> None:
    value = builder.value([FUSED75], TURING)
    del value["codebooks"]
    assert "is of another codebook of" in ask(FUSED75, T4, builder.parsed(value)).line


@pytest.mark.parametrize("recipe", [each.recipe for each in experts.HOSTILE])
def test_a_record_of_experts_holds_every_hostile_recipe(recipe: str) -> None:
    value = builder.value([FUSED75])
    value["cases"] = [case for case in value["cases"] if f"recipe={recipe} " not in case["case"]]
    line = ask(FUSED75, T4, builder.parsed(builder.replan(value))).line
    assert f"lacks the required case of {recipe} at " in line


def test_a_record_of_experts_lacks_no_required_case() -> None:
    value = builder.value([FUSED75])
    del value["cases"][1]
    line = ask(FUSED75, T4, builder.parsed(builder.replan(value))).line
    assert "lacks the required case of experts_decades at 150/4/2/2,560/640" in line
