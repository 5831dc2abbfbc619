"""`strata memory plan`: what fits on a card that need not be here.

Status 0 when decoding has its memory and its reserve, and a prompt can be read without a loan; 1 when not; 2 for sizes
that cannot be. The loan is planned with what the STRATA_PREFILL switches lend, or with all of it when they lend
nothing, and a line says so.
"""

from __future__ import annotations

import argparse
import os
import re
from decimal import Decimal

from strata import switches
from strata.executors.base import StrataError
from strata.formats import FORMATS
from strata.memory import plan_text
from strata.memory.plan import SYSTEM, memory_plan
from strata.memory.plan_asked import MOST_CONTEXT, Asked, Card
from strata.memory.settings import loan_settings
from strata.memory.shapes import ModelShape, row_bytes

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "k": 1 << 10,
    "m": 1 << 20,
    "g": 1 << 30,
    "tb": 10**12,
    "tib": 1 << 40,
    "t": 1 << 40,
}
#: A number without a unit is bytes; below this it was meant in another unit.
LEAST_PLAIN = 1024
#: How names of the loan's switches begin.
LOANS = f"{switches.PREFIX}PREFILL_"


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `memory` with its own command `plan`."""
    memory = commands.add_parser("memory", help="device memory: what fits where")
    plan = memory.add_subparsers(required=True, metavar="COMMAND").add_parser(
        "plan", help="expert cache, reserve and prompt chunk on a card that need not be here"
    )
    plan.add_argument("--vram", required=True, metavar="SIZE", help="of the card, e.g. 8GiB")
    plan.add_argument("--free", metavar="SIZE", help="before the engine loads anything; default: all but 512 MiB")
    plan.add_argument(
        "--reserve", metavar="SIZE", help="to stay free while decoding; default 700 MiB, less on a small card"
    )
    plan.add_argument(
        "--model-shape",
        default="48x512/2560x640/10",
        metavar="LxE/NxF/K",
        help="layers x experts / width of the model x of an expert / experts of a token; default %(default)s",
    )
    plan.add_argument("--pair", default="iq3_xxs/iq4_nl", metavar="A/B", help="gate and up / down; default %(default)s")
    plan.add_argument("--blob", metavar="SIZE", help="of the largest expert, where layers differ; default: the pair's")
    plan.add_argument(
        "--context", default="32768", metavar="N", help="cells of the KV cache, e.g. 64k; default %(default)s"
    )
    plan.add_argument("--kv", default="q4_0", metavar="MODE", help="format of the KV cache; default %(default)s")
    plan.add_argument(
        "--head", default="248320:q5_k", metavar="N:F", help="rows and format of the output head; default %(default)s"
    )
    plan.add_argument("--mtp", default="q2_0/q2_0", metavar="A/B", help="draft experts, or none; default %(default)s")
    plan.add_argument("--weights", metavar="SIZE", help="dense weights and recurrent state; default: an estimate")
    plan.add_argument("--pinned", default="1", metavar="X", help="share of experts in page-locked memory; default 1")
    plan.add_argument("--segment", default="64MiB", metavar="SIZE", help="of lent pieces, at least 64 MiB, the default")
    plan.add_argument("--stream-kv", action="store_true", help="K and V in host memory, one layer staged at a time")
    plan.add_argument("--fp16-experts", action="store_true", help="count the FP16 fallback of the expert layer")
    plan.add_argument("--prompt", metavar="N", help="also show how a prompt of N tokens, at most the context, is cut")
    plan.add_argument("--json", action="store_true", help="as JSON, sizes in bytes")
    plan.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Print the plan. Raises StrataError for sizes and formats that cannot be."""
    total = size("--vram", chosen.vram)
    if total < 1:
        raise StrataError(f"--vram {chosen.vram!r}: expected more than nothing")
    free = max(0, total - SYSTEM) if chosen.free is None else size("--free", chosen.free)
    if free > total:
        raise StrataError(f"--free {chosen.free!r}: expected at most --vram {chosen.vram!r}")
    context = number("--context", chosen.context, 1, MOST_CONTEXT)
    prompt = None if chosen.prompt is None else number("--prompt", chosen.prompt, 1, context)
    environ = switches.read(os.environ)
    settings, problems = loan_settings(environ)
    asked = Asked(
        shape=shape(chosen),
        context=context,
        kv=chosen.kv.lower(),
        dense=None if chosen.weights is None else size("--weights", chosen.weights),
        reserve_mib=None if chosen.reserve is None else whole_mib("--reserve", chosen.reserve),
        pinned=share("--pinned", chosen.pinned),
        segment_mib=whole_mib("--segment", chosen.segment),
        mtp=chosen.mtp.lower() != "none",
        stream_kv=chosen.stream_kv,
        lent=settings.lent or Asked.lent,
    )
    notes = [line for line in environ.problems if line.upper().startswith(LOANS)] + list(problems)
    if not settings.lent:
        notes.append(f"lend nothing; the loan is shown as {switches.LOAN_ELASTIC}=1 with all others would have it")
    plan = memory_plan(Card(total, free, chosen.free is None), asked)
    print((plan_text.as_json if chosen.json else plan_text.text)(plan, prompt, settings, notes))
    return 0 if plan.fits else 1


