"""The verifier as a whole: outcomes, the command, readings, cards without a rule, and what it touches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.records.bases import BASES, Base, make, planned
from strata.executors.base import ExecutorUnavailable, source_digests
from strata.gates.policy import POLICY
from strata.gates.sources import of_path
from strata.kernels import prompt_attention
from strata.kernels.paths import PATHS
from tests.validation.record.forging import against, base, forged, sign
from validation.__main__ import main
from validation.core.editions import EDITIONS
from validation.core.recordable import CannotCheckError
from validation.operations.attention.reference import attend
from validation.operations.kv_pack.case import Case
from validation.record import verify_command
from validation.record.canonical import encode, name_of
from validation.record.evidence import leaves
from validation.record.opens import opens
from validation.record.rules.rows import Recomputed
from validation.record.rules.subject import Subject, standard_plan
from validation.record.verify import Against, Outcome, examine, lanes

ROOT = Path(__file__).resolve().parents[3]
BY_NAME = {of.name: of for of in BASES}


def examined(value: dict[str, Any], bits: bool = True) -> Outcome:
    data = encode(value)
    return examine(data, f"{name_of(data)}.json", against(bits))


def drop_prediction(case: dict[str, Any]) -> None:
    """As if nobody had asked for bits."""
    case.update(prediction=None, verdict="WITHIN_BOUND")
    case["checks"] = [check for check in case["checks"] if "prediction" not in check[0]]


def written(folder: Path, value: dict[str, Any]) -> Path:
    data = encode(value)
    file = folder / f"{name_of(data)}.json"
    file.write_bytes(data)
    return file


@pytest.fixture
def small_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command with the plan of the fixtures; no option reaches it."""
    monkeypatch.setattr(verify_command, "Against", partial(Against, planner=planned))


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("lanes", "simulated", "ran on the CPU (lanes), which is no evidence for a card"),
        ("surrogate", "surrogate", "which is no evidence for Turing"),
        ("hopper", "attested", "lacks the required case of signed_decades at 4,096/512 and 1,500/512"),
        ("turing", "attested", "lacks the required case of signed_decades at 4,096/512 and 1,500/512"),
    ],
)
def test_says_what_the_gate_makes_of_it(name: str, kind: str, said: str) -> None:
    (opened,) = examined(base(name)["record"]).gate
    assert (opened.path, opened.kind, opened.opens) == (BY_NAME[name].path, kind, False)
    assert said in opened.reason


