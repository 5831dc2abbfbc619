"""What a failing case tells a person to type runs that case again, as it was."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from strata.kernels.paths import PATHS
from validation.core.settings import Settings
from validation.operations.kv_pack.case import Case
from validation.parity import command as parity
from validation.run.runner import rerun_command

CASE = Case("captured", 9, 64, 3, 16, options=(("layer", "2"), ("packer", "gguf")))


@pytest.mark.parametrize(
    ("capture", "predict", "lanes", "words"),
    [
        (None, "none", False, []),
        (None, "all", False, ["--predict", "all"]),
        (None, "all", True, []),
        (Path("a b.npz"), "none", True, ["--capture", "a b.npz"]),
        (Path("a b.npz"), "sample", False, ["--capture", "a b.npz", "--predict", "sample"]),
    ],
)
def test_a_rerun_keeps_capture_and_prediction(
    capture: Path | None, predict: str, lanes: bool, words: list[str]
) -> None:
    assert parity.rerun_options(argparse.Namespace(capture=capture), predict, lanes) == words


def test_a_rerun_is_one_path_and_one_case_in_a_shell() -> None:
    path = PATHS["prompt_attention/q4_0/sm75"]
    settings = replace(Settings(), invocation="python -m validation parity --seed 3")
    words = shlex.split(rerun_command(CASE, path, settings))
    assert words[:6] == ["python", "-m", "validation", "parity", "--seed", "3"]
    assert words[6:-1] == ["--paths", path.name, "--case"]
    assert Case.parse(words[-1]) == CASE
