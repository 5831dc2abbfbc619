"""The tokenizer against vocabularies small enough to work out by hand, and against the definition of BPE."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.engine.gguf_file import GgufFile, ModelError, open_gguf
from strata.engine.tokenizer import SPACE, PieceType, Streamed, Tokenizer, Vocabulary, tokenizer_of
from strata.executors.base import StrataError
from tests.strata.engine import tiny_gemma

SPECIAL = {"<unk>": PieceType.UNKNOWN, "<bos>": PieceType.CONTROL}
BYTES = {f"<0x{byte:02X}>": PieceType.BYTE for byte in range(256)}


def vocabulary(normal: list[str], user_defined: tuple[str, ...] = (), *, byte_pieces: bool = True) -> Vocabulary:
    """Pieces with scores that fall in the order given, as a trained BPE model's do."""
    types = dict(SPECIAL) | (BYTES if byte_pieces else {})
    types |= dict.fromkeys(user_defined, PieceType.USER_DEFINED) | dict.fromkeys(normal, PieceType.NORMAL)
    return Vocabulary(list(types), [-float(rank) for rank in range(len(types))], list(types.values()), bos=1, unknown=0)


def pieces(words: Vocabulary, text: str) -> list[str]:
    first, *rest = (words.pieces[token] for token in Tokenizer(words).encode(text))
    assert first == "<bos>"
    return rest


def test_the_highest_score_merges_first() -> None:
    assert pieces(vocabulary(["bc", "ab", "a", "b", "c"]), "abc") == ["a", "bc"]
    assert pieces(vocabulary(["ab", "bc", "a", "b", "c"]), "abc") == ["ab", "c"]


def test_of_equal_pairs_the_leftmost_merges_first() -> None:
    assert pieces(vocabulary(["aa", "a"]), "aaaaa") == ["aa", "aa", "a"]


def test_a_merge_makes_new_pairs_on_both_sides() -> None:
    assert pieces(vocabulary(["bc", "abc", "abcd", "a", "b", "c", "d"]), "abcd") == ["abcd"]


def test_spaces_belong_to_words_and_none_is_added() -> None:
    words = vocabulary([f"{SPACE}b", "a", "b", SPACE])
    assert pieces(words, "a b") == ["a", f"{SPACE}b"]
    assert pieces(words, "b") == ["b"]


def test_user_defined_pieces_are_cut_out_longest_first_and_never_merge() -> None:
    words = vocabulary([f"{SPACE}a", "a", SPACE, "\n"], ("  ", "   ", "\n\n"))
    assert pieces(words, "    a\n\n\n") == ["   ", f"{SPACE}a", "\n\n", "\n"]


def test_control_pieces_are_not_read_from_text() -> None:
    assert "<bos>" not in pieces(vocabulary(["<", "<b", "<bo", "<bos", "b", "o", "s", ">"]), "<bos>")


def test_a_character_without_a_piece_becomes_its_bytes() -> None:
    assert pieces(vocabulary(["a"]), "aé") == ["a", "<0xC3>", "<0xA9>"]
    assert pieces(vocabulary(["a"], byte_pieces=False), "aé") == ["a", "<unk>", "<unk>"]


def test_encoding_is_lazy() -> None:
    tokens = Tokenizer(vocabulary(["a"], ("\n",))).encode("a\n" * 1000)
    assert [next(tokens), next(tokens)] == [1, vocabulary(["a"], ("\n",)).pieces.index("a")]


ENGLISH = Tokenizer(vocabulary(["th", "the", f"{SPACE}t", "t", "h", "e", SPACE], ("  ", "\n", "<p>")))


@given(st.text().filter(lambda text: SPACE not in text))
def test_text_survives(text: str) -> None:
    assert ENGLISH.decode(ENGLISH.encode(text)) == text


@given(st.text(["t", "h", "e", " ", "\n", "<", "p", ">", "é"]))
def test_text_of_pieces_survives(text: str) -> None:
    assert ENGLISH.decode(ENGLISH.encode(text)) == text


@given(st.text("ab", max_size=24), st.permutations(["aa", "ab", "ba", "bb", "aab", "aba", "abab", "bbb", "aabb"]))
def test_merging_follows_the_definition(text: str, ranked: list[str]) -> None:
    words = vocabulary([*ranked, "a", "b"])
    score = dict(zip(words.pieces, words.scores, strict=True))
    symbols = list(text)
    while pairs := [
        (score[left + right], -place)
        for place, (left, right) in enumerate(itertools.pairwise(symbols))
        if left + right in score
    ]:
        place = -max(pairs)[1]
        symbols[place : place + 2] = ["".join(symbols[place : place + 2])]
    assert pieces(words, text) == symbols


