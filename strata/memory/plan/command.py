"""`strata memory plan`: what fits on a card that need not be here.

Status 0 when decoding has its memory and its reserve, and a prompt can be read without a loan; 1 when not; 2 for sizes
that cannot be. The loan is planned with what the STRATA_PREFILL switches lend, or with all of it when they lend
nothing, and a line says so.
"""

from __future__ import annotations

import argparse
import os
import re

from strata import arguments, switches
from strata.arguments import shown
from strata.executors.base import StrataError
from strata.formats import FORMATS
from strata.kernels.experts import EXPERT_MODES
from strata.kernels.pool import MODES
from strata.memory.arena.pieces import LEAST_SEGMENT_MIB
from strata.memory.loan.loan_switches import loan_switches
from strata.memory.plan.plan import SYSTEM, memory_plan
from strata.memory.plan.plan_request import MOST_CONTEXT, Card, PlanRequest
from strata.memory.plan.shapes import ModelShape, row_bytes
from strata.memory.plan.text import as_json, as_text

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
    """Print the plan that the options of `strata memory plan` ask for. Raises StrataError for sizes and formats that
    cannot be."""
    total = _size("--vram", chosen.vram)
    if total < 1:
        raise StrataError(f"--vram {shown(chosen.vram)}: expected more than nothing")
    free = max(0, total - SYSTEM) if chosen.free is None else _size("--free", chosen.free)
    if free > total:
        raise StrataError(f"--free {shown(chosen.free)}: expected at most --vram {shown(chosen.vram)}")
    context = _number("--context", chosen.context, MOST_CONTEXT)
    prompt = None if chosen.prompt is None else _number("--prompt", chosen.prompt, context)
    segment = _whole_mib("--segment", chosen.segment)
    if not LEAST_SEGMENT_MIB << 20 <= segment << 20 <= total:
        raise StrataError(
            f"--segment {shown(chosen.segment)}: expected at least {LEAST_SEGMENT_MIB} MiB, and no more than "
            f"--vram {shown(chosen.vram)}"
        )
    kv = chosen.kv.lower()
    if kv not in MODES:
        raise StrataError(f"--kv {shown(chosen.kv)}: expected one of {', '.join(MODES)}")
    environ = switches.read(os.environ)
    settings, problems = loan_switches(environ)
    request = PlanRequest(
        shape=shape(chosen),
        context=context,
        kv=kv,
        dense=None if chosen.weights is None else _size("--weights", chosen.weights),
        reserve_mib=None if chosen.reserve is None else _whole_mib("--reserve", chosen.reserve),
        pinned=arguments.of("--pinned", arguments.share, chosen.pinned),
        segment_mib=segment,
        mtp=chosen.mtp.lower() != "none",
        stream_kv=chosen.stream_kv,
        lent=settings.lent or PlanRequest.lent,
    )
    notes = [line for line in environ.problems if line.upper().startswith(LOANS)] + list(problems)
    if not settings.lent:
        notes.append(f"lend nothing; the loan is shown as {switches.LOAN_ELASTIC}=1 with all others would have it")
    plan = memory_plan(Card(total, free, chosen.free is None), request)
    print((as_json if chosen.json else as_text)(plan, prompt, settings, notes))
    return 0 if plan.fits else 1


def shape(chosen: argparse.Namespace) -> ModelShape:
    """The model that the options say. Raises StrataError for sizes and formats that cannot be."""
    match = re.fullmatch(r"([0-9]{1,6})x([0-9]{1,6})/([0-9]{1,6})x([0-9]{1,6})/([0-9]{1,6})", chosen.model_shape)
    if match is None:
        raise StrataError(f"--model-shape {shown(chosen.model_shape)}: expected LxE/NxF/K, e.g. 48x512/2560x640/10")
    layers, experts, hidden, width, top_k = map(int, match.groups())
    head = re.fullmatch(r"([0-9]{1,9}):([a-z0-9_]+)", chosen.head.lower())
    if head is None or not int(head[1]) or head[2] not in FORMATS:
        raise StrataError(
            f"--head {shown(chosen.head)}: expected rows and format, e.g. 248320:q5_k; formats are {', '.join(FORMATS)}"
        )
    gate_up, down = _pair("--pair", chosen.pair)
    if f"{gate_up}/{down}" not in EXPERT_MODES:
        known = ", ".join(EXPERT_MODES)
        raise StrataError(f"--pair {shown(chosen.pair)}: no path computes such experts, expected one of {known}")
    blob = 0 if chosen.blob is None else _size("--blob", chosen.blob)
    try:
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
            mtp=ModelShape.mtp if chosen.mtp.lower() == "none" else _pair("--mtp", chosen.mtp),
            fp16_experts=chosen.fp16_experts,
            blob=blob,
        )
    except arguments.BadValueError:
        raise
    except StrataError as error:  # all else was looked at above
        raise StrataError(f"--model-shape {shown(chosen.model_shape)}: {error}") from None
    # A format whose blocks do not divide a row says nothing about an expert of this shape.
    smallest = [
        min((name for name, fmt in FORMATS.items() if row % fmt.values == 0), key=lambda name: row_bytes(name, row))
        for row in (hidden, width)
    ]
    least = shape_.blob_bytes(*smallest)
    if chosen.blob is not None and blob < least:
        raise StrataError(f"--blob {shown(chosen.blob)}: expected at least {least}, an expert in the smallest format")
    return shape_


def _pair(option: str, text: str) -> tuple[str, str]:
    """Two formats. Raises BadValueError for another form, and for formats that do not exist."""
    first, slash, second = text.lower().partition("/")
    if not slash or first not in FORMATS or second not in FORMATS:
        raise arguments.BadValueError(
            f"{option} {shown(text)}: expected two formats, e.g. iq3_xxs/iq4_nl; formats are {', '.join(FORMATS)}"
        )
    return first, second


def _size(option: str, text: str) -> int:
    return arguments.of(option, arguments.size, text)


def _whole_mib(option: str, text: str) -> int:
    return arguments.of(option, arguments.whole_mib, text)


def _number(option: str, text: str, most: int) -> int:
    return arguments.of(option, arguments.thousands(1, most), text)
