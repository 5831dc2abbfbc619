"""Commands that a page offers to be copied: composed here of options and values that this version knows.

A file says which command made it. That text is parsed and never copied: whoever wrote the file would choose what its
reader runs. An option that is not known here, or a value that it cannot have, means that no command is offered.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence

from strata.executors import NAMES as EXECUTORS
from strata.executors.base import StrataError
from strata.executors.lanes import FLAVORS, RULES, parse_rule
from strata.kernels.paths import PATHS, select
from validation.core.settings import PREDICT
from validation.operations import registry
from validation.operations.attention.captured import PACKERS
from validation.operations.kv_pack.case import Case
from validation.operations.registry import parse
from validation.run.plan import PROFILES

_PROGRAM = ["python", "-m", "validation", "parity"]
#: Stands for a file that the reader has and this page cannot know.
_FILE = "FILE"


def _one_of(known: Sequence[str]) -> Callable[[str], str]:
    return lambda value: value if value in known else ""


def _matching(pattern: str) -> Callable[[str], str]:
    return lambda value: value if re.fullmatch(pattern, value) else ""


_whole = _matching("[0-9]{1,20}")


def _rule(value: str) -> str:
    if value in RULES:
        return value
    try:
        rule = parse_rule(value)
    except (StrataError, ValueError):
        return ""
    return f"{rule.block},{rule.frac}" if rule.block else "exact"


def _paths(value: str) -> str:
    """A pattern that some path fits: of the letters of paths, so that nothing else comes along."""
    if not re.fullmatch(r"[a-z0-9_/*?\[\]!-]{1,200}", value):
        return ""
    try:
        return value if select(value) else ""
    except ValueError:
        return ""


def _recipe(value: str) -> str:
    try:
        return value if registry.find(value).name == value and value.isascii() and value.isprintable() else ""
    except StrataError:
        return ""


def _case(value: str) -> str:
    try:
        case = parse(value)
    except (StrataError, ValueError):
        return ""
    options = dict(case.options) if isinstance(case, Case) else {}
    known = _whole(options.get("layer", "0")) and _one_of(PACKERS)(options.get("packer", PACKERS[0]))
    return case.brief() if known and _recipe(case.recipe) else ""


#: Options of parity that a command may have: what a value becomes, "" when it is none. Where results go is left to
#: whoever runs it.
_OPTIONS: dict[str, Callable[[str], str]] = {
    "--paths": _paths,
    "--profile": _one_of(PROFILES),
    "--context": _whole,
    "--queries": _whole,
    "--recipe": _recipe,
    "--case": _case,
    "--capture": lambda value: _FILE,
    "--seed": _whole,
    "--executor": _one_of(EXECUTORS),
    "--target": _matching("(sm|compute)_[0-9]{2,3}"),
    "--rule": _rule,
    "--flavor": _one_of(FLAVORS),
    "--schedule-seed": _whole,
    "--predict": _one_of(PREDICT),
    "--reps": _whole,
    "--out": lambda value: "",
    "--record": lambda value: "",
}
#: Not what is run, but where its results go.
_PLACES = ("--out", "--record")
#: Of the command of one case: all but what says which cases.
_OF_A_CASE = ("--executor", "--target", "--rule", "--flavor", "--schedule-seed", "--capture", "--predict")


def of_run(text: str) -> str:
    """The command of a whole run, from the text in which a file tells it; "" when this version does not know it."""
    options = _parsed(text)
    if options is None:
        return ""
    words = list(_PROGRAM)
    for name, value in options.items():
        if name == "--record":
            words.append(name)
        elif name not in _PLACES:
            words += [name, value]
    return shlex.join(words)


def of_case(path: str, case: str, told: str = "") -> str:
    """The command of one case.

    Parameters
    ----------
    path
        The path's name.
    case
        The case's text.
    told
        The command in which a file tells it, whose executor and its options are taken where all of it is known.

    Returns
    -------
    str
        "" when this version does not know path or case.
    """
    known = _case(case)
    if path not in PATHS or not known:
        return ""
    options = _parsed(told) or {}
    words = [word for name in _OF_A_CASE if name in options for word in (name, options[name])]
    return shlex.join([*_PROGRAM, *words, "--paths", path, "--case", known])


def on(executor: str, rule: str) -> str:
    """What `of_case` may be told where an executor is known and no command.

    Parameters
    ----------
    executor
        Its name, or "".
    rule
        The rule of lanes, or "".
    """
    words = [*(["--executor", executor] if executor else []), *(["--rule", rule] if rule else [])]
    return shlex.join([*_PROGRAM, *words])


#: Options of check that a command of it may have.
_OF_CHECK: dict[str, Callable[[str], str]] = {
    **{name: _OPTIONS[name] for name in ("--profile", "--seed", *_OF_A_CASE[:5], "--out")},
    "--random": _whole,
    "--case": _matching("recipe=[a-z0-9_]{1,64} seed=[0-9]{1,20}( [A-Za-z_][A-Za-z0-9_]{0,63}=[0-9]{1,20}){1,64}"),
}
_KERNEL = re.compile(r"(?:.*/)?([A-Za-z0-9_][A-Za-z0-9_.-]{0,99}[.]py)((?::[A-Za-z_][A-Za-z0-9_]{0,99})?)", re.ASCII)


def _check(text: str) -> tuple[list[str], dict[str, str]] | None:
    """The beginning of a command of check, of its file no more than the name, and its options; None where this
    version does not know them."""
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    begins = [*_PROGRAM[:3], "check"]
    kernel = _KERNEL.fullmatch(words[4]) if words[:4] == begins and len(words) > 4 else None
    options = None if kernel is None else _options(words[5:], _OF_CHECK)
    return None if kernel is None or options is None else ([*begins, kernel[1] + kernel[2]], options)


def of_check(text: str) -> str:
    """The command of a whole run of check, to be given in the directory of its file; "" as of `of_run`."""
    known = _check(text)
    if known is None:
        return ""
    return shlex.join(known[0] + [word for pair in known[1].items() if pair[0] != "--out" for word in pair])


def of_check_case(case: str, told: str) -> str:
    """The command of one case of check.

    Parameters
    ----------
    case
        The case's text.
    told
        The command in which a file tells it, see `of_case`.

    Returns
    -------
    str
        "" where case or command are none.
    """
    known, text = _check(told), _OF_CHECK["--case"](case)
    if known is None or not text:
        return ""
    words = [word for name, value in known[1].items() if name in _OF_A_CASE for word in (name, value)]
    return shlex.join([*known[0], *words, "--case", text])


def _parsed(text: str) -> dict[str, str] | None:
    """Options and their values, each known; None when anything is not."""
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    if words[: len(_PROGRAM)] != _PROGRAM:
        return None
    return _options(words[len(_PROGRAM) :], _OPTIONS)


def _options(rest: list[str], known: Mapping[str, Callable[[str], str]]) -> dict[str, str] | None:
    found: dict[str, str] = {}
    while rest:
        word, equals, value = rest.pop(0).partition("=")
        # As argparse has it: the beginning of a name does, where it begins one name alone.
        names = [name for name in known if word == name] or [name for name in known if name.startswith(word)]
        if len(names) != 1 or not word.startswith("--") or names[0] in found:
            return None
        (name,) = names
        alone = name == "--record" and (not rest or rest[0].startswith("-"))
        if not equals and not alone:
            if not rest or rest[0].startswith("-"):
                return None
            value = rest.pop(0)
        found[name] = known[name](value)
        if not found[name] and name not in _PLACES:
            return None
    return found