MIXED = Tokenizer(vocabulary(["é", "語", "t", SPACE]))
MIXED_BYTES = [*SPECIAL, *BYTES]


@given(st.lists(st.integers(0, len(MIXED) - 1)))
def test_streamed_text_is_the_decoded_text(tokens: list[int]) -> None:
    stream = Streamed(MIXED)
    parts = [stream.add(token) for token in tokens]
    assert "".join(parts) + stream.end() == MIXED.decode(tokens)


def test_a_character_is_held_back_until_it_is_whole() -> None:
    stream = Streamed(MIXED)
    first, second, third = (MIXED_BYTES.index(f"<0x{byte:02X}>") for byte in "語".encode())
    assert [stream.add(first), stream.add(second), stream.add(third)] == ["", "", "語"]
    assert stream.add(first) == ""
    assert stream.end() == "\ufffd"


@pytest.mark.parametrize("token", [-1, len(MIXED)])
def test_a_token_outside_of_the_vocabulary(token: int) -> None:
    with pytest.raises(StrataError, match=f"token {token}: expected 0 to {len(MIXED) - 1}"):
        MIXED.decode([token])


def test_a_file_s_tokenizer(tiny_path: Path) -> None:
    found = tokenizer_of(open_gguf(tiny_path), len(tiny_gemma.PIECES))
    assert found.ends == {tiny_gemma.EOS, tiny_gemma.END_OF_TURN}
    assert [tiny_gemma.PIECES[token] for token in found.encode("the é\n  x")] == [
        "<bos>",
        "the",
        SPACE,
        "é",
        "\n",
        "  ",
        "<0x78>",
    ]


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("model", "gpt2", "model is 'gpt2'; expected 'llama'"),
        ("add_space_prefix", True, "add_space_prefix is True; expected False"),
        ("add_bos_token", False, "add_bos_token is False; expected True"),
        ("add_bos_token", None, "no key tokenizer.ggml.add_bos_token"),
        ("tokens", ["a"], "tokens is 1 pieces; expected 286"),
        ("tokens", 7, "tokens is 7 pieces; expected 286"),
        ("tokens", ["\x1b"] * 286, r"piece 8 is the byte '\x1b'; expected one such as '<0x0A>'"),
        ("tokens", [*tiny_gemma.PIECES[:-1], ""], "piece 285 is empty"),
        ("scores", np.zeros(285, np.float32), "scores is 285 of float32; expected 286 numbers"),
        ("scores", np.zeros(286, np.int32), "scores is 286 of int32; expected 286 numbers"),
        ("scores", np.full(286, np.nan, np.float32), "scores has a number that is not finite"),
        ("token_type", np.zeros(286, np.int32), "piece 0 has type 0; expected 1 to 6"),
        ("token_type", "all", "token_type is all; expected 286 whole numbers"),
        ("bos_token_id", 286, "bos_token_id is 286; expected a token of 0 to 285"),
        ("unknown_token_id", -1, "unknown_token_id is -1"),
        ("eos_token_id", True, "eos_token_id is True"),
    ],
)
def test_a_tokenizer_that_does_not_fit(tiny_path: Path, key: str, value: Any, why: str) -> None:
    file = open_gguf(tiny_path)
    values = {**file.values, f"tokenizer.ggml.{key}": value}
    if value is None:
        del values[f"tokenizer.ggml.{key}"]
    with pytest.raises(ModelError) as caught:
        tokenizer_of(GgufFile(file.path, file.nbytes, values, file.tensors), 286)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_without_an_end_has_none(tiny_path: Path) -> None:
    file = open_gguf(tiny_path)
    values = {key: value for key, value in file.values.items() if key != "tokenizer.ggml.eos_token_id"}
    found = tokenizer_of(GgufFile(file.path, file.nbytes, values, file.tensors), 286)
    assert found.ends == {tiny_gemma.END_OF_TURN}


@given(st.text(["t", "h", "e", " ", "<", "p", ">", "é"], min_size=1))
def test_a_text_has_as_many_tokens_as_its_longest_pieces_need(text: str) -> None:
    assert len(text) <= (len(list(ENGLISH.encode(text))) - 1) * ENGLISH.longest


def test_user_defined_pieces_without_end(tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strata.engine.tokenizer.MOST_USER_DEFINED", 2)
    with pytest.raises(ModelError, match="its user-defined pieces have 3 characters; expected at most 2"):
        tokenizer_of(open_gguf(tiny_path), 286)
