"""`strata model info`: what a file holds, and what the engine lacks to run it."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata import cli
from strata.engine import model_command
from tests.strata.engine import tiny_gemma


def info(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = cli.main(["model", "info", str(path)])
    out, errors = capsys.readouterr()
    assert errors == ""
    return status, out


def test_sizes_and_formats_by_role(tiny_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out = info(tiny_path, capsys)
    assert status == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert f"file {tiny_path}, {tiny_path.stat().st_size:,} bytes, 41 tensors, 22 keys" in lines
    assert "layers 3, 1 of them see every cell, the others a window of 8" in lines
    assert "heads 4 query heads on 1 KV heads of 256" in lines
    assert "vocabulary 286 pieces, output by the embedding's matrix" in lines
    # 3 of 1,024 rows of 8 blocks of 22 bytes.
    assert f"attn_q q5_0 3 {3 * 1024 * 8 * 22:,} 1024 x 256" in lines
    assert f"ffn_norm f32 3 {3 * 256 * 4:,} 256" in lines
    assert lines[-1] == f"engine can run it: strata generate {tiny_path} --prompt-file FILE"


def test_what_the_engine_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tiny_gemma.write(
        tmp_path / "m.gguf",
        formats={"attn_v": "q4_1", "ffn_up": "bf16"},
        keys={"gemma3.final_logit_softcapping": 30.0},
    )
    status, out = info(path, capsys)
    assert status == 2
    lines = [line for line in out.splitlines() if line.startswith("engine")]
    assert lines[0].startswith("engine     cannot run it: tensor blk.0.attn_v.weight is q4_1; expected q8_0")
    assert [line.split(";")[0] for line in lines[1:]] == [
        "engine     cannot run it: 3 tensors of q4_1",
        "engine     cannot run it: 3 tensors of bf16",
    ]


def test_a_model_of_another_kind_is_shown_as_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tiny_gemma.write(tmp_path / "m.gguf", keys={"general.architecture": "a\x1bb", "general.name": "n\nm"})
    status, out = info(path, capsys)
    assert status == 2
    assert "model      n\\u000am, architecture a\\u001bb" in out
    assert "cannot run it: its architecture is 'a\\x1bb'; expected 'gemma3'" in out
    assert "attn_q" in out


def test_a_tokenizer_of_another_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tiny_gemma.write(tmp_path / "m.gguf", keys={"tokenizer.ggml.model": "gpt2"})
    status, out = info(path, capsys)
    assert status == 2
    assert "cannot run it: key tokenizer.ggml.model is 'gpt2'; expected 'llama'" in out


def test_what_is_no_file_of_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, why in (("absent", "No such file"), ("", "Is a directory")):
        assert cli.main(["model", "info", str(tmp_path / name)]) == 2
        out, errors = capsys.readouterr()
        assert out == ""
        assert why in errors
        assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("blk.3.attn_q.weight", "attn_q"),
        ("token_embd.weight", "token_embd"),
        ("blk.3.attn_q.bias", "attn_q.bias"),
        ("blk.x", "blk.x"),
    ],
)
def test_the_role_of_a_tensor(name: str, role: str) -> None:
    assert model_command._role(name) == role
