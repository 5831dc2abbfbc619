"""What the machine code of each path may use: the figures of README.md and of the kernels."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from strata.kernels.limits import Limits
from strata.kernels.paths import PATHS
from strata.kernels.registry import DESCRIPTORS, find

ARCHS = (75, 80, 86, 89, 90, 120)
ASYNC = ("LDGSTS", "LDGDEPBAR")


def limits(name: str, entry: str = "", arch: int = 75) -> Limits:
    path = PATHS[name]
    return find(path.operation).limits(path, entry, arch)


@pytest.mark.parametrize(
    ("name", "want"),
    [
        (
            "prompt_attention/q4_0/sm75",
            (65536, 0, (7,), ("HMMA.1688.F32",), (*ASYNC, "HMMA.16816", "HMMA.884")),
        ),
        (
            "prompt_attention/q4_0/sm80",
            (99 << 10, 0, (8, 9, 10, 12), ("HMMA.16816.F32", "LDGSTS"), ("HMMA.1688.", "HMMA.884")),
        ),
        ("kv_pack/q4_0/simt", (48 << 10, 0, (7, 8, 9, 10, 12), (), ("HMMA", "IMMA", "LDGSTS"))),
    ],
)
def test_limits_of_a_tier(name: str, want: tuple[object, ...]) -> None:
    assert astuple(limits(name)) == want


def test_integer_products_have_limits_of_their_own() -> None:
    for name, product in (
        ("expert_fused/iq3_s/q2_0/sm75", "expert_down"),
        ("expert_mmq/iq3_s/q2_0/sm75", "expert_mmq"),
    ):
        of_product, other = limits(name, product), limits(name, "swiglu_rows")
        assert of_product.shared_bytes == 64 << 10
        assert of_product.needs == ("IMMA.8816.S8.S8",)
        assert "IMMA" in other.forbids
        assert other.shared_bytes == 48 << 10
    assert limits("expert_fused/iq3_s/q2_0/sm80", "expert_gate_up", 80).forbids == ("HMMA", "IMMA.8816")


def test_limits_of_what_the_assembler_makes_on_later_cards() -> None:
    name = "expert_fused/iq3_s/q2_0/sm75"
    assert limits(name, "expert_down", 90) == limits(name, "expert_down", 75)
    for later in (limits(name, "expert_down", 120), limits("expert_mmq/iq3_s/q2_0/sm75", "expert_mmq", 100)):
        assert later.needs == ("IMMA",)
        assert "LDGSTS" in later.forbids
        assert not any(word.startswith("IMMA") for word in later.forbids)
    assert [limits(name, "expert_prepare", arch).spill_bytes for arch in (75, 90, 120)] == [0, 0, 460]


def test_every_known_spill_is_of_one_kernel() -> None:
    """Of whatever kernel a path may launch, for every architecture: three, and no other."""
    found = {
        (path.operation, path.mode.partition("/")[0], path.tier, kernel.entry, arch): spilled
        for path in PATHS.values()
        for kernel in DESCRIPTORS[path.operation].compiled(path)
        for arch in ARCHS
        if (spilled := find(path.operation).limits(path, kernel.entry, arch).spill_bytes)
    }
    prepare = {one for one in found if one[3] == "expert_prepare"}
    assert {found.pop(one) for one in prepare} == {460}
    assert {(one[0], one[4]) for one in prepare} == {("expert_fused", 120)}
    assert found == {
        **{("prompt_attention", "k8v4", "sm80", "prompt_attention", arch): 16 for arch in ARCHS},
        ("expert_fused", "iq2_xs", "sm80", "expert_gate_up", 120): 16,
    }
