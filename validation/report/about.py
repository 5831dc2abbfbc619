"""The parts of the page that say what it is, what was run, where and when, and what was not."""

from __future__ import annotations

from collections.abc import Sequence

from strata.device import dotted
from strata.kernels import registry
from strata.kernels.paths import PATHS
from validation.report.markup import Markup, Node, folded, joined, table, tag
from validation.report.outcome import section
from validation.report.source import Source

#: Cases of the plan that were not run, shown by name.
_MISSING = 40
#: The path that shows what a path is called.
_EXAMPLE = next(name for name in PATHS if name.endswith("/sm75"))
#: The baseline of what a run is of by default: it has no rows of its own.
_BASELINE = registry.find(registry.first_gated()).replaces


def intro() -> Markup:
    """What a reader who has never heard of this needs."""
    return tag(
        "section",
        tag(
            "p",
            "Strata is a set of GPU kernels for the prompt side of a mixture-of-experts language model. Before a"
            " kernel"
            " is used, its numbers are proved: it runs on hostile data, and each output is compared with a"
            " result in double"
            " precision, with the older kernel that it replaces (the ",
            tag("em", "baseline"),
            ") and, where they can be predicted, with the exact bits that are due. This page shows one such proof.",
        ),
        tag(
            "p",
            "A ",
            tag("em", "path"),
            " is an operation, a data format and an instruction level, such as ",
            tag("code", _EXAMPLE),
            ": sm75 is written for Turing cards (RTX 20, T4), sm80 for Ampere and later. A ",
            tag("em", "case"),
            " is a recipe for data, with sizes and a seed. Its ",
            tag("em", "bound"),
            " is the largest error that the kernel's arithmetic allows, derived on paper, not tuned: a share of"
            " 1 is the"
            " limit, and more is a failure.",
        ),
        class_="intro",
    )


def badge(kind: str) -> Markup:
    """How far a fact can be trusted; `ran` says what each word means."""
    return tag("span", kind, class_=f"badge {kind}")


def numbers(source: Source) -> str:
    """What the numbers of a file are."""
    if source.kind == "run":
        return "computed"
    return "spot-checked" if source.verified is not None and source.verified.accepted else "claimed"


def ran(sources: Sequence[Source]) -> Markup:
    """What was run, on what and when: a block for each file."""
    blocks = [_block(source) for source in sources]
    legend = tag(
        "dl",
        *_term("computed", "by the run itself, which judged every output; whoever has the card can do it again"),
        *_term("claimed", "written in a record that no verifier has looked at"),
        *_term(
            "spot-checked",
            "written in a record of which a verifier, without the card, computed rows again that the record could not"
            " choose, and found nothing against it",
        ),
        *_term("recomputed", "computed again by the verifier"),
        *_term("attested", "the word of whoever made the file; nobody can derive it, and no number depends on it"),
        *_term("advisory", "told for people; nothing depends on it"),
        class_="legend",
    )
    return section("ran", "What was run", *blocks, folded("What the labels mean", legend))


def _term(kind: str, text: str) -> list[Markup]:
    return [tag("dt", badge(kind)), tag("dd", text)]


def _block(source: Source) -> Markup:
    paths = sorted({case.path for case in source.cases})
    recipes = {case.recipe for case in source.cases}
    profile = f", profile {source.profile}" if source.profile else ""
    counted = f"{len(source.cases):,} of {source.planned:,} planned cases{profile}"
    counted += f": {len(paths)} paths, {len(recipes)} recipes"
    machine = "the CPU, no card" if source.simulated else source.device
    if source.capability is not None:
        machine += f", compute capability {dotted(source.capability)}"
    rows: list[list[Node]] = [
        ["cases", joined(counted, " ", badge(numbers(source)))],
        ["on", joined(machine, " ", badge("attested"))],
        ["when", joined(source.when or "not said", " ", badge("attested"))],
        ["machine code", joined(_code(source), " ", badge("attested"))],
        ["bits", _bits(source)],
    ]
    if source.kind == "record":
        rows.append(["verifier", _verifier(source)])
        if source.twin:
            rows.append(["record of", f"{source.twin}, shown here too: its cases are counted once"])
    facts: list[list[Node]] = [[label, value] for label, value in source.facts]
    digests: list[list[Node]] = [[name, tag("code", digest)] for name, digest in sorted(source.digests.items())]
    name = source.name if source.kind == "run" else f"{source.name[:16]}..."
    return tag(
        "article",
        tag("h3", f"{source.kind} ", tag("code", name)),
        _pairs(rows, f"Facts of {source.kind} {name}"),
        folded("Machine, driver and versions (attested)", _pairs(facts, "Attested facts")) if facts else None,
        folded("SHA-256 of every kernel source", _pairs(digests, "Digests of kernel sources")) if digests else None,
    )