@pytest.mark.parametrize(
    ("name", "opened"), [("hopper", True), ("turing", True), ("lanes", False), ("surrogate", False)]
)
def test_an_attested_record_of_every_kernel_opens_its_path(
    name: str, opened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = Subject(base(name)["record"], source_digests(), planned)
    (of,) = POLICY.required["prompt_attention"]
    required = replace(POLICY, required={"prompt_attention": (replace(of, sizes=((70, 1),)),)})
    (found,) = opens("0" * 64, subject, required)
    assert not found.opens
    assert ("never ran prompt_attention" in found.reason) is opened  # the fixtures have one group of heads
    (group,) = {Case.parse(case["case"]).group for case in subject.record["cases"]}
    monkeypatch.setattr(prompt_attention, "GROUPS", (group,))
    assert opens("0" * 64, subject, required)[0].opens is opened


def test_rows_numbers_and_bits_are_counted() -> None:
    outcome = examined(base("hopper")["record"])
    assert outcome.title == "ACCEPTED"
    assert outcome.notes[0].startswith("4 rows of 2 cases are within their bounds of FP64, 4 outputs")
    assert outcome.notes[1] == "their bits are those of sm_90"
    assert outcome.notes[2].startswith("attested and not proved: device NVIDIA H200, driver 580.95.05")


def test_without_bits_it_says_so() -> None:
    outcome = examined(base("hopper")["record"], bits=False)
    assert outcome.accepted
    assert outcome.title == "ACCEPTED without bits"
    assert "their bits were not predicted: the verifier was told not to" in outcome.notes


def test_without_bits_a_flipped_bit_is_not_seen() -> None:
    """What --without-bits gives up, so that nobody takes it for the whole check."""
    entry = {
        "base": "lanes",
        "steps": [{"op": "flip", "path": "/rows/0/*", "bit": 0}],
        "sign": ["outputs", "root", "challenge"],
    }
    assert examine(*forged(entry), against(bits=False)).title == "ACCEPTED without bits"
    assert examine(*forged(entry), against()).rules == ["bits"]


@pytest.fixture(scope="module")
def rival() -> dict[str, Any]:
    """A Turing card that follows the other reading."""
    return make(replace(BY_NAME["turing"], rule="sm_75_block4"))


def test_a_turing_card_may_follow_either_reading(rival: dict[str, Any]) -> None:
    outcome = examined(rival["record"])
    assert outcome.accepted, outcome.lines()
    assert "their bits are those of sm_75_block4" in outcome.notes


def test_a_card_is_one_reading_throughout(rival: dict[str, Any]) -> None:
    """Vectors of one reading, rows of the other, and nothing claimed."""
    document = base("turing")
    for index in (0, 1):
        drop_prediction(document["record"]["cases"][index])
    document["record"]["identification"] = rival["record"]["identification"]
    sign(document, ["root", "challenge"])
    outcome = examined(document["record"])
    assert outcome.rules == ["bits"]
    assert "it follows sm_75, what came before sm_75_block4" in outcome.refusals[0].reason


def test_a_card_without_a_rule_is_judged_by_numbers_alone() -> None:
    document = base("hopper")
    image = document["record"]["images"][0]
    image.update(arch="sm_120", loaded="sm_120")
    image["options"][image["options"].index("-arch=sm_90")] = "-arch=sm_120"
    document["record"]["provenance"].update(capability=120, device="NVIDIA GeForce RTX 5090")
    for case in document["record"]["cases"]:
        drop_prediction(case)
    sign(document, ["root", "challenge"])
    outcome = examined(document["record"])
    assert outcome.accepted, outcome.lines()
    # Who names such a card gets by without bits, so the verdict itself says that they were not looked at.
    assert outcome.title == "ACCEPTED without bits"
    assert "their bits were not predicted: no rule is established for this card" in outcome.notes


def test_no_more_rules_are_asked_where_a_cheap_one_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    document = base("hopper")
    document["record"]["provenance"]["driver"] = "470.57.02"
    document["record"]["root"] = "0" * 64
    monkeypatch.setattr(Recomputed, "case", None)
    # Cheap ones report together; the challenge stands on the root and is not asked.
    assert examined(document["record"]).rules == ["provenance", "root"]


def test_many_reasons_are_counted() -> None:
    document = base("hopper")
    document["record"]["sources"] = dict.fromkeys(document["record"]["sources"], "0" * 64)
    lines = examined(document["record"]).lines()
    assert len(lines) == 4
    own = of_path(PATHS[BY_NAME["hopper"].path]).files
    assert lines[-1] == f"REFUSED sources: and {len(own) - 3} more"


@pytest.mark.parametrize("edition", [edition.number for edition in EDITIONS])
@pytest.mark.parametrize("name", ["prompt_attention/q4_0/sm80", "expert_fused/iq2_s/q2_0/sm80"])
def test_the_standard_plan_has_the_required_cases(name: str, edition: int) -> None:
    pairs = standard_plan([PATHS[name]], "quick", 1, edition)
    assert POLICY.missing(PATHS[name].operation, (case.text() for _, case in pairs)) == ""
    assert len({(path.name, case.text()) for path, case in pairs}) == len(pairs)


@pytest.mark.usefixtures("small_plan")
def test_the_command_accepts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, base("hopper")["record"])
    assert main(["verify", str(file)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert f"ACCEPTED {file.stem}" in said
    assert any(line.startswith("prompt_attention/q4_0/sm80: attested; locked: ") for line in said)


@pytest.mark.usefixtures("small_plan")
def test_the_command_gives_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, base("surrogate")["record"])
    assert main(["verify", "--json", str(file)]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["outcome"], value["accepted"], value["name"]) == ("ACCEPTED", True, file.stem)
    assert value["gate"][0]["kind"] == "surrogate"


def test_the_command_knows_only_the_real_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(written(tmp_path, base("hopper")["record"]))]) == 1
    assert "REFUSED plan: it planned 2 cases, profile quick has " in capsys.readouterr().out


def test_the_command_refuses_with_reasons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "record.json"
    file.write_bytes(b'{"a":NaN}')
    assert main(["verify", "--json", str(file)]) == 1
    value = json.loads(capsys.readouterr().out)
    assert value["refusals"] == [{"rule": "json", "reason": "NaN is not a whole number"}]
    file.write_bytes(b" " * ((16 << 20) + 1))
    assert main(["verify", str(file)]) == 1
    assert "REFUSED size: record.json has more than" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes among its files")
def test_the_command_says_when_it_could_not_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    for file, said in ((tmp_path / "none.json", "No such file"), (pipe, "is not a plain file")):
        assert main(["verify", str(file)]) == 2
        assert said in capsys.readouterr().err


def test_without_a_compiler_it_could_not_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(rule: str) -> Any:
        raise ExecutorUnavailable("no C++ compiler")

    monkeypatch.setattr(verify_command, "lanes", none)
    monkeypatch.setattr(verify_command, "Against", partial(Against, planner=planned))
    file = written(tmp_path, base("hopper")["record"])
    assert main(["verify", str(file)]) == 2
    assert "no C++ compiler" in capsys.readouterr().err
    assert main(["verify", "--without-bits", str(file)]) == 0
    assert f"ACCEPTED without bits {file.stem}" in capsys.readouterr().out


