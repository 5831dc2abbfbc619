"""A capture file is believed only when everything in it fits."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.validation.captured.facts import METADATA
from validation.captured.archive import Capture, CaptureError, LayerCapture, check_loss, load, save


def small() -> Capture:
    generator = np.random.default_rng(0)
    layers = {
        layer: LayerCapture(*(generator.standard_normal((3, heads, 8)).astype(np.float32) for heads in (4, 1, 1)))
        for layer in METADATA.layers
    }
    return Capture(layers, METADATA)


def same(one: Capture, other: Capture) -> bool:
    return one.metadata == other.metadata and all(
        np.array_equal(getattr(one.layers[layer], part), getattr(other.layers[layer], part))
        for layer in one.metadata.layers
        for part in "qkv"
    )


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    save(small(), tmp_path / "small.npz")
    return tmp_path / "small.npz"


def test_what_was_saved_is_loaded(stored: Path) -> None:
    assert same(load(stored), small())
    assert list(stored.parent.iterdir()) == [stored]


def test_the_same_capture_is_the_same_file(stored: Path, tmp_path: Path) -> None:
    save(small(), tmp_path / "again.npz")
    assert stored.read_bytes() == (tmp_path / "again.npz").read_bytes()


def test_an_interrupted_save_leaves_the_old_file(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = stored.read_bytes()

    def interrupt(*args: Any, **arrays: Any) -> None:
        args[0].write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(small(), stored)
    assert stored.read_bytes() == before
    assert list(stored.parent.iterdir()) == [stored]


def test_an_unwritable_place_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"cannot write .*absent"):
        save(small(), tmp_path / "absent" / "file.npz")


def rewrite(path: Path, changes: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Replace metadata entries and arrays of a capture; None takes one out."""
    with np.load(path) as archive:
        held = {name: archive[name] for name in archive.files}
    values = json.loads(held["metadata"].item()) | changes
    held["metadata"] = np.array(json.dumps({key: value for key, value in values.items() if value is not None}))
    held |= arrays
    np.savez(path, **{name: array for name, array in held.items() if array is not None})


def hole(value: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    array = np.ones((3, 1, 8), np.float32)
    array[1, 0, 3] = value
    return array


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"k_5": None}, "holds k_0, q_0, q_5, v_0, v_5; expected k_0, k_5,"),
        ({"k_7": np.ones((3, 1, 8), np.float32)}, "holds .*k_7.*; expected"),
        ({"k_5": np.ones((3, 1, 8), np.float64)}, "k_5 of .* has dtype float64; expected float32"),
        ({"k_5": np.ones((3, 1, 8), ">f4")}, "k_5 of .* has dtype >f4; expected float32"),
        ({"k_5": np.ones((3, 1, 9), np.float32)}, r"k_5 of .* has shape \(3, 1, 9\); expected \(3, 1, 8\)"),
        ({"q_0": np.ones((2, 4, 8), np.float32)}, r"q_0 of .* has shape \(2, 4, 8\); expected \(3, 4, 8\)"),
        ({"v_0": hole(np.nan)}, "v_0 of .* holds 1 elements that are not finite"),
        ({"v_0": hole(np.inf)}, "v_0 of .* holds 1 elements that are not finite"),
        ({"v_0": np.array([{}], dtype=object)}, "cannot read .*allow_pickle"),
        ({"metadata": None}, "no metadata string"),
        ({"metadata": np.zeros(3)}, "no metadata string"),
        ({"metadata": np.array("{")}, "not JSON"),
        ({"metadata": np.array("[1]")}, "format .*expected 'strata-capture/1'"),
        ({"metadata": np.array("[" * 100_000)}, "not JSON"),
    ],
)
def test_bad_arrays_are_refused(stored: Path, arrays: dict[str, Any], message: str) -> None:
    rewrite(stored, {}, arrays)
    with pytest.raises(CaptureError, match=message):
        load(stored)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"format": "strata-capture/2"}, "format 'strata-capture/2'; expected 'strata-capture/1'"),
        ({"loss": None}, "metadata of .* has .*; expected .*loss,"),
        ({"extra": 1}, "metadata of .* has .*extra"),
        ({"tokens": 3.0}, "metadata tokens of .* is '3.0'; expected a positive whole number"),
        ({"tokens": True}, "metadata tokens of .* is 'True'"),
        ({"tokens": 4}, r"has shape \(3, 4, 8\); expected \(4, 4, 8\)"),
        ({"n_head": 0}, "metadata n_head of .* is '0'"),
        ({"layers": "05"}, "metadata layers of .* is '05'; expected a list"),
        ({"layers": [0, 5, 5]}, "metadata layers of .* is 0, 5, 5; expected distinct"),
        ({"layers": []}, "metadata layers of .* is nothing"),
        ({"layers": [0, 6]}, "expected k_0, k_6"),
        ({"rope_included": False}, "rope_included of .* is false"),
        ({"rope_included": 1}, "rope_included of .* is '1'; expected true or false"),
        ({"loss": float("nan")}, "metadata of .* holds NaN, which is not JSON"),
        ({"loss": 9.0}, "loss is 9.000 per token; expected below 5.000"),
        ({"numpy": 2}, "metadata numpy of .* is '2'; expected a string"),
    ],
)
def test_bad_metadata_is_refused(stored: Path, metadata: dict[str, Any], message: str) -> None:
    rewrite(stored, metadata, {})
    with pytest.raises(CaptureError, match=message):
        load(stored)


def test_what_is_no_capture_is_refused(tmp_path: Path) -> None:
    array, empty, text = tmp_path / "a.npy", tmp_path / "empty.npz", tmp_path / "text.npz"
    np.save(array, np.ones(3))
    empty.touch()
    text.write_text("q, k and v")
    with pytest.raises(CaptureError, match="single array"):
        load(array)
    for path in (empty, text, tmp_path, tmp_path / "absent.npz"):
        with pytest.raises(CaptureError, match="cannot read"):
            load(path)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_is_an_error_or_without_effect(stored: Path, tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(stored.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    damaged = tmp_path / "damaged.npz"
    damaged.write_bytes(content[: data.draw(st.sampled_from([len(content), len(content) // 2]))])
    try:
        result = load(damaged)
    except CaptureError as error:
        message = str(error)
    else:
        message = ""
        assert same(result, small())
    assert "\n" not in message


@pytest.mark.parametrize("loss", [5.0, 11.0, float("nan"), float("inf"), -0.5])
def test_a_bad_loss_is_an_error(loss: float) -> None:
    with pytest.raises(CaptureError, match=r"expected below 5\.000"):
        check_loss(loss, 5.0)


def test_metadata_is_all_plain_values() -> None:
    assert json.loads(json.dumps(dataclasses.asdict(METADATA)))["layers"] == [0, 5]
