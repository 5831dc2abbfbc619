"""`strata generate` with a model that a test makes up: what is printed where, what ends it, and what is refused."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strata import cli
from strata.engine import generate
from strata.engine.generate import Options
from strata.engine.gguf_file import GgufFile
from strata.engine.tokenizer import SPACE, Tokenizer
from strata.executors.base import StrataError
from tests.strata.engine import tiny_gemma
from tests.strata.engine.tiny_gemma import EOS, PIECES


def ids(*pieces: str) -> list[int]:
    return [PIECES.index(piece) for piece in pieces]


class Scripted:
    """A model whose next token is written down; an exception in the script is raised."""

    def __init__(self, script: Sequence[int | BaseException], executor: str = "lanes") -> None:
        self.script = list(script)
        self.executor = executor
        self.read: list[list[int]] = []
        self.decoded: list[int] = []
        self.began = 0

    def start(self) -> None:
        self.began += 1

    def prefill(self, tokens: Sequence[int]) -> np.ndarray:
        self.read.append(list(tokens))
        return self.logits()

    def decode(self, token: int) -> np.ndarray:
        self.decoded.append(token)
        return self.logits()

    def logits(self) -> np.ndarray:
        following = self.script[len(self.decoded)]
        if isinstance(following, BaseException):
            raise following
        out = np.full(len(PIECES), -10, np.float32)
        out[following] = 1
        return out

    def facts(self) -> dict[str, Any]:
        return {
            "executor": {"executor": self.executor},
            "kv": "fp16",
            "context": 40,
            "pages": 1,
            "page_size": 64,
            "chunk": 32,
            "paths": ["prompt_attention: the baseline serves", "linear: a\x1b[2Jb"],
        }


Run = Callable[..., int]


@pytest.fixture
def asked() -> list[Options]:
    return []


@pytest.fixture
def run(tiny_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[Options]) -> Run:
    """Runs the command on a prompt: options, a model, a prompt's bytes, a model's file."""

    def go(*options: str, model: Scripted | None = None, prompt: bytes | None = b"the", file: Path = tiny_path) -> int:
        @contextmanager
        def opened(found: GgufFile, chosen: Options) -> Iterator[Scripted]:
            assert found.path == file
            asked.append(chosen)
            yield model or Scripted([])

        monkeypatch.setattr(generate, "opened", opened)
        if prompt is not None:
            (tmp_path / "prompt").write_bytes(prompt)
        return cli.main(["generate", str(file), "--prompt-file", str(tmp_path / "prompt"), *options])

    return go


def test_text_goes_to_output_and_the_rest_to_errors(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    model = Scripted([*ids(f"{SPACE}the", "an", "<0xC3>", "<0xA9>"), EOS])
    assert run(model=model) == 0
    out, errors = capsys.readouterr()
    assert out == " thean\u00e9\n"
    first, *paths = errors.splitlines()
    assert first.startswith("read 2 tokens in ")
    assert "; wrote 5 in " in first
    assert first.count("tokens/s") == 2
    assert "on lanes, a CPU: no speed of any card; kv fp16, context 40, pages 1, page size 64, chunk 32" in first
    # What a path's line says is shown, not obeyed.
    assert paths == ["prompt_attention: the baseline serves", "linear: a\\u001b[2Jb"]
    assert model.began == 1
    assert model.read == [ids("<bos>", "the")]
    assert model.decoded == ids(f"{SPACE}the", "an", "<0xC3>", "<0xA9>")


def test_a_card_has_a_speed(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(model=Scripted([EOS], "cuda")) == 0
    out, errors = capsys.readouterr()
    assert out == ""
    assert "no speed" not in errors
    assert errors.count("tokens/s") == 1  # nothing was decoded


def test_text_comes_as_its_tokens_do(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    seen = []

    class Watched(Scripted):
        def decode(self, token: int) -> np.ndarray:
            seen.append(capsys.readouterr().out)
            return super().decode(token)

    assert run(model=Watched([*ids("t", "<0xE8>", "<0xAA>", "<0x9E>", "h"), EOS])) == 0
    assert seen == ["t", "", "", "語", "h"]


def test_half_a_character_at_the_end_is_shown_as_such(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(model=Scripted([*ids("t", "<0xE8>"), EOS])) == 0
    assert capsys.readouterr().out == "t\ufffd\n"


def test_what_a_terminal_would_obey_is_not_sent(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(model=Scripted([*ids("<0x1B>", "\n"), EOS])) == 0
    assert capsys.readouterr().out == "\\u001b\n"


@pytest.mark.parametrize("end", [EOS, tiny_gemma.END_OF_TURN])
def test_an_end_stops_it_and_is_not_printed(run: Run, capsys: pytest.CaptureFixture[str], end: int) -> None:
    model = Scripted([*ids("t"), end])
    assert run(model=model) == 0
    assert capsys.readouterr().out == "t\n"


def test_as_many_tokens_as_are_asked_for(run: Run, capsys: pytest.CaptureFixture[str], asked: list[Options]) -> None:
    model = Scripted(ids("t") * 9)
    assert run("--max", "3", model=model) == 0
    assert capsys.readouterr().out == "ttt\n"
    # Behind the last token nothing is computed.
    assert len(model.decoded) == 2
    assert asked == [Options("auto", None, "fp16", 5, None, None)]


def test_a_full_context_ends_it(run: Run, capsys: pytest.CaptureFixture[str], asked: list[Options]) -> None:
    model = Scripted(ids("t") * 9)
    assert run("--context", "4", model=model) == 0
    assert capsys.readouterr().out == "ttt\n"
    # Two cells of the prompt, two of the answer, whose third token needs none.
    assert len(model.decoded) == 2
    assert asked[0].context == 4


def test_a_prompt_that_fills_the_context_has_an_answer_of_a_token(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--context", "2", model=Scripted(ids("t"))) == 0
    assert capsys.readouterr().out == "t\n"


def test_options_reach_the_engine(run: Run, asked: list[Options]) -> None:
    words = ["--kv", "q4_0", "--context", "1k", "--chunk", "7", "--page", "16", "--capability", "8.0"]
    assert run(*words, model=Scripted([EOS])) == 2  # the model was made for 512
    words[3] = "512"
    assert run(*words, model=Scripted([EOS])) == 0
    assert asked == [Options("lanes", 80, "q4_0", 512, 7, 16)]
    assert run("--executor", "cuda", "--max", "1000", model=Scripted([EOS])) == 0
    assert asked[1] == Options("cuda", None, "fp16", 512, None, None)


def test_a_prompt_is_read_in_pieces(run: Run) -> None:
    tokens = ids("<bos>") + ids("t") * 299
    for options, sizes in (((), [128, 128, 44]), (("--chunk", "250"), [250, 50])):
        model = Scripted([EOS])
        assert run(*options, model=model, prompt=b"t" * 299) == 0
        assert [len(piece) for piece in model.read] == sizes
        assert [token for piece in model.read for token in piece] == tokens


def test_reading_tells_how_far_it_is(run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("strata.engine.telling.BETWEEN_S", 0.0)
    assert run(model=Scripted([EOS]), prompt=b"t" * 299) == 0
    told = capsys.readouterr().err.splitlines()[:3]
    assert told == [f"reading: {done} of 300 tokens" for done in (128, 256, 300)]


def test_a_seed_gives_the_same_text_and_another_another(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    class Flat(Scripted):
        def logits(self) -> np.ndarray:
            out = np.full(len(PIECES), -100, np.float32)
            out[PIECES.index("e") : PIECES.index("u")] = 0
            return out

    texts = []
    for seed in ("5", "5", "6"):
        assert run("--temperature", "1", "--seed", seed, "--max", "40", model=Flat([])) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]


def test_the_first_logits_are_kept(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(generate.DUMP, str(tmp_path / "first.npy"))
    assert run(model=Scripted([*ids("t"), EOS])) == 0
    found = np.load(tmp_path / "first.npy")
    assert found.dtype == np.float32
    assert np.array_equal(found, Scripted(ids("t")).logits())


def test_a_disk_that_is_full_for_the_first_logits(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setenv(generate.DUMP, str(tmp_path / "kept" / "first.npy"))
    (tmp_path / "kept").mkdir()
    monkeypatch.setattr("strata.whole_file.os.fsync", full)
    assert run(model=Scripted([EOS])) == 2
    assert one_line(capsys).endswith("first.npy': No space left on device")
    assert list((tmp_path / "kept").iterdir()) == []


@pytest.mark.parametrize("name", ["absent/first.npy", "."])
def test_a_place_where_no_first_logits_can_be(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    model = Scripted([EOS])
    monkeypatch.setenv(generate.DUMP, str(tmp_path / name))
    assert run(model=model) == 2
    assert "expected a file in a directory that is there" in one_line(capsys)
    assert not model.read


def one_line(capsys: pytest.CaptureFixture[str], out: str = "") -> str:
    """The line on standard error, which is all there is beside `out`."""
    printed, errors = capsys.readouterr()
    assert printed == out
    assert errors.startswith(("strata: ", "interrupted "))
    assert errors.count("\n") == 1
    return errors.rstrip("\n")


@pytest.mark.parametrize(
    ("script", "out", "why"),
    [
        ([KeyboardInterrupt()], "", "before the first token"),
        ([*ids("t", "h"), KeyboardInterrupt()], "th\n", "after 2 tokens; what is printed stays"),
        ([*ids("t"), KeyboardInterrupt()], "t\n", "after 1 token; what is printed stays"),
    ],
)
def test_ctrl_c_leaves_what_is_printed(
    run: Run, capsys: pytest.CaptureFixture[str], script: list[Any], out: str, why: str
) -> None:
    assert run(model=Scripted(script)) == 2
    assert one_line(capsys, out) == f"interrupted {why}"


def test_an_error_in_the_middle_leaves_what_is_printed(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(model=Scripted([*ids("t", "h"), StrataError("the card is gone")])) == 2
    assert one_line(capsys, "th\n") == "strata: the card is gone"


def test_logits_that_are_no_numbers_end_it(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    class Broken(Scripted):
        def logits(self) -> np.ndarray:
            return np.full(len(PIECES), np.nan, np.float32)

    assert run(model=Broken([])) == 2
    assert "a logit of 286 is not a number" in one_line(capsys)


class Closed(io.StringIO):
    """An output whose writes fail."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def write(self, text: str) -> int:
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize(
    ("number", "status", "said"),
    [
        (errno.ENOSPC, 2, "error: standard output cannot be written: No space left on device\n"),
        (errno.EPIPE, 141, ""),
    ],
)
def test_output_that_cannot_be_written_ends_it(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: Any, number: int, status: int, said: str
) -> None:
    model = Scripted(ids("t") * 9)
    monkeypatch.setattr("sys.stdout", Closed(number))
    assert run(model=model) == status
    assert capsys.readouterr().err == said
    assert not model.decoded


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--temperature", "-1"), "--temperature '-1': expected a number of 0 or more"),
        (("--temperature", "nan"), "--temperature 'nan': expected a number"),
        (("--seed", str(1 << 64)), "--seed '18446744073709551616': expected a whole number"),
        (("--seed", "1.5"), "--seed '1.5': expected a whole number"),
        (("--top-k", "-1"), "--top-k '-1': expected a whole number"),
        (("--top-p", "0"), "top-p 0.0: expected a number above 0 and at most 1"),
        (("--top-p", "1.5"), "top-p 1.5: expected a number above 0 and at most 1"),
        (("--min-p", "2"), "min-p 2.0: expected a number 0 to 1"),
        (("--repeat-penalty", "0"), "repeat penalty 0.0: expected a number above 0"),
        (("--repeat-window", "x"), "--repeat-window 'x': expected a whole number"),
        (("--max", "0"), "--max '0': expected a whole number"),
        (("--context", "0"), "--context '0': expected a whole number"),
        (("--context", "513"), "--context 513: expected at most 512"),
        (("--chunk", "0"), "--chunk '0': expected a whole number of 1"),
        (("--page", "5000"), "--page '5000': expected a whole number of 1 to 4096"),
        (("--kv", "fp8"), "--kv 'fp8': expected one of fp16, int8"),
        (("--executor", "cpu"), "--executor 'cpu': expected one of auto, lanes, cuda"),
        (("--capability", "8"), "--capability '8': expected major.minor"),
        (("--executor", "cuda", "--capability", "8.0"), "--capability 8.0: expected none with --executor cuda"),
        (("--context", "1"), "the prompt has more than 1 tokens; expected at most 1, the context"),
        (("--prompt-file", "/"), "--prompt-file /: Is a directory; expected a prompt"),
        (("--prompt-file", "/no\x1b"), r"--prompt-file /no\u001b: No such file or directory; expected a prompt"),
    ],
)
def test_what_is_out_of_range(
    run: Run, capsys: pytest.CaptureFixture[str], asked: list[Options], options: tuple[str, ...], why: str
) -> None:
    assert run(*options) == 2
    assert why in one_line(capsys)
    assert not asked


