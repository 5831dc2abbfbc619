"""Captured inputs: rotated and packed as the engine does it, whatever packs them; bad requests are one line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from strata.executors.base import StrataError
from strata.kernels.pool import MODES, Pool
from tests.validation.stub import StubExecutor, attention
from validation.controls.stub_packing import pack as numpy_pack
from validation.core.random_streams import Stream
from validation.operations.attention import captured as captured_case
from validation.operations.attention.captured import build_captured
from validation.operations.kv_pack.case import Case
from validation.operations.kv_pack.reference import hadamard

FILE = Path("capture.npz")
CASE = Case("captured", 1, 60, 5, 4, 1, 4, options=(("layer", "5"), ("packer", "reference")))
EXECUTOR = StubExecutor()


def made(name: str, heads: int) -> np.ndarray:
    return Stream.of(2, name).normals((70, heads, 256))


LAYER = SimpleNamespace(q=made("q", 4), k=made("k", 1), v=made("v", 1))


@pytest.fixture(autouse=True)
def _capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured_case, "load", lambda file: SimpleNamespace(layers={0: LAYER, 5: LAYER}))

    def pack(_: object, mode: str, k: np.ndarray, v: np.ndarray, page_size: int, table: np.ndarray, pages: int) -> Pool:
        return numpy_pack(EXECUTOR, mode, k, v, page_size=page_size, table=table, pages=pages).pool

    monkeypatch.setattr(captured_case, "pack", pack)


def options(**named: str) -> Case:
    return replace(CASE, options=tuple(sorted((dict(CASE.options) | named).items())))


def direct() -> np.ndarray:
    """float64 attention of the captured values themselves, causal."""
    out = np.zeros((5, 4, 256))
    for index, position in enumerate(range(55, 60)):
        scores = LAYER.q[position].astype(np.float64) @ LAYER.k[: position + 1, 0].T / 16
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        out[index] = weights @ LAYER.v[: position + 1, 0] / weights.sum(axis=-1, keepdims=True)
    return out


@pytest.mark.parametrize(("mode", "near"), [("fp16", 2e-3), ("int8", 3e-2), ("k8v4", 0.3), ("q4_0", 0.4)])
def test_attention_over_the_packed_capture_is_that_of_the_capture(mode: str, near: float) -> None:
    inputs = build_captured(CASE, mode, EXECUTOR, FILE)
    out = attention(inputs).astype(np.float64)
    if mode in ("k8v4", "q4_0"):
        out = hadamard(out)
    # What the formats themselves lose: far less than any two rows, heads or rotations differ.
    assert np.abs(out - direct()).max() < near
    assert inputs.widths.tolist() == [56, 57, 58, 59, 60]


@pytest.mark.parametrize("mode", MODES)
def test_all_packers_give_the_same_pool(mode: str) -> None:
    pools = [build_captured(options(packer=name), mode, EXECUTOR, FILE).pool for name in captured_case.PACKERS]
    cells = np.arange(60)
    for other in pools[1:]:
        page, slot = pools[0].table[cells // 4], cells % 4
        assert np.array_equal(other.table, pools[0].table)
        for plane in ("k", "v", "k_scale", "v_scale"):
            one, two = getattr(pools[0], plane), getattr(other, plane)
            assert (one is None) == (two is None)
            if one is not None:
                assert np.array_equal(one[page, :, slot], two[page, :, slot])


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (options(layer="4"), "layer is '4', expected one of those captured: 0, 5"),
        (replace(CASE, options=()), "layer is ''"),
        (options(packer="mine"), "packer is 'mine', expected one of kernel, reference, gguf"),
        (replace(CASE, context=71), "context is 71, expected at most the 70 tokens"),
        (replace(CASE, group=12), "expected the capture's kv=1 group=4"),
    ],
)
def test_what_the_capture_does_not_have_is_refused(case: Case, message: str) -> None:
    with pytest.raises(StrataError, match=message):
        build_captured(case, "int8", EXECUTOR, FILE)


def test_without_a_file_there_is_nothing_to_build() -> None:
    with pytest.raises(StrataError, match="--capture"):
        build_captured(CASE, "int8", EXECUTOR, None)
