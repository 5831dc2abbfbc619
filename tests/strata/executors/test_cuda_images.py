"""Compilation without a card: every architecture, pinned flags, the cache's key, errors.

These tests need NVRTC, which the dependency group `test` installs.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from strata.executors import base, cache
from strata.executors.base import BuildError, ExecutorUnavailable, Kernel
from strata.executors.cuda import images
from strata.executors.cuda import nvrtc as binding
from strata.executors.cuda.nvrtc import Nvrtc, load_nvrtc

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120")

SOURCE = r"""
#include "include/mma.cuh"
extern "C" __global__ void probe(const unsigned* a, float* out) {
    __shared__ unsigned tile[96];
    for (int i = threadIdx.x; i < 96; i += 32) tile[i] = a[i];
    __syncthreads();
    float d[4] = {START, 0, 0, 0};
    mma_m16n8k8(d, tile[threadIdx.x ^ 1], tile[threadIdx.x + 32], tile[threadIdx.x + 64]);
    for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = d[i] * d[(i + 1) & 3] + d[i] / 3.0f;
}
extern "C" __global__ void other(float* out) { out[threadIdx.x] = 1; }
"""
MMA = r"""
#pragma once
#include "twice.cuh"
static __device__ void mma_m16n8k8(float (&d)[4], unsigned a0, unsigned a1, unsigned b) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(b));
    d[0] = twice(d[0]);
}
"""
TWICE = "#pragma once\nstatic __device__ float twice(float x) { return 2 * x; }\n"
TIER_80 = r"""
extern "C" __global__ void probe(float* out) {
    asm volatile("cp.async.wait_all;");
    out[0] = 1;
}
"""

KERNEL = Kernel("probe", "probe", block=32, defines=(("START", 7),))


@pytest.fixture(autouse=True)
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "kernels"
    (folder / "include").mkdir(parents=True)
    (folder / "probe.cu").write_text(SOURCE)
    (folder / "include" / "mma.cuh").write_text(MMA)
    (folder / "include" / "twice.cuh").write_text(TWICE)
    monkeypatch.setattr(base, "KERNELS", folder)
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    return folder


@pytest.mark.parametrize("arch", ARCHS)
def test_cubin_for_every_architecture(arch: str, nvrtc: Nvrtc) -> None:
    built = images.build(KERNEL, arch, nvrtc)
    code = built.file.read_bytes()
    assert code[:4] == b"\x7fELF"
    assert built.image.digest == hashlib.sha256(code).hexdigest()
    assert built.image.arch == arch
    assert built.image.compiler == f"NVRTC {nvrtc.version}"
    assert built.image.figures["registers"] > 0
    assert built.image.figures["shared_bytes"] >= 96 * 4
    assert built.image.figures["spill_store_bytes"] == 0


@pytest.mark.parametrize("arch", ["compute_75", "compute_80"])
def test_ptx(arch: str, nvrtc: Nvrtc) -> None:
    built = images.build(KERNEL, arch, nvrtc)
    text = built.file.read_text()
    assert f".target {arch.replace('compute', 'sm')}" in text
    assert "mma.sync.aligned.m16n8k8" in text
    assert "\0" not in text
    assert built.image.figures == {}


def test_flags_are_in_force(nvrtc: Nvrtc) -> None:
    """No contraction, no flush to zero, a correctly rounded division: all visible in PTX."""
    text = images.build(KERNEL, "compute_75", nvrtc).file.read_text()
    assert "mul.rn.f32" in text or "mul.f32" in text
    assert "add.rn.f32" in text or "add.f32" in text
    assert "div.rn.f32" in text
    assert not re.search(r"\bfma\b|\.ftz|div\.(full|approx)", text)


def test_a_header_beside_a_source_elsewhere_is_found_and_in_the_key(nvrtc: Nvrtc, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "probe.cu").write_text(SOURCE.replace('"include/mma.cuh"', '"beside.cuh"'))
    kernel = Kernel("probe", "probe", block=32, defines=(("START", 7),), directory=str(own))
    digests = []
    for number in (2, 3):
        mma = MMA.replace('#include "twice.cuh"', "").replace("twice(d[0])", f"{number} * d[0]")
        (own / "beside.cuh").write_text(mma)
        digests.append(images.build(kernel, "compute_75", nvrtc).image.digest)
    assert len(set(digests)) == 2


def test_second_build_comes_from_the_cache(nvrtc: Nvrtc, monkeypatch: pytest.MonkeyPatch) -> None:
    first = images.build(KERNEL, "sm_75", nvrtc)
    monkeypatch.setattr(nvrtc, "compile", None)
    assert images.build(KERNEL, "sm_75", nvrtc) == first


def test_the_digest_is_of_the_file_that_is_loaded(nvrtc: Nvrtc, kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another image in the entry, and all that lies beside it says that it is the right one."""
    first = images.build(KERNEL, "sm_75", nvrtc)
    code = first.file.read_bytes() + b"another"
    first.file.write_bytes(code)
    for said in first.file.parent.glob("*.json"):
        text = said.read_text()
        said.write_text(text.replace(first.image.digest, hashlib.sha256(code).hexdigest()))
    (first.file.parent / "image.json").write_text(json.dumps({"digest": first.image.digest}))
    files = [path for path in first.file.parent.rglob("*") if path.is_file() and path.name != "manifest.json"]
    folder = first.file.parent
    sums = {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    (first.file.parent / "manifest.json").write_text(json.dumps(sums))
    monkeypatch.setattr(nvrtc, "compile", None)
    again = images.build(KERNEL, "sm_75", nvrtc)
    assert again.file == first.file
    assert again.image.digest == hashlib.sha256(code).hexdigest() != first.image.digest


def test_a_compiler_short_of_memory_is_no_error_of_the_kernel(
    nvrtc: Nvrtc, kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Short:
        """NVRTC_ERROR_OUT_OF_MEMORY from the compilation."""

        def __getattr__(self, name: str) -> Any:
            return (lambda *words: 1) if name == "nvrtcCompileProgram" else getattr(library, name)

    library = nvrtc._library
    monkeypatch.setattr(nvrtc, "_library", Short())
    with pytest.raises(ExecutorUnavailable, match=r"NVRTC \(.*\): NVRTC_ERROR_OUT_OF_MEMORY"):
        images.build(KERNEL, "sm_75", nvrtc)
    monkeypatch.undo()


def test_same_bytes_wherever_it_is_built(nvrtc: Nvrtc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = images.build(KERNEL, "sm_90", nvrtc)
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "another" / "much longer" / "place"))
    second = images.build(KERNEL, "sm_90", nvrtc)
    assert first.file != second.file
    assert first.image == second.image


@pytest.mark.parametrize("file", ["probe.cu", "include/mma.cuh", "include/twice.cuh"])
def test_every_file_is_in_the_key(file: str, kernels: Path, nvrtc: Nvrtc) -> None:
    first = images.build(KERNEL, "sm_75", nvrtc)
    path = kernels / file
    path.write_text(path.read_text() + "\n// edited\n")
    second = images.build(KERNEL, "sm_75", nvrtc)
    assert second.file != first.file
    assert second.image.digest == first.image.digest  # a comment changes no code
    if file == "include/twice.cuh":
        path.write_text(path.read_text().replace("2 * x", "4 * x"))
        assert images.build(KERNEL, "sm_75", nvrtc).image.digest != first.image.digest


def test_defines_reach_the_source_and_the_key(nvrtc: Nvrtc) -> None:
    eight = Kernel("probe", "probe", block=32, defines=(("START", 8),))
    first, second = images.build(KERNEL, "sm_75", nvrtc), images.build(eight, "sm_75", nvrtc)
    assert "-DSTART=8" in second.image.options
    assert first.image.digest != second.image.digest


def test_nothing_outside_the_kernels_is_included(
    kernels: Path, nvrtc: Nvrtc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A header of the same name in the working directory must neither win nor stand in."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "include").mkdir(parents=True)
    (elsewhere / "include" / "mma.cuh").write_text("#error from the working directory")
    (elsewhere / "include" / "extra.cuh").write_text("#define EXTRA 1\n")
    monkeypatch.chdir(elsewhere)
    images.build(KERNEL, "sm_75", nvrtc)
    (kernels / "probe.cu").write_text('#include "include/extra.cuh"\n' + SOURCE)
    with pytest.raises(BuildError, match=r"extra\.cuh"):
        images.build(KERNEL, "sm_75", nvrtc)


def test_compile_error_names_kernel_target_and_line(kernels: Path, nvrtc: Nvrtc) -> None:
    (kernels / "probe.cu").write_text('extern "C" __global__ void probe() {\n  nonsense = 1;\n}\n')
    with pytest.raises(BuildError) as caught:
        images.build(KERNEL, "sm_75", nvrtc)
    message = str(caught.value)
    assert message.startswith("probe[START=7] does not compile for sm_75: probe.cu(2): error")
    assert "\n" not in message
    assert "nonsense" in caught.value.log
    assert ".making-" not in message + caught.value.log


def test_instruction_of_a_newer_tier_fails_on_sm75(kernels: Path, nvrtc: Nvrtc) -> None:
    (kernels / "probe.cu").write_text(TIER_80)
    images.build(KERNEL, "sm_80", nvrtc)
    with pytest.raises(BuildError, match="sm_80 or higher"):
        images.build(KERNEL, "sm_75", nvrtc)


@pytest.mark.parametrize("arch", ["sm_75", "compute_75"])
def test_missing_entry(arch: str, nvrtc: Nvrtc) -> None:
    with pytest.raises(BuildError, match=r"probe\.cu has no .* 'absent'"):
        images.build(Kernel("probe", "absent", block=32, defines=(("START", 7),)), arch, nvrtc)
    with pytest.raises(BuildError, match="has no"):
        images.build(Kernel("probe", "prob", block=32, defines=(("START", 7),)), arch, nvrtc)


def test_missing_source(nvrtc: Nvrtc) -> None:
    with pytest.raises(BuildError, match=r"cannot read .*nowhere\.cu"):
        images.build(Kernel("nowhere", "probe", block=32), "sm_75", nvrtc)


def test_figures_belong_to_the_entry(nvrtc: Nvrtc) -> None:
    probe = images.build(KERNEL, "sm_75", nvrtc).image.figures
    other = images.build(Kernel("probe", "other", block=32, defines=KERNEL.defines), "sm_75", nvrtc).image.figures
    assert probe["shared_bytes"] > other["shared_bytes"] == 0
    assert probe["registers"] > other["registers"] > 0


def test_figures_of_a_log_with_spills() -> None:
    log = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'a' for 'sm_75'
ptxas info    : Function properties for a
ptxas         .     16 bytes stack frame, 20 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 16 bytes cumulative stack size, 10240 bytes smem, 388 bytes cmem[0]
ptxas info    : Compiling entry function 'b' for 'sm_75'
ptxas info    : Function properties for b
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, 360 bytes cmem[0]
"""
    assert images.figures(log, "a") == {
        "registers": 64,
        "barriers": 1,
        "shared_bytes": 10240,
        "stack_bytes": 16,
        "spill_store_bytes": 20,
        "spill_load_bytes": 24,
    }
    assert images.figures(log, "b")["registers"] == 8
    assert images.figures(log, "b")["shared_bytes"] == 0
    assert images.figures(log, "c") == {}


def test_hold_kernel_compiles(nvrtc: Nvrtc) -> None:
    source = Path(images.__file__).with_name("hold.cu")
    for arch in ("sm_75", "sm_90", "compute_75"):
        images.build(Kernel("hold", "hold", block=1), arch, nvrtc, source)


def test_version_is_the_build_not_just_the_release(nvrtc: Nvrtc) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", nvrtc.version)
    assert 75 in nvrtc.archs


def test_no_nvrtc_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "_candidates", lambda major: iter(()))
    with pytest.raises(ExecutorUnavailable, match=r"\.\[cuda12x\].*toolkit") as caught:
        load_nvrtc.__wrapped__((12,))
    assert "\n" not in str(caught.value)


def test_nvrtc_is_found_in_a_toolkit(nvrtc: Nvrtc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a toolkit lays it out: links in lib64, and the loader's path knows nothing of it."""
    folder = nvrtc.file.resolve().parent
    if not (folder / f"libnvrtc-builtins.so.{nvrtc.release}").exists():
        pytest.skip("NVRTC's files are not where they can be linked to")
    toolkit = tmp_path / "cuda"
    (toolkit / "lib64").mkdir(parents=True)
    major = nvrtc.release.partition(".")[0]
    (toolkit / "lib64" / f"libnvrtc.so.{major}").symlink_to(nvrtc.file.resolve())
    monkeypatch.setenv("CUDA_PATH", str(toolkit))
    monkeypatch.setattr(binding, "_wheel_folders", lambda major: iter(()))
    found = load_nvrtc.__wrapped__((int(major),))
    assert found.file == toolkit / "lib64" / f"libnvrtc.so.{major}"
    assert found.version == nvrtc.version
