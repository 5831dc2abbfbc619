"""What is read from machine code, and which limits it may break."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strata.executors.base import BuildError, ExecutorUnavailable, Kernel, StrataError
from strata.executors.cuda.nvrtc import load_nvrtc
from strata.kernels.paths import PATHS
from validation.__main__ import main
from validation.static import command as static
from validation.static.command import Figures, kernels, opcodes, problems, targets

LISTING = """
        /*0010*/                   IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28] ;
        /*0020*/              @!P0 BRA `(.L_1) ;
        /*00a0*/              @UP1 HMMA.1688.F32 R4, R8, R10, R4 ;
        /*00b0*/                   IMAD.MOV.U32 R2, RZ, RZ, R3 ;
.L_1:
        /*01c0*/                   EXIT ;
// HMMA.884 in a comment, and a string "LDGSTS"
"""
SM75, SM80, SIMT = (
    PATHS[f"{name}"] for name in ("prompt_attention/q4_0/sm75", "prompt_attention/k8v4/sm80", "kv_pack/q4_0/simt")
)
FINE = {
    SM75: Figures(SM75.name, "k", 75, "13.0.88", 233, 65536, 0, ("HMMA.1688.F32", "LDG.E")),
    SM80: Figures(SM80.name, "k", 90, "13.0.88", 168, 99 << 10, 16, ("HMMA.16816.F32", "LDGSTS.E.BYPASS.128")),
    SIMT: Figures(SIMT.name, "k", 75, "13.0.88", 40, 48 << 10, 0, ("FFMA", "STG.E")),
}


def test_opcodes_are_read_with_modifiers_and_without_predicates() -> None:
    assert opcodes(LISTING) == ("BRA", "EXIT", "HMMA.1688.F32", "IMAD.MOV.U32")


@pytest.mark.parametrize("path", FINE, ids=lambda path: path.name)
def test_figures_at_every_limit_pass(path: object) -> None:
    assert problems(path, FINE[path]) == []  # type: ignore[arg-type, index]


@pytest.mark.parametrize(
    ("path", "change", "said"),
    [
        (SM75, {"shared_bytes": 65537}, "65537 bytes of shared memory, expected at most 65536"),
        (SM75, {"spill_bytes": 4}, "4 bytes spilled, expected at most 0"),
        (SM75, {"instructions": ("HMMA.1688.F32", "LDGSTS.E")}, "uses LDGSTS.E, which is forbidden"),
        (SM75, {"instructions": ("HMMA.1688.F32", "HMMA.16816.F32")}, "uses HMMA.16816.F32, which is forbidden"),
        (SM75, {"instructions": ("HMMA.1688.F16",)}, "has no HMMA.1688.F32"),
        (SM80, {"spill_bytes": 17}, "17 bytes spilled, expected at most 16"),
        (SM80, {"instructions": ("HMMA.16816.F32",)}, "has no LDGSTS"),
        (SM80, {"instructions": ("HMMA.16816.F32", "LDGSTS.E", "HMMA.1688.F32")}, "uses HMMA.1688.F32"),
        (SIMT, {"instructions": ("HMMA.16816.F32",)}, "uses HMMA.16816.F32"),
        (SIMT, {"shared_bytes": (48 << 10) + 1}, "bytes of shared memory"),
    ],
)
def test_each_broken_limit_is_told(path: object, change: dict[str, object], said: str) -> None:
    found = problems(path, replace(FINE[path], **change))  # type: ignore[arg-type, index]
    assert len(found) == 1
    assert said in found[0]


def test_spills_count_where_a_path_runs_by_choice() -> None:
    """sm75 code on a newer card is there for tests; its spills there cost nobody anything."""
    assert problems(SM75, replace(FINE[SM75], arch=120, spill_bytes=20)) == []


def test_every_group_and_entry_is_compiled() -> None:
    assert len({kernel.label for kernel in kernels(SM75)}) == 3
    assert {kernel.entry for kernel in kernels(SIMT)} == {"kv_pack_q4_0", "hadamard_256"}
    assert {kernel.entry for kernel in kernels(PATHS["kv_pack/k8v4/simt"])} == {
        "kv_pack_int8",
        "kv_pack_q4_0",
        "hadamard_256",
    }


def test_sm80_paths_have_no_image_for_turing() -> None:
    assert 75 not in targets(SM80)
    assert targets(SM75) == list(static.ARCHS)


def test_one_image_through_the_real_tools(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        static.find_disassembler()
    except ExecutorUnavailable:
        pytest.skip("no nvdisasm here")
    words = ["static", "--paths", "prompt_attention/q4_0/*", "--groups", "12", "--archs", "75", "--compilers", "13"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "HMMA.1688.F32" in out
    assert "1 images: every limit is kept" in out


def test_a_sample_is_turing_and_every_other_in_its_turn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    days = [static.sampled(static.ARCHS, turn) for turn in range(100, 105)]
    assert all(day[0] == 75 and len(day) == 2 for day in days)
    assert sorted(day[1] for day in days) == [80, 86, 89, 90, 120]
    seen: list[object] = []

    def measured(paths: object, groups: object, nvrtcs: object, archs: object) -> Iterator[object]:
        seen.append(archs)
        yield from ()

    monkeypatch.setattr(static, "measure_all", measured)
    words = ["static", "--paths", SIMT.name, "--compilers", "13", "--sample"]
    assert main([*words, "--turn", "100"]) == main([*words, "--turn", "100", "--archs", "90", "80"]) == 0
    assert seen == [days[0], [80, 90]]
    capsys.readouterr()


def test_each_kernel_has_a_row_by_what_tells_it_from_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = PATHS["expert_fused/iq2_s/q2_0/sm75"]
    made = list(static.kernels(path, (12,)))
    shown = [
        static.Figures(path.name, kernel.label, 75, "13.0", 100 + i, kernel.shared_bytes, 0, ())
        for i, kernel in enumerate(made)
    ]
    rows = static._by_kernel({(path.name, 75, "13.0"): shown})
    assert {key[0].removeprefix(f"{path.name} "): [one.registers for one in ones] for key, ones in rows.items()} == {
        "expert_prepare": [100],
        "expert_gate_up WEIGHT_ROWS=256 COLUMNS=64": [101],
        "expert_gate_up WEIGHT_ROWS=128 COLUMNS=128": [102],
        "expert_down WEIGHT_ROWS=256 COLUMNS=64": [103],
        "expert_down WEIGHT_ROWS=128 COLUMNS=128": [104],
    }


def test_a_broken_limit_ends_with_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = replace(FINE[SM75], spill_bytes=8)
    monkeypatch.setattr(static, "measure_all", lambda *args: iter([(SM75, wrong)]))
    words = ["static", "--paths", SM75.name, "--groups", "12", "--archs", "75", "--compilers", "13"]
    assert main(words) == 1
    out = capsys.readouterr().out
    assert "8 bytes spilled, expected at most 0" in out
    assert "1 limits broken" in out


def test_what_cannot_be_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["static", "--paths", "prompt_attention/q4_0/sm80", "--archs", "75", "--compilers", "13"]) == 2
    assert "no image of prompt_attention/q4_0/sm80 exists for [75]" in capsys.readouterr().err
    assert main(["static", "--paths", "nothing"]) == 2


def test_another_release_means_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(load_nvrtc((13,))), "pinned", False)
    with pytest.raises(StrataError, match="is not a pinned release"):
        static.compilers((13,))


def test_a_file_that_is_no_image_is_refused(tmp_path: Path) -> None:
    try:
        program = static.find_disassembler()
    except ExecutorUnavailable:
        pytest.skip("no nvdisasm here; `nox -s static` installs it")
    (tmp_path / "image.cubin").write_bytes(b"no image")
    with pytest.raises(BuildError, match=r"nvdisasm refuses image\.cubin"):
        static.disassemble(program, tmp_path / "image.cubin")


def test_a_kernel_of_several_paths_is_measured_once_and_judged_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pairs of formats have their gate and up in common."""
    paths = [PATHS[f"expert_fused/iq3_xxs/{down}/sm75"] for down in ("iq4_nl", "q2_0")]
    measured: list[tuple[Kernel, int, str]] = []

    def measure(path: Any, kernel: Kernel, arch: int, nvrtc: Any, disassembler: Path) -> Figures:
        measured.append((kernel, arch, nvrtc.version))
        return Figures(path.name, kernel.label, arch, nvrtc.version, len(measured), 0, 0, ())

    monkeypatch.setattr(static, "measure", measure)
    monkeypatch.setattr(static, "find_disassembler", lambda: Path("nvdisasm"))
    nvrtcs: list[Any] = [SimpleNamespace(version=version) for version in ("12.9.86", "13.0.88")]
    found = list(static.measure_all(paths, (12,), nvrtcs, (75, 90)))
    wanted = [
        (path.name, kernel.label, arch, nvrtc.version)
        for nvrtc in nvrtcs
        for path in paths
        for kernel in static.kernels(path)
        for arch in (75, 90)
    ]
    assert [(path.name, one.kernel, one.arch, one.compiler) for path, one in found] == wanted
    assert [one.path for _, one in found] == [path.name for path, _ in found]
    assert len(set(measured)) == len(measured) < len(found)
    figures = {(one.kernel, one.arch, one.compiler): one.registers for _, one in found}
    assert all(figures[one.kernel, one.arch, one.compiler] == one.registers for _, one in found)
