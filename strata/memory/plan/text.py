"""A memory plan for people, as lines, and for programs, as JSON; both say every term."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from strata.memory.arena.pieces import GiB, KiB, MiB
from strata.memory.loan.chunks import cut
from strata.memory.loan.head import LEAST_FRESH
from strata.memory.loan.loan_switches import LoanSwitches
from strata.memory.loan.request import fresh_tokens
from strata.memory.loan.workspace_layout import per_token
from strata.memory.plan.plan import UNCOUNTED, MemoryPlan
from strata.memory.plan.shapes import ESTIMATES
from strata.memory.plan.ways import Way
from strata.switches import LOAN_REPEAT

DEFAULTS = LoanSwitches(verify_all=False)
_ESTIMATE = "  (estimate)"


def as_text(
    plan: MemoryPlan,
    prompt: int | None = None,
    settings: LoanSwitches = DEFAULTS,
    notes: Sequence[str] = (),
) -> str:
    """The plan for people.

    Parameters
    ----------
    plan
        The plan.
    prompt
        Tokens of a prompt whose chunks are shown for each way; None for none.
    settings
        What the environment asks of loans.
    notes
        What the switches ask for in vain, and what is shown all the same.
    """
    shape, card = plan.request.shape, plan.card
    lines = [
        f"card     {card.total / GiB:.2f} GiB, {card.free / GiB:.2f} GiB free"
        + (" (assumed; --free says otherwise)" if card.assumed else ""),
        f"model    {shape.layers} layers x {shape.experts} experts, {shape.hidden} x {shape.width}, top {shape.top_k}, "
        f"{shape.gate_up}/{shape.down}: {shape.max_blob:,} bytes each",
        *(f"switches {note}" for note in notes),
        "",
        "while decoding",
        _row("free", card.free),
        *(_row(f"- {term.title}", term.nbytes, _ESTIMATE if term.estimate else "") for term in plan.terms),
        _row("- reserve", plan.cache.reserve_mib * MiB, _adapted(plan)),
        _row("= expert cache", plan.cache_bytes, f"  {_slots(plan)}"),
        _left(plan),
        *([_row("  of that, the prompt path's own buffers", plan.own_bytes)] if plan.own_bytes else []),
        f"  not counted, so the reserve has to hold them: {'; '.join(UNCOUNTED)}",
        "",
        "a prompt is read (chunk/ring)",
    ]
    for way in plan.ways:
        lines += _way(way, prompt, settings)
    # The verdict comes last, where a terminal that has scrolled still shows it.
    return "\n".join([*lines, "", *_tokens(plan), "", _verdict(plan)])


def _verdict(plan: MemoryPlan) -> str:
    if plan.fits:
        return "it fits: decoding has its memory and its reserve, and a prompt can be read without a loan"
    missing = f"it does not fit: about {-(-plan.short // MiB):,} MiB are missing"
    alone = [term.title for term in plan.terms if term.nbytes > plan.card.free]
    return missing + (f"; more than is free by itself: {'; '.join(alone)}" if alone else "")


def _left(plan: MemoryPlan) -> str:
    """What is left beside the cache; where the terms take more than there is, how much more."""
    if plan.left < 0:
        return _row("  missing for what is listed, the reserve aside", -plan.left)
    return _row("  free, the reserve among it", plan.left)


def _slots(plan: MemoryPlan) -> str:
    rows = plan.request.shape.rows
    return f"{plan.cache.slots:,} slots for {rows:,} experts, {100 * plan.cache.slots / rows:.1f} %"


def _adapted(plan: MemoryPlan) -> str:
    return "  lowered: the card only just fits" if plan.cache.adapted else ""


def _row(title: str, nbytes: int, remark: str = "") -> str:
    return f"  {title:<48}{nbytes / MiB:>11,.1f} MiB{remark}"


def used(way: Way, prompt: int, settings: LoanSwitches) -> str:
    """Which prompts of some length are not read in a way, and why; empty when all are.

    Parameters
    ----------
    way
        The way.
    prompt
        Tokens.
    settings
        What the environment asks of loans.
    """
    fresh = fresh_tokens(prompt, 0)
    if way.key == "alias" and fresh < LEAST_FRESH:
        return f"the head stays below {LEAST_FRESH:,} tokens to read: in the tail"
    if way.key == "loan" and fresh < settings.repeat_tokens:
        return f"only as the first prompt of a cold engine: later ones take the loan from {settings.repeat_tokens:,} on"
    if way.key == "loan" and settings.elastic and not settings.repeat:
        return f"only as the first prompt of a cold engine: {LOAN_REPEAT} is off"
    return ""


def _way(way: Way, prompt: int | None, settings: LoanSwitches) -> list[str]:
    if way.plan is None:
        what = "nothing fits" if way.lendable else "off"
        return [_row(f"{way.title}: {what}", way.lendable, f"  {way.note}")]
    plan = way.plan
    lines = [
        _row(f"{way.title}: {plan}", way.lendable, f"  {way.note}"),
        f"    {plan.nbytes / MiB:,.1f} = {plan.fixed / MiB:,.1f} fixed + {plan.tokens / MiB:,.1f} for "
        f"{plan.chunk:,} tokens + {plan.staging / MiB:,.1f} for {plan.ring} staged experts",
    ]
    if prompt is not None:
        lengths = cut(prompt, plan.chunk)
        parts = "1 chunk" if len(lengths) == 1 else f"{len(lengths)} chunks, {lengths[0]:,} each"
        last = f", the last {lengths[-1]:,}" if lengths[-1] != lengths[0] else ""
        reason = used(way, prompt, settings)
        lines.append(f"    {prompt:,} tokens in {parts}{last}{f'; {reason}' if reason else ''}")
    return lines


def _tokens(plan: MemoryPlan) -> list[str]:
    shape = plan.request.workspace
    lines = [f"a token of a chunk: {per_token(shape) / KiB:.1f} KiB, the trunk and the largest of the three sets"]
    for title, blocks in (("trunk", shape.trunk), ("GDN", shape.gdn), ("QSA", shape.qsa), ("MoE", shape.moe)):
        remark = _ESTIMATE if title in ESTIMATES else ""
        lines.append(f"  {title:<48}{sum(nbytes for _, nbytes in blocks) / KiB:>11,.1f} KiB{remark}")
        if len(blocks) > 1:
            lines += [f"    {name:<46}{nbytes / KiB:>11,.1f} KiB" for name, nbytes in blocks]
    lines.append("fixed blocks of the workspace")
    fixed = (*shape.constant, ("slack", shape.slack))
    return lines + [f"  {name:<48}{nbytes / MiB:>11,.1f} MiB" for name, nbytes in fixed]


def as_json(
    plan: MemoryPlan,
    prompt: int | None = None,
    settings: LoanSwitches = DEFAULTS,
    notes: Sequence[str] = (),
) -> str:
    """The plan for programs: one object, in which all sizes are bytes unless their name says MiB.

    Parameters
    ----------
    plan, prompt, settings, notes
        See `as_text`.
    """
    shape = plan.request.workspace
    value: dict[str, Any] = {
        "card": asdict(plan.card),
        "model": {**asdict(shape), "max_blob": shape.max_blob, "rows": shape.rows},
        "context": plan.request.context,
        "kv": plan.request.kv,
        "pinned": plan.request.pinned,
        "segment_mib": plan.request.segment_mib,
        "lent": list(plan.request.lent),
        "notes": list(notes),
        "uncounted": list(UNCOUNTED),
        "terms": [asdict(term) for term in plan.terms],
        "cache": {**asdict(plan.cache), "nbytes": plan.cache_bytes},
        "left": plan.left,
        "prompt": [_way_value(way, prompt, settings) for way in plan.ways],
        "per_token": {
            "total": per_token(shape),
            "estimates": [name for name in ("trunk", "GDN", "QSA", "MoE") if name in ESTIMATES],
            **{name: dict(getattr(shape, name.lower())) for name in ("trunk", "GDN", "QSA", "MoE")},
        },
        "fixed": {**dict(shape.constant), "slack": shape.slack},
        "fits": plan.fits,
        "short": plan.short,
    }
    return json.dumps(value, indent=1)


def _way_value(way: Way, prompt: int | None, settings: LoanSwitches) -> dict[str, Any]:
    value = asdict(way)
    if way.plan is not None:
        value["plan"]["text"] = str(way.plan)
        if prompt is not None:
            value["chunks"] = cut(prompt, way.plan.chunk)
            value["unless"] = used(way, prompt, settings)
    return value
