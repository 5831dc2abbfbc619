"""`strata memory plan` as a user runs it: what it prints and its exit status."""

from __future__ import annotations

import json
import re

import pytest

from strata import cli
from strata.switches import SWITCHES


@pytest.fixture(autouse=True)
def _no_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SWITCHES:
        monkeypatch.delenv(name, raising=False)


def run(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str, str]:
    status = cli.main(["memory", "plan", *options])
    out, err = capsys.readouterr()
    return status, out, err


def test_a_card_of_8_gib(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "--vram", "8GiB", "--free", "7.5GiB", "--prompt", "20036")
    assert (status, err) == (0, "")
    assert "48 layers x 512 experts, 2560 x 640, top 10, iq3_xxs/iq4_nl: 2,176,000 bytes each" in out
    for key in (
        "H: output head",
        "X: 512 draft experts",
        "D: draft head",
        "V: verifier",
        "K and V of 32,768 cells, q4_0",
    ):
        assert len(re.findall(rf"^  - {key}.* MiB", out, re.MULTILINE)) == 1
    assert re.search(r"^  - reserve +700.0 MiB$", out, re.MULTILINE)
    assert len(re.findall(r"(tail of the cache|the loan|the head alias): [0-9]+/[0-9]+ ", out)) == 3
    assert out.count("    20,036 tokens in ") == 3
    # The terms add up as they are printed, to a tenth for each of them.
    rows = re.findall(
        r"^  (free|- .*?|= expert cache|  free, the reserve among it) +(-?[\d,]+\.\d) MiB", out, re.MULTILINE
    )
    figures = {title: float(value.replace(",", "")) for title, value in rows}
    taken = sum(value for title, value in figures.items() if title.startswith("- ") and title != "- reserve")
    left = figures["free"] - taken - figures["= expert cache"]
    assert abs(left - figures["  free, the reserve among it"]) < len(figures) / 10
    assert out.isascii()


def test_json_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--vram", "8GiB", "--prompt", "16402")
    status, out, _ = run(capsys, *options, "--json")
    assert status == 0
    value = json.loads(out)
    _, text, _ = run(capsys, *options)
    assert value["card"] == {"total": 8 << 30, "free": (8 << 30) - (512 << 20), "assumed": True}
    assert (
        sum(term["nbytes"] for term in value["terms"]) + value["cache"]["nbytes"] + value["left"]
        == value["card"]["free"]
    )
    for way in value["prompt"]:
        plan = way["plan"]
        assert plan["fixed"] + plan["tokens"] + plan["staging"] == plan["nbytes"] <= way["lendable"]
        assert sum(way["chunks"]) == 16402
        assert f"{way['title']}: {plan['text']} " in text
    per_token = value["per_token"]
    sets = [sum(per_token[name].values()) for name in ("GDN", "QSA", "MoE")]
    assert per_token["total"] == sum(per_token["trunk"].values()) + max(sets)
    assert "(assumed; --free says otherwise)" in text


def test_a_card_that_is_too_small(capsys: pytest.CaptureFixture[str]) -> None:
    """Status 1, with the plan as far as it goes and what is missing; with that it fits."""
    status, out, err = run(capsys, "--vram", "4GiB", "--free", "4GiB")
    assert (status, err) == (1, "")
    missing = int(re.search(r"it does not fit: about ([\d,]+) MiB are missing", out)[1].replace(",", ""))  # type: ignore[index]
    assert "in buffers of its own: nothing fits" in out or "in buffers of its own: off" in out
    assert run(capsys, "--vram", "8GiB", "--free", f"{4096 + missing + 1}MiB")[0] == 0