def _pairs(rows: Sequence[Sequence[Node]], caption: str) -> Markup:
    body = [tag("tr", tag("th", row[0], scope="row"), tag("td", row[1])) for row in rows]
    return tag("table", tag("caption", caption, class_="hidden"), tag("tbody", *body), class_="pairs")


def _code(source: Source) -> str:
    loaded = sorted({code for _, code in source.code})
    return ", ".join(loaded) if loaded else "not said"


def _bits(source: Source) -> Markup:
    compared = [case for case in source.cases if case.compared is not None]
    if not compared:
        why = " (on lanes there is nothing to compare with)" if source.simulated else ""
        return joined(f"none were compared with a prediction{why}")
    due = "their predicted bits" if source.own is None else "bits that are known"
    total, wrong = sum(case.compared or 0 for case in compared), sum(case.differing or 0 for case in compared)
    text = f"{total:,} outputs of {len(compared):,} cases compared with {due}, {wrong:,} differ"
    return joined(text, " ", badge(_bits_badge(source)))


def _bits_badge(source: Source) -> str:
    """A verifier that was told to leave out bits says nothing of them."""
    verified = source.verified
    return "claimed" if verified is not None and verified.outcome != "ACCEPTED" else numbers(source)


def _verifier(source: Source) -> Markup:
    if source.verified is None:
        return joined("has not been asked: ", tag("code", "python -m validation verify FILE"))
    said = "; ".join([*source.verified.reasons, *source.verified.notes])
    return joined(
        source.verified.file,
        " says ",
        source.verified.outcome,
        "; ",
        said,
        " ",
        badge("recomputed") if source.verified.accepted else None,
    )


def _beside(ran: set[str]) -> list[str]:
    """Paths without a case, baselines apart; an operation none of whose paths ran as one pattern."""
    whole = {path.operation for path in PATHS.values()} - {name.partition("/")[0] for name in ran}
    own = [path for path in PATHS.values() if path.operation != _BASELINE and path.name not in ran]
    names = [f"{path.operation}/*" if path.operation in whole else path.name for path in own]
    return list(dict.fromkeys(names))


def not_run(sources: Sequence[Source]) -> Markup:
    """What this page does not show to be right."""
    lines: list[Node] = []
    missing = [item for source in sources for item in source.missing]
    untold = sum(max(0, source.planned - len(source.cases) - len(source.missing)) for source in sources)
    if missing or untold:
        lines.append(f"{len(missing) + untold:,} planned cases, because the run ended early (below).")
    lost = [case for source in sources for case in source.cases if case.verdict == "NOT_RUN"]
    if lost:
        lines.append(f"{len(lost):,} cases that could not run; they are listed at the top.")
    ran_paths = {case.path for source in sources for case in source.cases}
    beside = _beside(ran_paths)
    if beside:
        lines.append(joined("Paths of this version that no case ran: ", ", ".join(beside), "."))
    if _BASELINE is not None:
        lines.append(f"{_BASELINE} has no rows of its own: it is the baseline, and ran beside each path.")
    lines += _cards(sources, ran_paths)
    cases = [case for source in sources for case in source.cases]
    if cases and all(case.compared is None for case in cases):
        lines.append("No bits were compared with a prediction.")
    if cases and all(case.new is None for case in cases):
        lines.append("Nothing was timed.")
    parts: list[Node] = [tag("ul", *(tag("li", line) for line in lines))]
    if missing:
        rows: list[list[Node]] = [[path, tag("code", text)] for path, text in missing[:_MISSING]]
        more = f", the first {_MISSING}" if len(missing) > _MISSING else ""
        parts.append(
            folded(f"Planned and not run{more}", table(["path", "case"], rows, "Planned cases that were not run"))
        )
    return section("not-run", "What was not run", *parts)


def _cards(sources: Sequence[Source], paths: set[str]) -> list[Node]:
    cards = [source for source in sources if not source.simulated]
    lines: list[Node] = []
    if not cards:
        lines.append("No card took part: everything ran on the CPU, which is evidence for no card.")
    turing = any(source.capability == 75 for source in cards)
    if any(path.endswith("/sm75") for path in paths) and cards and not turing:
        lines.append(
            "No Turing card took part. Where sm75 paths ran, they ran on something newer, which tests indices,"
            " layout and"
            " order, and not Turing's own tensor core."
        )
    lines.append("Other cards than those named above. Nothing here says how they compute.")
    return lines
