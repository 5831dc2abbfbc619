"""The golden blocks and experts: ggml's floats from the NumPy decoders and from the kernel, bit for bit."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from fixtures import blocks as golden
from fixtures.blocks import build, draw, make
from strata.executors.base import Executor
from strata.formats import FORMATS
from strata.formats.blocks import plain
from strata.kernels import block_decode
from validation.numerics import blocks as reference
from validation.operations.kv_pack import block_sweeps

LIMIT_BYTES = 550_000
NAMES = list(FORMATS)
MATRICES = [(name, part) for part in ("gate", "up") for name in draw.GATE_UP] + [(name, "down") for name in draw.DOWN]


def bits(x: np.ndarray) -> np.ndarray:
    return plain(x).view(np.uint32)


def matrix(name: str, part: str, index: int) -> np.ndarray:
    """uint8 [rows, row bytes] of one expert."""
    expert = golden.expert(*((draw.GATE_UP[0], name) if part == "down" else (name, draw.DOWN[0])), index)
    found: np.ndarray = getattr(expert, part)
    return found


def decoded(name: str, rows: np.ndarray) -> np.ndarray:
    """float32 [rows, values] by NumPy."""
    form = FORMATS[name]
    return form.decode(rows.reshape(len(rows), -1, form.nbytes)).reshape(len(rows), -1)


def test_the_files_are_small() -> None:
    assert sum(file.stat().st_size for file in golden.HERE.iterdir() if file.is_file()) < LIMIT_BYTES


def test_rows_and_weights_are_drawn_again_bit_for_bit() -> None:
    assert np.array_equal(draw.rows().view(np.uint32), golden.golden("q4_0").rows.view(np.uint32))
    digests = [{p: make.digest(m) for p, m in draw.weights(index).items()} for index in range(draw.EXPERTS)]
    assert digests == golden.manifest()["weights_sha256"]


def test_the_manifest_names_what_the_script_takes() -> None:
    said = golden.manifest()
    assert (said["package"], said["version"]) == (build.PACKAGE, build.VERSION)
    assert said["sdist_sha256"] == build.SHA256
    assert said["options"] == list(build.OPTIONS)
    readme = (golden.HERE.parent / "README.md").read_text()
    assert f"`{said['package']}` {said['version']}" in readme
    assert f"ggml {said['ggml']}" in readme


@pytest.mark.parametrize("name", NAMES)
def test_decoders_give_the_floats_of_ggml(name: str) -> None:
    stored = golden.golden(name)
    got = FORMATS[name].decode(stored.blocks).reshape(stored.floats.shape)
    assert np.array_equal(bits(got), bits(stored.floats))


@pytest.mark.parametrize("name", NAMES)
def test_decoders_give_the_floats_of_ggml_over_every_field(name: str) -> None:
    """ggml read the same sweeps when the files were written; of its floats only the digest is kept."""
    got = FORMATS[name].decode(block_sweeps.all_but_scales(name))
    assert hashlib.sha256(got.tobytes()).hexdigest() == golden.manifest()["sweeps_sha256"][name]


@pytest.mark.parametrize("name", block_decode.DECODED)
def test_the_kernel_gives_the_floats_of_ggml(name: str, every_executor: Executor) -> None:
    stored = golden.golden(name)
    got = block_decode.decode(every_executor, name, stored.blocks.reshape(len(stored.rows), -1), first=2, gap=2)
    assert got.guards_ok
    assert got.values is not None
    assert np.array_equal(bits(got.values), bits(stored.floats))


@pytest.mark.parametrize(("name", "part"), MATRICES)
def test_the_kernel_decodes_whole_experts(name: str, part: str, every_executor: Executor) -> None:
    rows = matrix(name, part, 0)
    got = block_decode.decode(every_executor, name, rows, first=2)
    assert got.values is not None
    assert np.array_equal(bits(got.values), bits(decoded(name, rows)))


@pytest.mark.parametrize("name", ["q4_0", "q5_0", "q5_1", "q8_0"])
def test_gguf_stores_the_same_bytes(name: str) -> None:
    """Its quantisers are a third implementation, for the formats for which it has one.

    Left out are parts whose scale overflows binary16, where codes are conversions of what no integer is.
    """
    import gguf

    stored = golden.golden(name)
    with np.errstate(all="ignore"):
        got = gguf.quants.quantize(stored.rows, gguf.GGMLQuantizationType[name.upper()])
    got = got.reshape(-1, FORMATS[name].nbytes)
    want = stored.blocks.reshape(got.shape)
    d = want[:, :2].copy().view(np.float16)[:, 0]
    ordinary = np.isfinite(d) & (d != 0)
    assert np.array_equal(got[ordinary], want[ordinary])
    assert np.array_equal(got[:, :2], want[:, :2])


@pytest.mark.parametrize(("name", "part"), MATRICES)
def test_bytes_of_experts_are_those_of_their_weights(name: str, part: str) -> None:
    """Every row is more like its own weights than like the next row's or the same row's of another expert.

    Q2_0 keeps a few values of a row of heavy tails, and those have the signs of their weights.
    """
    weights = np.concatenate([draw.weights(index)[part] for index in range(draw.EXPERTS)]).astype(np.float64)
    rows = np.concatenate([matrix(name, part, index) for index in range(draw.EXPERTS)])
    assert rows.shape[1] == FORMATS[name].row_bytes(weights.shape[1])
    got = decoded(name, rows).astype(np.float64)
    directions = weights / np.linalg.norm(weights, axis=1, keepdims=True)
    if name == "q2_0":
        assert (np.sign(got) == np.sign(weights))[got != 0].all()
        assert (got != 0).any(axis=1).all()
        return
    own = (got * directions).sum(axis=1)
    for by in (1, -1, len(rows) // draw.EXPERTS):
        assert (own > (got * np.roll(directions, by, axis=0)).sum(axis=1)).all()


def test_experts_are_complete() -> None:
    for gate_up in draw.GATE_UP:
        for down in draw.DOWN:
            for index in range(draw.EXPERTS):
                expert = golden.expert(gate_up, down, index)
                assert expert.gate.shape == expert.up.shape == (draw.FF, FORMATS[gate_up].row_bytes(draw.HIDDEN))
                assert expert.down.shape == (draw.HIDDEN, FORMATS[down].row_bytes(draw.FF))
                assert expert.blob.size == expert.gate.size + expert.up.size + expert.down.size


@pytest.mark.parametrize("name", NAMES)
def test_families_hold_what_they_are_named_for(name: str) -> None:
    stored = golden.golden(name)
    rows = {f: slice(draw.ROWS * i, draw.ROWS * (i + 1)) for i, f in enumerate(draw.FAMILIES)}
    first = int(reference.layout(name)["d"][0, 0]) // 8
    d = {f: stored.blocks[at][..., first : first + 2].copy().view(np.float16) for f, at in rows.items()}
    floats = {f: stored.floats[at] for f, at in rows.items()}
    assert (floats["heavy"] > 0).any()
    assert (floats["heavy"] < 0).any()
    assert np.isfinite(floats["heavy"]).all()
    assert (stored.rows[rows["sparse"]][0] == 0).all()
    magnitude = np.abs(d["subnormal"].astype(np.float64))
    least_normal = 2.0**-14
    assert ((magnitude < least_normal) & (magnitude > 0)).any()
    assert np.isfinite(d["large"][0]).all()
    assert np.isinf(d["large"][-1]).all()


def test_every_bit_of_every_field_varies_in_the_experts() -> None:
    """So a path that loses a bit of an index, a sign, a level or a code meets weights in which it matters."""
    for name, part in MATRICES:
        form = FORMATS[name]
        rows = np.concatenate([matrix(name, part, index) for index in range(draw.EXPERTS)])
        fields = reference.unpack(name, rows.reshape(-1, form.nbytes))
        for field in fields.keys() - {"d"}:
            places = reference.layout(name)[field].shape[1]
            assert np.bitwise_or.reduce(fields[field], axis=None) == (1 << places) - 1, (name, field)
            assert np.bitwise_and.reduce(fields[field], axis=None) == 0, (name, field)