@pytest.mark.parametrize(
    ("prompt", "why"), [(b"", "prompt is empty; expected a prompt"), (b"th\xff", "prompt is no UTF-8 at byte 2")]
)
def test_a_prompt_that_is_no_text(run: Run, capsys: pytest.CaptureFixture[str], prompt: bytes, why: str) -> None:
    assert run(prompt=prompt) == 2
    assert why in one_line(capsys)


def test_a_name_that_is_none(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run("--prompt-file", "")
    assert ended.value.code == 2
    assert "argument --prompt-file: '': expected the name of a file" in capsys.readouterr().err


def test_a_prompt_of_any_length_is_read_no_further_than_needed(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(prompt=b"t" * 512) == 2
    assert "the prompt has more than 512 tokens; expected at most 512, the context" in one_line(capsys)
    with monkeypatch.context() as patched:
        patched.setattr(Tokenizer, "encode", lambda *_: pytest.fail("a text beyond every context was cut"))
        assert run(prompt=b"t" * (512 * len("<start_of_turn>") + 1)) == 2
    assert "the prompt has more than 512 tokens" in one_line(capsys)
    monkeypatch.setattr(generate, "MOST_PROMPT_BYTES", 100)
    assert run(prompt=b"t" * 101) == 2
    assert "prompt has more than 100 bytes" in one_line(capsys)


def test_a_prompt_from_standard_input(run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("the é".encode())))
    model = Scripted([EOS])
    assert run("--prompt-file", "-", model=model) == 0
    assert model.read == [ids("<bos>", "the", SPACE, "é")]
    capsys.readouterr()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    assert run("--prompt-file", "-") == 2
    assert "standard input is empty" in one_line(capsys)
    monkeypatch.setattr("sys.stdin", None)
    assert run("--prompt-file", "-") == 2
    assert "standard input is closed" in one_line(capsys)


def test_a_file_that_is_no_model(run: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path, tiny_path: Path) -> None:
    (tmp_path / "cut.gguf").write_bytes(tiny_path.read_bytes()[:-5000])
    assert run(file=tmp_path / "cut.gguf") == 2
    assert "expected a file with all of it" in one_line(capsys)
    tiny_gemma.write(tmp_path / "other.gguf", keys={"tokenizer.ggml.model": "gpt2"})
    assert run(file=tmp_path / "other.gguf") == 2
    assert "tokenizer.ggml.model is 'gpt2'" in one_line(capsys)
