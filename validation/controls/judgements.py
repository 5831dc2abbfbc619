"""What is built on the comparators: combining, settling, gates, anchor, battery, witness, whole pools; as data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from strata.executors.base import Executor, Witness
from strata.kernels.pool import Pool
from validation.core import negative_probes, verdict
from validation.core.arrays import frozen
from validation.core.control import Control
from validation.core.launches import witnessed
from validation.core.negative_probes import bit_battery
from validation.core.stub_executor import BLOCK, DIGEST, ENTRY, StubCard, StubExecutor
from validation.core.verdict import Check, Verdict
from validation.operations.attention import gates
from validation.operations.attention.reference import Reference
from validation.operations.kv_pack import pools as pack_pools
from validation.run import runner

#: Worst first, written here once more: a verdict that is put before another wins over it.
RANK = ("EXCEEDS", "VOID", "NOT_RUN", "INCONCLUSIVE", "WITHIN_BOUND", "EXACT")
PASSING = ("EXACT", "WITHIN_BOUND")
NAN, INF = float("nan"), float("inf")


def _check(value: str, **figures: object) -> Check:
    return Check("control", Verdict(value), "" if value in PASSING else "because", dict(figures))


def failing(checks: Sequence[Check]) -> str:
    """The names of the checks that do not pass; `none` when all do."""
    return ", ".join(check.name for check in checks if check.verdict.value not in PASSING) or "none"


def _passes(one: Verdict) -> str:
    return str(one.passes)


def _combined(checks: Sequence[Check]) -> str:
    return verdict.combine(checks).value


def _settled(checks: Sequence[Check]) -> str:
    return runner.settle(checks).value


def combining() -> Iterator[Control]:
    """Every verdict, every pair in both orders, and none at all; and which of them pass."""
    for value in RANK:
        one = Verdict(value)
        yield Control(f"verdict/{value} passes", partial(_passes, one), str(value in PASSING))
        yield Control(f"combine/{value}", partial(_combined, [_check(value)]), value)
        for other in RANK:
            pair = [_check(value), _check(other)]
            worst = min(value, other, key=RANK.index)
            yield Control(f"combine/{value} and {other}", partial(_combined, pair), worst)
        late = [_check("EXACT")] * 40 + [_check(value)]
        yield Control(f"combine/{value} after forty", partial(_combined, late), value)
    yield Control("combine/nothing", lambda: verdict.combine([]).value, "NOT_RUN")


def settling() -> Iterator[Control]:
    """EXACT is said only of a case whose every bit was predicted and whose every check passed."""
    bound, whole = _check("WITHIN_BOUND"), _check("EXACT", all_bits=True)
    rows: tuple[tuple[str, list[Check], str], ...] = (
        ("nothing", [], "NOT_RUN"),
        ("bound", [bound], "WITHIN_BOUND"),
        ("bound and all bits", [bound, whole], "EXACT"),
        ("bound and some bits", [bound, _check("EXACT", all_bits=False)], "WITHIN_BOUND"),
        ("bound and other figures", [bound, _check("EXACT", compared=9)], "WITHIN_BOUND"),
        ("all bits differ", [bound, _check("EXCEEDS", all_bits=True)], "EXCEEDS"),
        ("all bits within a bound", [_check("WITHIN_BOUND", all_bits=True)], "WITHIN_BOUND"),
        *((f"all bits and {value}", [bound, whole, _check(value)], value) for value in RANK[:4]),
    )
    for row, checks, expected in rows:
        yield Control(f"settle/{row}", partial(_settled, checks), expected)


#: A right answer [queries, heads, dims]: a loud head beside quiet ones, both signs.
REF = frozen(np.linspace(-1, 1, 3 * 3 * 256).reshape(3, 3, 256) * np.array([1.0, 2.0**-9, 0.5])[:, None])
_SIZE = 2.0**-18


def _truth(published: bool = False, **changes: Any) -> gates.Truth:
    bound = np.abs(REF) * _SIZE + 2.0**-30
    truth = gates.Truth(Reference(np.arange(3), REF, np.abs(REF)), bound, 2 * bound, published)
    return replace(truth, **changes)


def _near(share: float) -> np.ndarray:
    """REF off by a share of its bound, to both sides."""
    side = np.where(np.arange(256) % 2 == 0, 1.0, -1.0)
    return np.asarray((REF + share * side * _truth().bound).astype(np.float32))


def _edit(index: Any, value: Any, share: float = 0.1) -> np.ndarray:
    out = _near(share)
    out[index] = value(out[index]) if callable(value) else value
    return out


def _refused(new: np.ndarray, old: np.ndarray | None, truth: gates.Truth) -> str:
    return failing(gates.gates(new, old, truth))


def _anchored(old: np.ndarray) -> str:
    return gates.baseline_within_bound(old, _truth()).verdict.value


def gating() -> Iterator[Control]:
    """Which gates refuse what, by name; the baseline is a tenth of the bound off, to the other side."""
    good, old = _near(0.1), _near(-0.1)
    rows: tuple[tuple[str, np.ndarray, np.ndarray | None, dict[str, Any], str], ...] = (
        ("right", good, old, {}, "none"),
        ("right, published", good, old, {"published": True}, "none"),
        ("right, no baseline", good, None, {}, "none"),
        ("right, a baseline is judged", good, old, {"base_bound": None}, "none"),
        ("zeros", np.zeros_like(good), old, {}, "bound, agreement"),
        ("zeros, published", np.zeros_like(good), old, {"published": True}, "bound, gate 1, gate 2"),
        ("zeros, no baseline", np.zeros_like(good), None, {}, "bound"),
        ("a NaN at the end", _edit((-1, -1, -1), NAN), old, {}, "bound, agreement"),
        ("a NaN, published", _edit((-1, -1, -1), NAN), old, {"published": True}, "bound, gate 1, gate 2"),
        ("infinity at the end", _edit((-1, -1, -1), INF), old, {}, "bound, agreement"),
        ("quiet head flipped", _edit(np.s_[:, 1], lambda x: -x), old, {}, "bound, agreement"),
        ("last row stale", _edit(np.s_[-1], good[0]), old, {}, "bound, agreement"),
        ("nine times its baseline's error, published", _near(0.9), old, {"published": True}, "gate 1"),
        ("baseline beyond its bound and wrong", good, -old, {}, "agreement"),
        ("baseline beyond its bound, published", good, -old, {"published": True}, "gate 2"),
        ("baseline NaN", good, _edit((-1, -1, -1), NAN), {}, "agreement"),
        ("baseline NaN, published", good, np.full_like(old, NAN), {"published": True}, "gate 1, gate 2"),
        ("bound infinite", good, old, {"bound": np.full(REF.shape, INF)}, "bound, agreement"),
        ("bound NaN", good, old, {"bound": np.full(REF.shape, NAN)}, "bound, agreement"),
        ("bound of another shape", good, None, {"bound": np.ones(256)}, "bound"),
        ("reference NaN", good, old, {"reference": Reference(np.arange(3), REF * NAN, REF)}, "bound"),
        ("another dtype", good.astype(np.float64), old, {}, "bound, agreement"),
        ("the baseline's own memory", old, old, {"published": True}, "gate 2"),
    )
    for row, new, base, changes, expected in rows:
        yield Control(f"gates/{row}", partial(_refused, new, base, _truth(**changes)), expected)
    part = replace(
        _truth(published=True, base_bound=2 * _truth().bound[:1]),
        reference=Reference(np.arange(1), REF[:1], np.abs(REF[:1])),
        bound=_truth().bound[:1],
    )
    beyond = _edit(np.s_[-1], good[0])
    yield Control("gates/row without a reference", partial(_refused, beyond, old, part), "gate 2")
    yield from _anchors(old)


def _anchors(old: np.ndarray) -> Iterator[Control]:
    rows: tuple[tuple[str, np.ndarray, str], ...] = (
        ("right", old, "WITHIN_BOUND"),
        ("flipped", -old, "EXCEEDS"),
        ("a NaN at the end", _edit((-1, -1, -1), NAN), "EXCEEDS"),
        ("last element off", _edit((-1, -1, -1), lambda x: x + 2.0**-16), "EXCEEDS"),
        ("quiet head flipped", _edit(np.s_[:, 1], lambda x: -x), "EXCEEDS"),
        ("beyond the path's bound, within its own", _near(1.5), "WITHIN_BOUND"),
        ("beyond its own", _near(2.5), "EXCEEDS"),
    )
    for row, base, expected in rows:
        yield Control(f"anchor/{row}", partial(_anchored, base), expected)


#: Every wrong answer of the battery on a case of three queries and three heads.
PROBES = (
    *("zeros", "nan", "infinity", "one element", "shifted dimensions", "another query's rows", "one stale row"),
    *("permuted heads", "flipped head 0", "flipped head 1", "flipped head 2"),
)


def _probed(reference: np.ndarray, bound: Any, judged: Callable[[np.ndarray], bool]) -> str:
    return negative_probes.self_check(reference, bound, judged).verdict.value


def _battery(old: np.ndarray | None, truth: gates.Truth) -> str:
    return gates.battery(old, truth).verdict.value


def probing() -> Iterator[Control]:
    """Judges and data that the battery must call void, and a sound judge that it must not."""
    truth = _truth()

    def sound(candidate: np.ndarray) -> bool:
        return bool((np.abs(candidate - REF) <= truth.bound).all())

    def deaf(*indices: Any) -> Callable[[np.ndarray], bool]:
        """A judge that does not look at a part."""

        def judged(candidate: np.ndarray) -> bool:
            seen = candidate.astype(np.float64)
            for index in indices:
                seen[index] = REF[index]
            return sound(seen)

        return judged

    def negated(candidate: np.ndarray) -> bool:
        return not bool((np.abs(candidate - REF) > truth.bound).any())

    def angle(candidate: np.ndarray) -> bool:
        one, two = candidate.astype(np.float64).ravel(), REF.ravel()
        return float(one @ two) >= 0.99 * float(np.sqrt((one @ one) * (two @ two)))

    same = np.broadcast_to(REF[:1, :1], REF.shape)
    rows: tuple[tuple[str, np.ndarray, Any, Callable[[np.ndarray], bool], str], ...] = (
        ("sound", REF, truth.bound, sound, "EXACT"),
        ("accepts everything", REF, truth.bound, lambda candidate: True, "VOID"),
        ("refuses everything", REF, truth.bound, lambda candidate: False, "VOID"),
        ("accepts NaN", REF, truth.bound, negated, "VOID"),
        ("does not see the last element", REF, truth.bound, deaf((-1, -1, -1)), "VOID"),
        ("does not see the last row", REF, truth.bound, deaf(np.s_[-1]), "VOID"),
        ("sees the first row alone", REF, truth.bound, deaf(np.s_[1:]), "VOID"),
        ("sees the first head alone", REF, truth.bound, deaf(np.s_[:, 1:]), "VOID"),
        ("does not see the quiet head", REF, truth.bound, deaf(np.s_[:, 1]), "VOID"),
        ("judges the angle", REF, truth.bound, angle, "VOID"),
        ("reference NaN", REF * NAN, truth.bound, lambda candidate: True, "VOID"),
        ("no reference", REF[:0], 1.0, lambda candidate: True, "VOID"),
        ("bound as wide as the data", REF, 4.0, lambda candidate: bool((np.abs(candidate - REF) <= 4).all()), "VOID"),
        ("looser than the bound", same, 1e-9, lambda candidate: bool((np.abs(candidate - same) <= 1e-6).all()), "VOID"),
    )
    for row, reference, bound, judged, expected in rows:
        yield Control(f"battery/{row}", partial(_probed, reference, bound, judged), expected)
    good, wide = _near(-0.1), _truth(bound=np.full(REF.shape, 4.0), base_bound=np.full(REF.shape, 4.0))
    nothing = _truth(published=True)
    for row, old, asked, expected in (
        ("gates", good, truth, "EXACT"),
        ("published gates", good, nothing, "EXACT"),
        ("gates without a baseline", None, truth, "EXACT"),
        ("gates of a wide bound", good, wide, "VOID"),
        ("gates of a wide bound, no baseline", None, wide, "VOID"),
    ):
        yield Control(f"battery/{row}", partial(_battery, old, asked), expected)
    yield Control(
        "battery/wrong answers that were refused",
        lambda: ", ".join(negative_probes.self_check(REF, truth.bound, sound).figures["refused"]),
        ", ".join(PROBES),
    )
    bits = np.ones((2, 3), np.float16)
    yield Control("battery/bits", lambda: bit_battery(bits).verdict.value, "EXACT")


def _witnessed(executor: Executor, seen: Sequence[Witness], blocks: int | None, images: Mapping[str, str]) -> str:
    return witnessed(executor, seen, blocks, images).verdict.value


def witnessing() -> Iterator[Control]:
    """Launches that are not what was asked for."""
    lanes, card = StubExecutor(), StubCard(arch="compute_75")
    good = Witness("lanes", ENTRY, lanes.arch, DIGEST, (3, 2, 1), BLOCK, 0, 6)
    jit = replace(good, executor="cuda", arch="compute_75 on sm_90")
    image = {ENTRY: DIGEST}
    rows: tuple[tuple[str, Any, list[Witness], int | None, dict[str, str], str], ...] = (
        ("right", lanes, [good], 6, image, "EXACT"),
        ("right, blocks unknown", lanes, [good], None, image, "EXACT"),
        ("two launches", lanes, [good, good], 12, image, "EXACT"),
        ("nothing launched", lanes, [], 6, image, "EXCEEDS"),
        ("nothing launched, nothing known", lanes, [], None, {}, "EXCEEDS"),
        ("another executor", lanes, [replace(good, executor="cuda")], 6, image, "EXCEEDS"),
        ("image of another architecture", lanes, [replace(good, arch="sm_75")], 6, image, "EXCEEDS"),
        ("another image", lanes, [replace(good, image="f" * 64)], 6, image, "EXCEEDS"),
        ("no image", lanes, [replace(good, image="")], 6, {}, "EXCEEDS"),
        ("no digest", lanes, [replace(good, image="g" * 64)], 6, {}, "EXCEEDS"),
        ("another entry", lanes, [replace(good, entry="decode_attention_chunk")], 6, image, "EXCEEDS"),
        ("fewer blocks than the grid", lanes, [replace(good, blocks_run=5)], None, image, "EXCEEDS"),
        ("no block", lanes, [replace(good, blocks_run=0)], None, image, "EXCEEDS"),
        ("a smaller grid", lanes, [replace(good, grid=(5, 1, 1), blocks_run=5)], 6, image, "EXCEEDS"),
        ("one launch too many", lanes, [good, good], 6, image, "EXCEEDS"),
        ("one launch wrong of two", lanes, [good, replace(good, image="f" * 64)], 12, image, "EXCEEDS"),
        ("one kernel missing", lanes, [good], 6, image | {"merge": DIGEST}, "EXCEEDS"),
        ("PTX for an older target", card, [jit], 6, image, "EXACT"),
        ("PTX for another target", StubCard(), [jit], 6, image, "EXCEEDS"),
    )
    for row, executor, seen, blocks, images, expected in rows:
        ask = partial(_witnessed, executor, seen, blocks, images)
        yield Control(f"witnessed/{row}", ask, expected)


def pools() -> Iterator[Control]:
    """Two pools are the same when every byte of every plane is."""
    table = np.array([1, 2], np.int32)
    planes: dict[str, np.ndarray | None] = {
        "k": np.ones((4, 2, 4, 256), np.int8),
        "v": np.ones((4, 2, 4, 144), np.uint8),
        "k_scale": np.ones((4, 2, 4, 4), np.float16),
        "v_scale": None,
    }

    def pool(**changes: np.ndarray | None) -> Pool:
        own = {name: None if plane is None else plane.copy() for name, plane in planes.items()} | changes
        return Pool("k8v4", 4, 2, own["k"], own["v"], own["k_scale"], own["v_scale"], table)  # type: ignore[arg-type]

    def ask(one: Pool, two: Pool) -> str:
        return pack_pools.same_pool("control", one, two).verdict.value

    yield Control("same_pool/equal", lambda: ask(pool(), pool()), "EXACT")
    yield Control("same_pool/plane missing", lambda: ask(pool(k_scale=None), pool()), "EXCEEDS")
    yield Control("same_pool/plane invented", lambda: ask(pool(), pool(k_scale=None)), "EXCEEDS")
    for name, plane in planes.items():
        if plane is not None:
            wrong = plane.copy()
            wrong.view(np.uint8)[-1, -1, -1, -1] ^= 1
            yield Control(f"same_pool/last byte of {name}", partial(ask, pool(**{name: wrong}), pool()), "EXCEEDS")
