"""Prompt attention: its tiers, its modes on one set of values, and what holds of it without running it."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path as FilePath

import numpy as np
import pytest

from strata.executors.base import KERNELS, StrataError
from strata.executors.lanes import LanesExecutor
from strata.executors.lanes.build import find_compiler
from strata.kernels import prompt_attention, tiers
from strata.kernels.paths import PATHS
from strata.kernels.pool import GROUPS, HEAD_DIM, MODES
from tests.strata.kernels import small
from tests.strata.kernels.small import assert_right, make, run, same_bits
from validation.core.random_streams import Stream
from validation.operations.attention import gates
from validation.operations.attention.bound import bound
from validation.operations.attention.bounds import prompt_attention as bounds
from validation.operations.attention.pools import Inputs
from validation.operations.attention.reference import attend
from validation.operations.kv_pack.pages import page_table, place
from validation.operations.kv_pack.planes import Cells
from validation.operations.kv_pack.recipes import Pages
from validation.operations.kv_pack.reference import unpack_q4_0

TIERS = (75, 80)
#: Block and fraction bits published for sm_80 to sm_89, and for sm_75 the first of two readings.
RULE_8_24 = (8, 24)


#: Every path of the operation.
NAMES = [f"prompt_attention/{mode}/sm{tier}" for mode in MODES for tier in TIERS]


def path_of(mode: str, tier: int) -> str:
    return f"prompt_attention/{mode}/sm{tier}"


@pytest.fixture(scope="module", autouse=True)
def built(checked: LanesExecutor) -> None:
    """Kernels of every path, compiled on all cores."""
    small.prebuild(checked, [(name, 12) for name in NAMES])


@pytest.fixture(scope="module")
def sanitized() -> LanesExecutor:
    """Lanes under the address and undefined-behaviour sanitizers."""
    executor = LanesExecutor(flavor="sanitize")
    small.prebuild(executor, [(name, 12) for name in NAMES])
    return executor


# ---- tiers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["fp16", "int8", "k8v4"])
@pytest.mark.parametrize("recipe", ["signed_decades", "climbing", "absent_pages"])
def test_both_tiers_agree_bit_for_bit_where_a_k16_step_is_two_k8_steps(mode: str, recipe: str) -> None:
    """Under a rule that sums 8 products a step, m16n8k16 is m16n8k8 twice, low k first, which is how sm75 writes it;
    with 32 cells a chunk on both tiers everything else is the same arithmetic in the same order."""
    executor = LanesExecutor(flavor="checked", rule=RULE_8_24)
    inputs = make(mode, recipe)
    assert same_bits(run(executor, path_of(mode, 75), inputs), run(executor, path_of(mode, 80), inputs))


@pytest.mark.parametrize("mode", ["fp16", "int8", "k8v4"])
def test_the_tiers_differ_under_the_rule_of_16_products(checked: LanesExecutor, mode: str) -> None:
    """What the test above would show of anything else than the size of a step: it is not blind."""
    inputs = make(mode)
    assert not same_bits(run(checked, path_of(mode, 75), inputs), run(checked, path_of(mode, 80), inputs))


def test_q4_0_takes_64_cells_a_chunk_on_sm75_and_so_has_other_bits() -> None:
    """Running maximum, V units and row sums are those of 64 cells: a thread adds 8 weights of a row, not 4. Up to 4
    cells lie in one thread on both tiers, and then the bits are equal."""
    executor = LanesExecutor(flavor="checked", rule=RULE_8_24)
    one, two = path_of("q4_0", 75), path_of("q4_0", 80)
    few = small.with_widths(make("q4_0", queries=4), [1, 2, 3, 4])
    assert same_bits(run(executor, one, few), run(executor, two, few))
    many = make("q4_0")
    assert not same_bits(run(executor, one, many), run(executor, two, many))
    for name in (one, two):
        assert_right(executor, name, many, run(executor, name, many))


@pytest.mark.parametrize("rule", ["exact", "sm_75", "sm_80", "sm_90", (4, 24)])
@pytest.mark.parametrize("tier", TIERS)
def test_every_rule_is_within_its_bound(rule: str | tuple[int, int], tier: int) -> None:
    executor = LanesExecutor(flavor="checked", rule=rule)
    inputs = make("int8")
    assert_right(executor, path_of("int8", tier), inputs, run(executor, path_of("int8", tier), inputs))


@pytest.mark.parametrize("name", NAMES)
def test_the_fast_build_has_the_bits_of_the_checked_one(checked: LanesExecutor, name: str) -> None:
    inputs = make(PATHS[name].mode, "all_negative")
    assert same_bits(run(LanesExecutor(), name, inputs), run(checked, name, inputs))


@pytest.mark.parametrize("name", NAMES)
def test_the_sanitizers_find_nothing(checked: LanesExecutor, sanitized: LanesExecutor, name: str) -> None:
    inputs = make(PATHS[name].mode, "absent_pages", queries=1, context=70, n_head_kv=1)
    assert same_bits(run(sanitized, name, inputs), run(checked, name, inputs))


# ---- modes on one set of values ----------------------------------------------------------------------------


def shared_values(seed: int, page_size: int = 4) -> dict[str, Inputs]:
    """Inputs of every mode whose K and V are the same numbers.

    Q4_0 blocks in pairs under one scale of 7 significant bits: code - 8 is an INT8 code of a group of 64, and
    the product has 11 bits, so that FP16 holds it.
    """
    stream, cells, heads = Stream.of(seed, "shared values"), small.CONTEXT, 2
    table, pages = page_table(stream.child("pages"), Pages.ABSENT, cells, page_size)
    base = make("fp16", queries=2, page_size=page_size)

    def plane(name: str) -> dict[str, Cells]:
        own = stream.child(name)
        scale = (0x2400 + own.child("scale").below(0x1000, (cells, heads, 4))) & ~0xF
        scale = (scale | own.child("sign").below(2, scale.shape) << 15).astype(np.uint16)
        blocks = own.child("codes").octets((cells, heads, 8, 18)).copy()
        blocks[..., :2] = scale.repeat(2, axis=-1)[..., None].astype("<u2").view(np.uint8)
        rows = blocks.reshape(cells, heads, 144)
        values, halves = unpack_q4_0(rows), scale.view(np.float16)
        codes = (values / halves.astype(np.float64).repeat(64, axis=-1)).astype(np.int8)
        half = values.astype(np.float16)
        assert np.array_equal(half.astype(np.float64), values)
        return {"q4_0": Cells(rows), "int8": Cells(codes, halves), "fp16": Cells(half)}

    k, v = plane("k"), plane("v")
    formats = {"fp16": ("fp16", "fp16"), "int8": ("int8", "int8"), "k8v4": ("int8", "q4_0"), "q4_0": ("q4_0", "q4_0")}
    return {
        mode: replace(base, pool=place(k[one], v[two], mode, table, pages, page_size))
        for mode, (one, two) in formats.items()
    }


def test_the_baseline_has_the_same_bits_in_every_mode_on_the_same_values(checked: LanesExecutor) -> None:
    """It turns every format into FP32 exactly, and goes on from there in one way."""
    inputs = shared_values(1)
    outs = {mode: run(checked, f"decode_attention/{mode}/simt", inputs[mode]) for mode in MODES}
    for mode in MODES:
        assert same_bits(outs[mode], outs["fp16"]), mode


@pytest.mark.parametrize("tier", TIERS)
def test_every_mode_meets_the_published_gates_on_the_same_values(checked: LanesExecutor, tier: int) -> None:
    made = shared_values(2)
    queries = np.arange(2)
    truth = attend(made["fp16"].q, made["fp16"].pool, made["fp16"].ids, made["fp16"].steps, queries)
    old = run(checked, "decode_attention/fp16/simt", made["fp16"])
    for mode, inputs in made.items():
        path = PATHS[path_of(mode, tier)]
        reference = attend(inputs.q, inputs.pool, inputs.ids, inputs.steps, queries)
        assert np.array_equal(reference.out, truth.out)
        new = run(checked, path.name, inputs)
        limit, base = (bound(p, inputs, reference, checked) for p in (path, PATHS[f"decode_attention/{mode}/simt"]))
        for check in gates.gates(new, old, gates.Truth(reference, limit, base)):
            assert check.verdict.passes, f"{mode}: {check.name} {check.reason}"
        assert np.abs(new - old).max() <= bounds.agreement(old)


# ---- numbers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_sm75_fits_the_shared_memory_of_turing(mode: str) -> None:
    assert prompt_attention.shared_bytes(mode, 75) <= tiers.find("sm75").shared_bytes == 65536
    # Two blocks live on a multiprocessor of an H200, which has 227 KiB for blocks and takes 1 KiB of each.
    assert 2 * (prompt_attention.shared_bytes(mode, 80) + 1024) <= 227 * 1024


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tier", TIERS)
def test_a_kernel_gets_its_numbers_from_its_path(mode: str, tier: int) -> None:
    cells = {("q4_0", 75): 64}.get((mode, tier), 32)
    assert prompt_attention.cells_per_chunk(mode, tier) == cells
    for group in GROUPS:
        kernel = prompt_attention.kernel(mode, tier, group)
        defines = dict(kernel.defines)
        assert kernel.block == 128
        assert kernel.shared_bytes == prompt_attention.shared_bytes(mode, tier) == defines["SHARED_BYTES"]
        assert (defines["TIER"], defines["GROUP"], defines["CELLS"]) == (tier, group, cells)


def test_another_shared_size_does_not_compile(checked: LanesExecutor) -> None:
    """The sum in Python and the layout in the source are one number, and the compiler says so."""
    kernel = prompt_attention.kernel("int8", 75, 12)
    defines = tuple((name, value + 16 * (name == "SHARED_BYTES")) for name, value in kernel.defines)
    with pytest.raises(StrataError, match="disagree on shared memory"):
        checked.build(replace(kernel, defines=defines))


@pytest.mark.parametrize(
    ("mode", "tier", "group", "message"),
    [
        ("fp16", 70, 12, r"tier 70, group 12; expected 75 or 80, and one of \(4, 8, 12\)"),
        ("fp16", 80, 5, r"tier 80, group 5"),
        ("fp8", 80, 12, "mode 'fp8': expected one of fp16, int8, k8v4, q4_0"),
    ],
)
def test_kernels_that_do_not_exist_are_named(mode: str, tier: int, group: int, message: str) -> None:
    with pytest.raises(StrataError, match=message):
        prompt_attention.kernel(mode, tier, group)


def cuda_text(tier: int) -> str:
    """What a CUDA compiler gets to see of prompt_attention.cu in a tier: its text after the preprocessor."""
    compiler = find_compiler()
    numbers = {"TIER": tier, "K_FORMAT": 1, "V_FORMAT": 2, "GROUP": 12, "CELLS": 32, "SHARED_BYTES": 1, "MIN_BLOCKS": 2}
    words = [f"-D{name}={value}" for name, value in numbers.items()]
    source: FilePath = KERNELS / "prompt_attention.cu"
    command = [*compiler.command, "-E", "-P", "-x", "c++", *words, f"-I{KERNELS}", str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


#: Instructions that Turing does not have, as they are written in assembly.
SM80_ONLY = ("cp.async", "m16n8k16", "cvt.rn.f16x2.f32")


def test_nothing_of_sm80_is_compiled_into_sm75() -> None:
    turing, ampere = cuda_text(75), cuda_text(80)
    for instruction in SM80_ONLY:
        assert instruction in ampere
        assert instruction not in turing
    assert "m16n8k8" in turing
    assert "cp_async" not in turing


def test_the_output_keeps_its_shape_and_names_its_launch(checked: LanesExecutor) -> None:
    inputs = make("int8", queries=3)
    path = PATHS[path_of("int8", 80)]
    result = prompt_attention.run(checked, path, inputs.q, inputs.pool, inputs.ids, inputs.steps)
    assert result.out.shape == (3, 24, HEAD_DIM)
    (witness,) = result.witnesses
    assert (witness.entry, witness.grid, witness.blocks_run) == ("prompt_attention", (3, 2, 1), 6)
    assert witness.image == checked.build(prompt_attention.kernel("int8", 80, 12)).digest
