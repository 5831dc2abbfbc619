"""The tokenizer against vocabularies small enough to work out by hand, and against the definition of BPE."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from validation.captured.tokenizer import SPACE, PieceType, Tokenizer, Vocabulary

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