def shape(chosen: argparse.Namespace) -> ModelShape:
    """The model of the options. Raises StrataError."""
    match = re.fullmatch(r"([0-9]{1,6})x([0-9]{1,6})/([0-9]{1,6})x([0-9]{1,6})/([0-9]{1,6})", chosen.model_shape)
    if match is None:
        raise StrataError(f"--model-shape {chosen.model_shape!r}: expected LxE/NxF/K, e.g. 48x512/2560x640/10")
    layers, experts, hidden, width, top_k = map(int, match.groups())
    head = re.fullmatch(r"([0-9]{1,9}):([a-z0-9_]+)", chosen.head.lower())
    if head is None:
        raise StrataError(f"--head {chosen.head!r}: expected rows and format, e.g. 248320:q5_k")
    gate_up, down = pair("--pair", chosen.pair)
    blob = 0 if chosen.blob is None else size("--blob", chosen.blob)
    shape_ = ModelShape(
        layers=layers,
        experts=experts,
        hidden=hidden,
        width=width,
        top_k=top_k,
        vocab=int(head[1]),
        head=head[2],
        gate_up=gate_up,
        down=down,
        mtp=ModelShape.mtp if chosen.mtp.lower() == "none" else pair("--mtp", chosen.mtp),
        fp16_experts=chosen.fp16_experts,
        blob=blob,
    )
    # A format whose blocks do not divide a row says nothing about an expert of this shape.
    smallest = [
        min((name for name, fmt in FORMATS.items() if row % fmt.values == 0), key=lambda name: row_bytes(name, row))
        for row in (hidden, width)
    ]
    least = shape_.blob_bytes(*smallest)
    if chosen.blob is not None and blob < least:
        raise StrataError(f"--blob {chosen.blob!r}: expected at least {least}, an expert in the smallest format")
    return shape_


def pair(option: str, text: str) -> tuple[str, str]:
    """Two formats. Raises StrataError for another form."""
    match = re.fullmatch(r"([a-z0-9_]+)/([a-z0-9_]+)", text.lower())
    if match is None:
        raise StrataError(f"{option} {text!r}: expected two formats, e.g. iq3_xxs/iq4_nl")
    return match[1], match[2]


def size(option: str, text: str) -> int:
    """Bytes of `8GiB`, `512MiB`, `1.5 GB` or a plain number. Raises StrataError for anything else or a broken byte."""
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([A-Za-z]{0,3})", text)
    unit = None if match is None else _UNITS.get(match[2].lower())
    if match is None or unit is None:
        raise StrataError(f"{option} {text!r}: expected a size, e.g. 8GiB, 512MiB or 700000000")
    nbytes = Decimal(match[1]) * unit
    if not match[2] and 0 < nbytes < LEAST_PLAIN:
        raise StrataError(f"{option} {text!r}: that is in bytes, expected a unit, e.g. {match[1]}GiB")
    if nbytes >= 1 << 50:
        raise StrataError(f"{option} {text!r}: expected less than 1 PiB")
    return int(nbytes)


def whole_mib(option: str, text: str) -> int:
    """Whole MiB of a size. Raises StrataError for a part of one."""
    nbytes = size(option, text)
    if nbytes % (1 << 20):
        raise StrataError(f"{option} {text!r}: expected whole MiB")
    return nbytes >> 20


def number(option: str, text: str, least: int, most: int) -> int:
    """Decimal digits, or thousands of 1,024 as `64k`. Raises StrataError for anything else, or outside the range."""
    match = re.fullmatch(r"([0-9]{1,12})(k?)", text.lower())
    value = least - 1 if match is None else int(match[1]) * (1024 if match[2] else 1)
    if not least <= value <= most:
        raise StrataError(f"{option} {text!r}: expected a whole number of {least} to {most}")
    return value


def share(option: str, text: str) -> float:
    """A number of 0 to 1. Raises StrataError for anything else."""
    if re.fullmatch(r"[01](\.[0-9]{1,9})?", text) is None or float(text) > 1:
        raise StrataError(f"{option} {text!r}: expected 0 to 1, e.g. 0.9")
    return float(text)