def test_a_reserve_that_was_lowered(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--vram", "8GiB", "--free", "4760MiB")
    assert status == 0
    assert "lowered: the card only just fits" in out
    assert run(capsys, "--vram", "8GiB", "--free", "4760MiB", "--reserve", "700MiB")[0] == 1


@pytest.mark.parametrize(
    "options",
    [
        ("--vram", "16GiB", "--free", "500MiB", "--model-shape", "4x16/256x64/1", "--head", "32000:q5_k"),
        ("--vram", "8GiB", "--free", "4800MiB", "--reserve", "700MiB"),
    ],
)
def test_what_is_missing_is_more_than_nothing_and_enough(
    options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = run(capsys, *options)
    assert status == 1
    missing = int(re.search(r"it does not fit: about ([\d,]+) MiB are missing", out)[1].replace(",", ""))  # type: ignore[index]
    free = int(options[3].removesuffix("MiB"))
    status, out, _ = run(capsys, *options[:3], f"{free + missing}MiB", *options[4:])
    assert status == 0
    assert "of that, the prompt path's own buffers" in out or "in the tail of the cache: " in out


def test_the_switches_say_what_is_lent(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them: all of it. The master alone lends the verifier; the head takes what depends on it along."""
    notes = {}
    for names in ((), ("ELASTIC_LOAN",), ("ELASTIC_LOAN", "HEAD_LOAN"), ("ELASTIC_LOAN", "MTP_LOAN"), ("HEAD_LOAN",)):
        with monkeypatch.context() as patch:
            for name in names:
                patch.setenv(f"STRATA_PREFILL_{name}", "1")
            out = run(capsys, "--vram", "8GiB")[1]
        notes[names] = re.search(r"with the loan: .* all slots, and what (.*) take", out)[1]  # type: ignore[index]
    assert list(notes.values()) == ["H X D V", "V", "H D V", "X D V", "H X D V"]


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, ["STRATA_PREFILL_ELASTIC_LOAN=1 with all others would"]),
        (
            {"STRATA_PREFILL_MTP_LOAN": "1"},
            ["STRATA_PREFILL_MTP_LOAN=1 has no effect without", "STRATA_PREFILL_ELASTIC_LOAN=1 with all others would"],
        ),
        (
            {"STRATA_PREFILL_ELASTIC_LOAN": "yes"},
            ["STRATA_PREFILL_ELASTIC_LOAN='yes': expected 0 or 1", "STRATA_PREFILL_ELASTIC_LOAN=1 with all others"],
        ),
        ({"STRATA_PREFILL_ELASTIC_LOAN": "1"}, []),
    ],
)
def test_what_the_switches_do_not_lend_is_said(
    environ: dict[str, str],
    said: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    lines = re.findall(r"^switches (.*)$", run(capsys, "--vram", "8GiB")[1], re.MULTILINE)
    value = json.loads(run(capsys, "--vram", "8GiB", "--json")[1])
    assert value["notes"] == lines
    assert len(lines) == len(said)
    assert all(part in line for line, part in zip(lines, said, strict=True))
    assert value["lent"] == (["V"] if environ == {"STRATA_PREFILL_ELASTIC_LOAN": "1"} else ["V", "X", "D", "H"])


def test_a_prompt_below_the_thresholds(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """1,025 tokens are the first of which 1,024 are really read: the last one is read by the first window."""
    out = run(capsys, "--vram", "8GiB", "--prompt", "1024")[1]
    assert "    1,024 tokens in 1 chunk\n" in out  # the tail reads all
    assert "1 chunk; only as the first prompt of a cold engine: later ones take the loan from 1,024 on\n" in out
    assert "1 chunk; the head stays below 1,024 tokens to read: in the tail\n" in out
    assert run(capsys, "--vram", "8GiB", "--prompt", "1025")[1].count("    1,025 tokens in 1 chunk\n") == 3
    monkeypatch.setenv("STRATA_PREFILL_ELASTIC_LOAN", "1")
    out = run(capsys, "--vram", "8GiB", "--prompt", "5000")[1]
    assert "only as the first prompt of a cold engine: STRATA_PREFILL_REPEAT_LOAN is off" in out
    ways = json.loads(run(capsys, "--vram", "8GiB", "--prompt", "5000", "--json")[1])["prompt"]
    assert [bool(way["unless"]) for way in ways] == [False, True, False]


def test_names_in_any_case_and_sizes_as_they_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--pair", "IQ3_XXS/IQ4_NL", "--kv", "Q4_0", "--head", "248320:Q5_K", "--mtp", "Q2_0/Q2_0")
    assert run(capsys, "--vram", "8GiB", *options) == run(capsys, "--vram", "8GiB")
    assert run(capsys, "--vram", "8GiB", "--context", "64k") == run(capsys, "--vram", "8GiB", "--context", "65536")
    assert run(capsys, "--vram", "1TiB")[0] == 0


def test_segments_are_printed_as_they_are_mapped(capsys: pytest.CaptureFixture[str]) -> None:
    """65 MiB are 66 in granules of 2. What the loan takes adds up: whole segments in the sum that is printed."""
    out = run(capsys, "--vram", "8GiB", "--segment", "65MiB")[1]
    (lendable, cached, given) = (
        float(value.replace(",", ""))
        for value in re.search(  # type: ignore[union-attr]
            r"with the loan: \S+ +([\d,.]+) MiB .*whole segments of 66 MiB in ([\d,.]+) \+ ([\d,.]+);", out
        ).groups()
    )
    assert lendable == (cached + given) // 66 * 66
    assert "whole pieces of 66 MiB behind" in out
    assert "65 MiB" not in out


def test_what_nobody_counted_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "--vram", "8GiB")[1]
    assert "  not counted, so the reserve has to hold them: the CUDA context and its modules; " in out
    assert len(json.loads(run(capsys, "--vram", "8GiB", "--json")[1])["uncounted"]) == 3


def test_without_a_draft_layer_there_is_no_loan(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--vram", "8GiB", "--mtp", "none")
    assert status == 0
    assert "draft experts" not in out
    assert re.search(r"with the loan: off .* there is no draft layer whose experts could be lent", out)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--vram", "8PiB"], "--vram '8PiB': expected a size, e.g. 8GiB, 512MiB or 700000000"),
        (["--vram", "1024TiB"], "--vram '1024TiB': expected less than 1 PiB"),
        (["--vram", "8"], "--vram '8': that is in bytes, expected a unit, e.g. 8GiB"),
        (["--vram", "8GiB", "--blob", "2KiB"], "--blob '2KiB': expected at least 1305600, an expert in the smallest"),
        (["--vram", "0"], "--vram '0': expected more than nothing"),
        (["--vram", "8GiB", "--free", "9GiB"], "--free '9GiB': expected at most --vram '8GiB'"),
        (["--vram", "8GiB", "--pair", "iq3_xxs"], "--pair 'iq3_xxs': expected two formats, e.g. iq3_xxs/iq4_nl"),
        (["--vram", "8GiB", "--pair", "iq3_xxs/iq9"], "--pair 'iq3_xxs/iq9': expected two formats"),
        (["--vram", "8GiB", "--pair", "q8_0/q8_0"], "--pair 'q8_0/q8_0': no path computes such experts, expected one"),
        (["--vram", "8GiB", "--pair", "iq4_nl/iq3_xxs"], "--pair 'iq4_nl/iq3_xxs': no path computes such experts"),
        (["--vram", "8GiB", "--mtp", "q2_0/q9"], "--mtp 'q2_0/q9': expected two formats"),
        (["--vram", "8GiB", "--model-shape", "48x512"], "--model-shape '48x512': expected LxE/NxF/K"),
        (
            ["--vram", "8GiB", "--model-shape", "48x512/2500x640/10"],
            "--model-shape '48x512/2500x640/10': model shape: 2500 x 640, expected",
        ),
        (
            ["--vram", "8GiB", "--model-shape", "48x512/2560x640/513"],
            "--model-shape '48x512/2560x640/513': model shape: top 513 of 512 experts",
        ),
        (["--vram", "8GiB", "--model-shape", "0x512/2560x640/10"], "--model-shape '0x512/2560x640/10': model shape: l"),
        (["--vram", "8GiB", "--model-shape", "4_8x512/2560x640/10"], "--model-shape '4_8x512/2560x640/10': expected L"),
        (["--vram", "8GiB", "--kv", "q8_0"], "--kv 'q8_0': expected one of fp16, int8, k8v4, q4_0"),
        (["--vram", "8GiB", "--kv", "q5"], "--kv 'q5': expected one of fp16, int8, k8v4, q4_0"),
        (["--vram", "\u0668GiB"], "--vram '\\u0668GiB': expected a size"),
        (["--vram", "8GiB", "--context", "3_2768"], "--context '3_2768': expected a whole number of 1 to 16777216"),
        (["--vram", "8GiB", "--context", "9" * 5000], "--context '9"),
        (["--vram", "8GiB", "--context", "0"], "--context '0': expected a whole number of 1 to 16777216"),
        (["--vram", "8GiB", "--context", "16385k"], "--context '16385k': expected a whole number of 1 to 16777216"),
        (
            ["--vram", "8GiB", "--context", "512", "--prompt", "513"],
            "--prompt '513': expected a whole number of 1 to 512",
        ),
        (
            ["--vram", "8GiB", "--context", "256", "--prompt", "999999999999"],
            "--prompt '999999999999': expected a whole number of 1 to 256",
        ),
        (["--vram", "8GiB", "--head", "q5_k"], "--head 'q5_k': expected rows and format"),
        (["--vram", "8GiB", "--head", "0:q5_k"], "--head '0:q5_k': expected rows and format"),
        (["--vram", "8GiB", "--head", "9:q5"], "--head '9:q5': expected rows and format"),
        (
            ["--vram", "8GiB", "--segment", "32MiB"],
            "--segment '32MiB': expected at least 64 MiB, and no more than --vr",
        ),
        (["--vram", "8GiB", "--segment", "9999GiB"], "--segment '9999GiB': expected at least 64 MiB, and no more than"),
        (["--vram", "8GiB", "--segment", "8193MiB"], "--segment '8193MiB': expected at least 64 MiB, and no more than"),
        (["--vram", "8GiB", "--pinned", "2"], "--pinned '2': expected 0 to 1"),
        (["--vram", "8GiB", "--reserve", "1.5MiB"], "--reserve '1.5MiB': expected whole MiB"),
        (["--vram", "8GiB", "--prompt", "0"], "--prompt '0': expected a whole number of 1 to 32768"),
    ],
)
def test_bad_sizes_are_refused(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, *options)
    assert (status, out) == (2, "")
    assert err.startswith(f"strata: {message}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "options",
    [
        ("--vram", "8GiB", "--blob", "8GiB"),
        ("--vram", "8GiB", "--model-shape", "999999x512/2560x640/10"),
        ("--vram", "1023TiB", "--model-shape", "999999x999999/999936x999936/999999", "--context", "16384k"),
    ],
)
def test_a_plan_takes_the_same_time_whatever_its_sizes(
    options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """No list is made of what somebody asks for: these ended in a sum over 300 million pieces, or without memory."""
    status, out, err = run(capsys, *options)
    assert (status, err) == (1, "")
    said = r"it does not fit: about [\d,]+ MiB are missing(; more than is free by itself: .+)?"
    assert re.fullmatch(said, out.splitlines()[-1])


def test_the_verdict_is_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--vram", "8GiB")
    assert status == 0
    assert out.splitlines()[-1].startswith("it fits: ")
    status, out, _ = run(capsys, "--vram", "2GiB")
    assert status == 1
    assert out.splitlines()[-1].startswith("it does not fit: ")


@pytest.mark.parametrize(
    ("options", "alone"),
    [
        (("--context", "16384k"), "K and V of 16,777,216 cells, q4_0"),
        (("--weights", "100GiB"), "dense weights"),
        (("--free", "0"), "dense weights; K and V of 32,768 cells, q4_0; H: output head, 248,320 rows of q5_k; "),
        (("--model-shape", "999999x999999/999936x999936/10"), "dense weights; K and V of 32,768 cells, q4_0; H: "),
    ],
)
def test_sizes_beyond_the_card_are_said_to_be_missing(
    options: tuple[str, ...], alone: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No row counts less than nothing: what the terms lack has its own row, and the last line names the largest."""
    status, out, err = run(capsys, "--vram", "8GiB", *options)
    assert (status, err) == (1, "")
    rows = re.findall(r"^  (free|- .*?|  missing .*?aside) +(-?[\d,]+\.\d) MiB", out, re.MULTILINE)
    figures = {title: float(value.replace(",", "")) for title, value in rows}
    assert min(figures.values()) >= 0
    taken = sum(value for title, value in figures.items() if title.startswith("- ") and title != "- reserve")
    missing = figures["  missing for what is listed, the reserve aside"]
    assert abs(taken - figures["free"] - missing) < len(figures) / 10
    assert re.search(
        r"^it does not fit: about [\d,]+ MiB are missing; more than is free by itself: ", out, re.MULTILINE
    )
    assert out.splitlines()[-1].partition("by itself: ")[2].startswith(alone)


def test_a_card_that_lacks_its_reserve_alone_shows_what_is_free(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--vram", "8GiB", "--free", "4GiB", "--reserve", "3GiB")
    assert status == 1
    assert "free, the reserve among it" in out
    assert re.search(r"^it does not fit: about [\d,]+ MiB are missing$", out, re.MULTILINE)
