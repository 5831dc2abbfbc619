"""Mutants of what judges whole models' answers: the FP64 model, the gate and its limit, losses, needles."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

_FOLDER = "validation/quality/"


def _fault(name: str, file: str, old: str, new: str, why: str, test: str) -> Mutant:
    return Mutant(
        f"quality-{name}", f"{_FOLDER}{file}.py", old, new, why, tests=(f"tests/validation/quality/{test}.py",)
    )


def _model() -> Iterator[Mutant]:
    yield _fault(
        "window-one-more",
        "fp64_model",
        "(back >= (n if window is None else window))",
        "(back > (n if window is None else window))",
        "The FP64 model's local layers see a cell more than the window.",
        "test_fp64_model",
    )
    yield _fault(
        "global-base-everywhere",
        "fp64_file",
        "return self.local_base if self.window_of(layer) else self.global_base",
        "return self.global_base",
        "The FP64 model turns local layers by the global base.",
        "test_fp64_model",
    )
    yield _fault(
        "values-rounded-as-keys",
        "fp64_kv",
        '"k8v4": (int8, q4_0),',
        '"k8v4": (int8, int8),',
        "The FP64 model's K8V4 keeps values in 8 bits.",
        "test_fp64_kv",
    )
    yield _fault(
        "states-without-format",
        "references",
        'key = f"{EDITION} {self._sha256} {kv} {digest([tokens])}"',
        'key = f"{EDITION} {self._sha256} {digest([tokens])}"',
        "States of one KV format are taken for those of another.",
        "test_gate",
    )


def _gate() -> Iterator[Mutant]:
    test = "test_gate"
    yield _fault(
        "read-once",
        "gate",
        "twice_b = _differing(logits_b, digests(b.logits(tokens)))",
        "twice_b = 0",
        "B is read once, and what it does not repeat is compared as if it did.",
        test,
    )
    yield _fault(
        "repeats-compared-with-themselves",
        "gate",
        "return sum(x != y for x, y in zip(first, again, strict=True))",
        "return sum(x != y for x, y in zip(again, again, strict=True))",
        "The digests of a second reading are compared with themselves.",
        test,
    )
    yield _fault(
        "nan-compared",
        "gate",
        "if count := sum(one.not_finite_b for one in found):",
        "if count := 0 * len(found):",
        "Logits of B that are not finite are no finding of their own, and the prompt has nothing to compare.",
        test,
    )
    yield _fault(
        "refusal-passes",
        "gate",
        "refused = [one.refused for one in found if one.refused]",
        "refused: list[str] = []",
        "Prompts that B's engine gave up on are no finding.",
        test,
    )
    yield _fault(
        "limit-of-the-judged",
        "gate",
        "return divergence(own, log_softmax(logits_a[rows])), divergence(own, exact[formats[1]])",
        "return divergence(own, log_softmax(logits_b[rows])), divergence(own, exact[formats[1]])",
        "The limit is made from the setting that is judged, so what is wrong in it widens it.",
        test,
    )
    yield _fault(
        "limit-without-formats",
        "gate",
        "return float(self.formats.mean() + 2 * self.arithmetic.mean())",
        "return float(2 * self.arithmetic.mean())",
        "What the formats themselves cost counts as a fault.",
        test,
    )
    yield _fault(
        "slices-out-of-place",
        "gate",
        "if out is None or reached != len(tokens):",
        "if out is None:",
        "Positions without logits keep whatever the memory held.",
        test,
    )
    yield _fault(
        "nan-below-its-limit",
        "rule",
        "if not one <= most]",
        "if one > most]",
        "A prompt whose divergence is a NaN does not exceed its limit.",
        "test_rule",
    )
    yield _fault(
        "one-more-allowed",
        "rule",
        "if tail(k, prompts) > FALSE_ALARM)",
        "if tail(k, prompts) > FALSE_ALARM) + 1",
        "A prompt more than chance explains may exceed its limit.",
        "test_rule",
    )


def _rest() -> Iterator[Mutant]:
    yield _fault(
        "divergence-turned",
        "measures",
        "terms = np.exp(log_p) * (log_p - log_q)",
        "terms = np.exp(log_q) * (log_q - log_p)",
        "KL(B || A) is told as KL(A || B).",
        "test_measures",
    )
    yield _fault(
        "likelihood-of-the-same-token",
        "measures",
        "following = tokens[rows.start + 1 : rows.stop + 1]",
        "following = tokens[rows]",
        "The likelihood is that of the token itself, not of the next one.",
        "test_measures",
    )
    yield _fault(
        "error-of-two-means",
        "loss",
        "return spread(row.losses - base.losses)",
        "return spread(row.losses - base.losses.mean())",
        "The standard error is that of a loss, not of the difference at the same tokens.",
        "test_loss",
    )
    yield _fault(
        "another-token-was-forced",
        "published_worker",
        'if chosen["id"] != following:',
        "if False:",
        "The published runtime's likelihood may be that of a token which was not asked for.",
        "test_loss",
    )
    yield _fault(
        "needle-nan-answers",
        "needles",
        "if not np.isfinite(logits).all():",
        "if not np.isfinite(logits).any():",
        "The largest of logits with a NaN among them counts as an answer.",
        "test_needles",
    )
    yield _fault(
        "needles-without-fp64",
        "run_needles",
        "if exact is None or not exact.found or exact.right < len(exact.found):",
        "if exact is None:",
        "A model that retrieves nothing in FP64 judges kernels all the same.",
        "test_needles",
    )
    yield _fault(
        "values-of-both-signs",
        "needle_model",
        "v[0, 0] += 0.25 * 16 * LARGEST",
        "v[0, 0] += 0.0",
        "Values of the constructed model have scales of either sign, so a bound by positive ones holds.",
        "test_needles",
    )
    yield _fault(
        "planted-anywhere",
        "planted",
        'if FilePath(answer["package"]).resolve() != tree / "strata":',
        "if False:",
        "A planted fault counts as seen although other sources ran.",
        "test_planted",
    )
    yield _fault(
        "unseen-fault-passes",
        "outcome",
        "all(one.seen for one in self.planted)",
        "any(one.verdict for one in self.planted)",
        "A planted fault that the gate does not flag is no failure.",
        "test_command",
    )


def mutants() -> Iterator[Mutant]:
    """Every mutant of what judges whole models' answers."""
    yield from _model()
    yield from _gate()
    yield from _rest()
