"""The options of `python -m validation quality`, and what is taken where none is given."""

from __future__ import annotations

import argparse
import sys

from strata.arguments import file, numbers, whole, word
from strata.executors import NAMES
from validation.quality import rule
from validation.quality.setting import ALL, Setting

GATE, LOSS, NEEDLES, PLANTED = PARTS = ("gate", "loss", "needles", "planted")
#: The model of the extra `model`.
MODEL = "gemma3-270m"
A, B = Setting("fp16", "baseline"), Setting("q4_0", "tensor")
#: Prompts and tokens of each: what a card needs minutes for. Lanes take fewer, by options.
PROMPTS, LENGTH, CONTINUED, TOKENS = 24, 256, 32, 4000
MOST_PROMPTS, MOST_LENGTH = 1000, 8192


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of `python -m validation quality`."""
    command.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART", help=f"of {', '.join(PARTS)}")
    command.add_argument("--model", type=file, metavar="FILE", help="a GGUF file (default: that of the extra `model`)")
    command.add_argument("--executor", choices=NAMES, default="auto", help="auto takes a card when there is one")
    command.add_argument("--out", type=file, metavar="DIR", help="keep run.json, quality.html and FP64 states there")
    command.add_argument(
        "--references",
        type=file,
        metavar="DIR",
        help="keep FP64 states, and what a published runtime said, there instead",
    )
    command.add_argument("--text", type=file, metavar="FILE", help="text in UTF-8 (default: what ships with Python)")
    compared = command.add_argument_group("gate and planted")
    compared.add_argument(
        "--a", type=word, default=str(A), metavar="SETTING", help="the yardstick (default: %(default)s)"
    )
    compared.add_argument(
        "--b", type=word, default=str(B), metavar="SETTING", help="what is judged (default: %(default)s)"
    )
    compared.add_argument(
        "--prompts",
        type=whole(rule.FEWEST, MOST_PROMPTS),
        default=PROMPTS,
        metavar="N",
        help=f"how many, at least {rule.FEWEST} (default: %(default)s)",
    )
    compared.add_argument(
        "--length",
        type=whole(2, MOST_LENGTH),
        default=LENGTH,
        metavar="N",
        help="tokens of each (default: %(default)s)",
    )
    compared.add_argument(
        "--continued",
        type=whole(0, MOST_LENGTH),
        default=CONTINUED,
        metavar="N",
        help="tokens of each greedy continuation (default: %(default)s)",
    )
    others = command.add_argument_group("loss and needles")
    others.add_argument(
        "--tokens", type=whole(2), default=TOKENS, metavar="N", help="tokens of the loss's text (default: %(default)s)"
    )
    others.add_argument(
        "--settings",
        type=word,
        default=",".join(map(str, ALL)),
        metavar="S,S,...",
        help="a KV format, a slash, baseline or tensor (default: all of them)",
    )
    others.add_argument(
        "--published", type=word, default=sys.executable, metavar="PYTHON", help="the Python that has xllamacpp"
    )
    others.add_argument("--lengths", type=numbers, metavar="N,N,...", help="tokens of the needles' prompts")
    others.add_argument("--seed", type=whole(), default=1, metavar="N", help="of the needles (default: %(default)s)")
    command.add_argument(
        "--ungated", action="store_true", help="serve paths without a record: of sources with a planted fault"
    )
