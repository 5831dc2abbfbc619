"""Why LEND, a prompt loan or the head alias is off in a setup: one stated reason, never half a feature.

A reason is one word for the `INFO` line (`prefill_loan=off:batch`) and a sentence for people.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from strata.memory.arena.pieces import LEAST_SEGMENT_MIB


@dataclass(frozen=True)
class EngineSetup:
    """What the engine was started with, as far as loans care.

    The defaults reject none.

    Parameters
    ----------
    serve
        Whether the engine serves requests (--serve).
    backend
        cuda, hip or sycl.
    vmm
        Whether the driver has virtual memory calls for the card.
    gpus
        GPUs that the engine uses.
    vram_elastic
        Whether the cache is made of pieces that can be given back.
    segment_mib
        MiB of a piece.
    batch
        Whether requests run as a batch.
    shared_sessions
        Whether sessions share the engine.
    pipeline_windows
        Whether windows are pipelined.
    layer_split
        Whether layers are split over devices.
    helper_caches
        Whether other GPUs hold helper caches.
    peer_device
        Whether a peer device computes experts.
    low_ram
        Whether host memory holds only what device memory does not.
    elastic, live_memory
        Whether --elastic or --live-memory moves the cache's end by itself.
    lendable_cache
        Whether --lendable-cache lends the tail to others.
    native_head
        Whether there is a native output head.
    mtp
        Whether there is a draft layer.
    short_read
        The option --short-read: above 0, short prompts are read through decode windows.
    expert_cache
        The option --expert-cache: a size, or auto.
    """

    serve: bool = True
    backend: str = "cuda"
    vmm: bool = True
    gpus: int = 1
    vram_elastic: bool = True
    segment_mib: int = 512
    batch: bool = False
    shared_sessions: bool = False
    pipeline_windows: bool = False
    layer_split: bool = False
    helper_caches: bool = False
    peer_device: bool = False
    low_ram: bool = False
    elastic: bool = False
    live_memory: bool = False
    lendable_cache: bool = False
    native_head: bool = True
    mtp: bool = True
    short_read: int = 0
    expert_cache: str = "auto"


@dataclass(frozen=True)
class Reason:
    """A reason against a loan.

    Parameters
    ----------
    word
        For the INFO line.
    sentence
        What is in the way and what would have to be.
    """

    word: str
    sentence: str


@dataclass(frozen=True)
class _Rule:
    reason: Reason
    rejects: Callable[[EngineSetup], bool]


def _rule(word: str, sentence: str, rejects: Callable[[EngineSetup], bool]) -> _Rule:
    return _Rule(Reason(word, sentence), rejects)


# Checked in this order: what the machine is comes before how the engine was started.
_BOTH = (
    _rule("no-serve", "the engine does not serve; expected --serve", lambda s: not s.serve),
    _rule("hip", "the build is for AMD cards; expected NVIDIA CUDA", lambda s: s.backend == "hip"),
    _rule("sycl", "the build is for SYCL devices; expected NVIDIA CUDA", lambda s: s.backend not in ("cuda", "hip")),
    _rule("no-vmm", "the driver has no virtual memory calls for this card", lambda s: not s.vmm),
    _rule("layer-split", "layers are split over devices; expected all on one", lambda s: s.layer_split),
    _rule("gpus", "several GPUs, or none; expected exactly one", lambda s: s.gpus != 1),
    _rule("helper-caches", "other GPUs hold helper caches; expected none", lambda s: s.helper_caches),
    _rule("peer-device", "a peer device computes experts; expected none", lambda s: s.peer_device),
    _rule("batch", "requests run as a batch; expected one at a time", lambda s: s.batch),
    _rule("pipeline-windows", "windows are pipelined; expected one at a time", lambda s: s.pipeline_windows),
)

# Memory moves in whole pieces, for the loan and for the alias alike.
_IN_PIECES = _rule(
    "no-vram-elastic", "the cache is one plain allocation; expected --vram-elastic", lambda s: not s.vram_elastic
)

_LOAN = (
    *_BOTH,
    _IN_PIECES,
    _rule(
        "segment",
        f"segments are below {LEAST_SEGMENT_MIB} MiB; expected --vram-segment-mib {LEAST_SEGMENT_MIB} or more",
        lambda s: s.segment_mib < LEAST_SEGMENT_MIB,
    ),
    _rule("shared-sessions", "sessions share the engine; expected one at a time", lambda s: s.shared_sessions),
    _rule("low-ram", "host memory does not hold every expert, so slots cannot be refilled", lambda s: s.low_ram),
    _rule("elastic", "--elastic moves the cache's end by itself; the tail has one owner", lambda s: s.elastic),
    _rule(
        "live-memory", "--live-memory moves the cache's end by itself; the tail has one owner", lambda s: s.live_memory
    ),
    _rule(
        "lendable-cache",
        "--lendable-cache lends the tail to others; the tail has one owner",
        lambda s: s.lendable_cache,
    ),
    _rule("no-head", "there is no native output head to lend", lambda s: not s.native_head),
    _rule("no-mtp", "there is no draft layer whose experts could be lent", lambda s: not s.mtp),
)

_ALIAS = (
    *_BOTH,
    _IN_PIECES,
    _rule("low-ram", "host memory does not hold every expert, so slots cannot be refilled", lambda s: s.low_ram),
    _rule(
        "short-read", "short prompts read through decode windows; expected --short-read 0", lambda s: s.short_read != 0
    ),
    _rule(
        "expert-cache",
        "the expert cache has a fixed size or none; expected --expert-cache 1 or auto",
        lambda s: s.expert_cache not in ("1", "auto"),
    ),
    _rule("no-mtp", "there is no draft layer; expected --mtp", lambda s: not s.mtp),
    _rule("no-head", "there is no native output head", lambda s: not s.native_head),
)

_LEND = (
    _rule(
        "low-ram",
        "low-RAM exchange mode: host memory does not hold what the cache would give up",
        lambda s: s.low_ram,
    ),
    _rule("layer-split", "layers are split over several cards", lambda s: s.layer_split),
    _rule("helper-caches", "helper caches on other cards", lambda s: s.helper_caches),
    _rule("peer-device", "a peer device serves experts", lambda s: s.peer_device),
    _rule("batch", "batch mode", lambda s: s.batch),
)


def lend_rejections(setup: EngineSetup) -> list[Reason]:
    """Every reason against LEND; the first is the one that is stated. Empty: memory may be lent to other processes."""
    return [rule.reason for rule in _LEND if rule.rejects(setup)]


def loan_rejections(setup: EngineSetup) -> list[Reason]:
    """Every reason against prompt loans; the first is the one that is stated. Empty: they may be used."""
    return [rule.reason for rule in _LOAN if rule.rejects(setup)]


def alias_rejections(setup: EngineSetup) -> list[Reason]:
    """Every reason against the head alias; the first is the one that is stated."""
    return [rule.reason for rule in _ALIAS if rule.rejects(setup)]


def info(name: str, asked: bool, rejections: list[Reason]) -> str:
    """The field of the INFO line: `name=on`, `name=off` when nobody asked, or `name=off:<reason>`.

    Parameters
    ----------
    name
        The name of the field.
    asked
        Whether somebody asked for it.
    rejections
        The reasons against it, of which the first is stated.
    """
    if not asked:
        return f"{name}=off"
    return f"{name}=off:{rejections[0].word}" if rejections else f"{name}=on"