def test_a_wrong_reference_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """The certificate holds the verifier's own FP64 against the truth: when it fails, nothing is said of the record."""
    right = attend

    def wrong(*args: Any) -> Any:
        found = right(*args)
        return replace(found, out=found.out * (1 + 2.0**-30))

    monkeypatch.setattr("validation.operations.attention.record.attend", wrong)
    with pytest.raises(CannotCheckError, match="the reference is wrong"):
        examined(base("hopper")["record"])


def test_every_row_of_a_case_can_be_asked() -> None:
    """Rows that are shown are computed in their own place: whichever the challenge takes, they are the lanes' own."""
    of: Base = BY_NAME["lanes"]
    document = base("lanes")
    subject = Subject(document["record"], source_digests(), planned)
    (path, case) = subject.pairs[1]
    assert path.name == of.path
    rows = document["rows"][1]
    document["record"]["challenge"] = [
        {"case": 1, "row": row, "bits": bits, "proof": []} for row, bits in enumerate(rows)
    ]
    assert Recomputed(Subject(document["record"], source_digests(), planned), lanes).case(1) == []
    assert len(rows) == case.queries * case.n_head
    swapped = [{"case": 1, "row": row, "bits": rows[row ^ 1], "proof": []} for row in range(len(rows))]
    document["record"]["challenge"] = swapped
    found = Recomputed(Subject(document["record"], source_digests(), planned), lanes).case(1)
    assert {refusal.rule for refusal in found} == {"numbers"}
    assert len(found) >= len(np.unique(rows))


_WATCHED = """
import os, sys
sys.path.insert(0, sys.argv[1])
from functools import partial
from validation.__main__ import main
from validation.record import verify_command
from validation.operations.attention.reference import attend
from validation.record.verify import Against
from fixtures.records.bases import planned
verify_command.Against = partial(Against, planner=planned)
main(["verify", sys.argv[3]])  # once unwatched: kernels are compiled into the cache
seen = []
def watch(event, args):
    if event == "open" and isinstance(args[0], str):
        writes = any(letter in (args[1] or "") for letter in "wax+") or args[2] & (os.O_WRONLY | os.O_RDWR)
        seen.append(("write" if writes else "read", os.path.realpath(args[0])))
    elif event.startswith(("socket.", "urllib.", "subprocess.", "os.remove", "os.rename", "os.mkdir", "shutil.")):
        seen.append((event, str(args)))
sys.addaudithook(watch)
status = main(["verify", sys.argv[2]])
print("SEEN", status, *sorted({f"{kind}|{what}" for kind, what in seen}), sep="\\n")
"""


@pytest.mark.parametrize(("entry", "status"), [({"base": "hopper"}, 0), ({"base": "hopper", "file": "x.json"}, 1)])
def test_touches_nothing_but_the_file_the_kernels_and_the_cache(
    tmp_path: Path, entry: dict[str, Any], status: int
) -> None:
    data, name = forged(entry)
    file, warm = tmp_path / name, written(tmp_path, base("hopper")["record"])
    file.write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", _WATCHED, str(ROOT), str(file), str(warm)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    assert "SEEN" in done.stdout, done.stderr
    said, *seen = done.stdout.partition("SEEN\n")[2].splitlines()
    assert said == str(status)
    mine = [line.partition("|") for line in seen]
    assert ("read", "|", str(file)) in mine
    assert {path.name for path in tmp_path.iterdir()} == {file.name, warm.name}
    from strata.executors import cache

    allowed = (str(file), str(ROOT), str(cache.directory().resolve()), sys.prefix, sys.base_prefix, "/proc/", "/sys/")
    for kind, _, what in mine:
        assert kind == "read" or (kind == "write" and what == os.devnull), (kind, what)
        assert what.startswith(allowed) or what == os.devnull, what


def test_all_bits_find_a_row_that_nobody_asked_for() -> None:
    """One head wrong in a row that is not shown, all signed again: only predicting every row tells."""
    entry = {
        "base": "lanes",
        "steps": [{"op": "flip", "path": "/record/cases/0/output", "bit": 0}],
        "sign": ["root", "challenge"],
    }
    data, name = forged(entry)
    rules = examine(data, name, replace(against(), every=True)).rules
    assert rules == ["proofs"]  # the shown rows are not of that root


@pytest.mark.parametrize("name", ["lanes", "hopper", "turing"])
def test_all_bits_of_a_right_record_are_the_predicted_ones(name: str) -> None:
    outcome = examine(*forged({"base": name}), replace(against(), every=True))
    assert outcome.accepted
    assert any(note.startswith("the bits of all ") for note in outcome.notes)


def test_all_bits_refuse_an_output_whose_unshown_rows_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shown rows stay right; the root is said to be of others."""
    monkeypatch.setattr("validation.record.rules.rows.leaves", lambda path, case, values: leaves(path, case, -values))
    outcome = examine(*forged({"base": "lanes"}), replace(against(), every=True))
    assert outcome.rules == ["prediction"] or outcome.rules == ["bits"]
    assert "others of its" in outcome.lines()[0]
    assert examine(*forged({"base": "lanes"}), against()).accepted
