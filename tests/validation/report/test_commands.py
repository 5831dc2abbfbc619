"""Commands that a page offers: of known options and values, whatever the file says that it was made by."""

from __future__ import annotations

import argparse
import shlex

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strata.kernels.paths import PATHS
from tests.strata.hostile import SENT
from tests.validation.report.evidence import PATHS as SOME
from tests.validation.report.evidence import case, run
from validation.__main__ import parser
from validation.report import commands
from validation.report.from_run import of_run

CASE = "recipe=uniform seed=1 context=64 queries=8"
EXPERT = "recipe=experts_plain seed=1 tokens=9 experts=7 top=3 n=256 ff=128"
PARITY = "python -m validation parity"
#: Commands as runs and cases have them, and what is offered of each.
KNOWN = {
    PARITY: PARITY,
    f"{PARITY} --paths 'prompt_attention/*' --profile standard --seed 3": None,
    f"{PARITY} --executor lanes --rule sm_75 --flavor checked --schedule-seed 7": None,
    f"{PARITY} --rule 8,24 --predict none --reps 5 --target sm_75": None,
    f"{PARITY} --context 64 --queries 8 --recipe uniform": None,
    f"{PARITY} --case '{CASE}'": None,
    f"{PARITY} --case '{EXPERT}'": None,
    f"{PARITY} --seed=3 --exec lanes": f"{PARITY} --seed 3 --executor lanes",
    f"{PARITY} --out /home/somebody/x": PARITY,
    f"{PARITY} --record --seed 3": f"{PARITY} --record --seed 3",
    f"{PARITY} --record ../../x --seed 3": f"{PARITY} --record --seed 3",
    f"{PARITY} --capture /etc/passwd": f"{PARITY} --capture FILE",
    f"{PARITY} --case '{CASE} layer=5 packer=gguf'": None,
}
#: Texts that are no command of this version.
FOREIGN = (
    "curl evil | sh",
    f"{PARITY}; curl evil | sh",
    f"{PARITY} | sh",
    f"{PARITY}\ncurl evil | sh",
    f"{PARITY} --paths '$(curl evil)'",
    f"{PARITY} --paths 'no_such/*'",
    f"{PARITY} --case 'recipe=evil seed=1 context=64 queries=8'",
    f"{PARITY} --case '{CASE} layer=$(x)'",
    f"{PARITY} --case '{CASE} packer=`x`'",
    f"{PARITY} --recipe 'uniform;sh'",
    f"{PARITY} --executor evil",
    f"{PARITY} --rule '8,24;sh'",
    f"{PARITY} --target 'sm_75 --out /etc'",
    f"{PARITY} --seed 1_0",
    f"{PARITY} --seed \u0661",
    f"{PARITY} --seed",
    f"{PARITY} --seed 1 --seed 2",
    f"{PARITY} --s 1",
    f"{PARITY} --no-such-option 1",
    f"{PARITY} evil",
    f"{PARITY} 'unfinished",
    f"curl evil; {PARITY}",
    "python -m validation soak",
    "python -m evil parity",
    "",
)


def options(words: list[str]) -> argparse.Namespace:
    """As the command itself reads them."""
    return parser().parse_args(words[3:])


@pytest.mark.parametrize("told", KNOWN)
def test_a_known_command_is_offered(told: str) -> None:
    offered = commands.of_run(told)
    assert offered == (KNOWN[told] or told)
    options(shlex.split(offered))


@pytest.mark.parametrize("told", FOREIGN)
def test_another_one_is_not(told: str) -> None:
    assert commands.of_run(told) == ""
    offered = commands.of_case(SOME[0], CASE, told)
    assert shlex.split(offered)[-4:] == ["--paths", SOME[0], "--case", CASE]
    assert "evil" not in offered


VALUES = st.text(max_size=8) | st.sampled_from(
    [*SENT, "$(x)", "`x`", ";x", "a b", "-x", "FILE", "sm_75", "8,24", CASE, *SOME]
)


@settings(max_examples=150)
@given(st.lists(st.tuples(st.sampled_from([*commands._OPTIONS, "--evil"]), VALUES), max_size=3))
@example([("--case", f"{CASE} layer=5;x")])
def test_what_is_offered_is_made_of_known_words(told: list[tuple[str, str]]) -> None:
    """Whatever stands in the text: each word is the program's, an option's name, or a value that the option has."""
    text = shlex.join([*PARITY.split(), *(word for pair in told for word in pair)])
    offered = commands.of_run(text)
    if not offered:
        return
    assert offered.isascii()
    assert offered.isprintable()
    read = vars(options(shlex.split(offered)))
    assert not {"out"} & {name for name, value in read.items() if value is not None}
    assert commands.of_run(offered) == offered


def test_every_option_of_parity_is_known() -> None:
    """A new one must be said to be offered or not."""
    (subparsers,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    found = {word for action in subparsers.choices["parity"]._actions for word in action.option_strings}
    assert found - {"-h", "--help"} == set(commands._OPTIONS)


@pytest.mark.parametrize(
    ("path", "text"),
    [("evil/$(x)", CASE), (SOME[0], "recipe=x'; rm -rf /"), (SOME[0], "evil"), (SOME[0], f"{CASE} \x1b[2J"), ("", "")],
)
def test_a_case_that_nobody_knows_has_no_command(path: str, text: str) -> None:
    told = case()
    told |= {"path": path, "case": text, "rerun": f"{PARITY} --paths {path} --case '{text}'"}
    assert of_run(run([told]), "run.json").cases[0].rerun == ""


def test_the_command_of_a_case_is_that_of_its_run() -> None:
    told = case()
    offered = of_run(run([told]), "run.json").cases[0].rerun
    assert offered == f"{PARITY} --executor lanes --paths {told['path']} --case '{CASE}'"
    assert set(SOME) <= set(PATHS)


def test_the_command_of_a_run_is_composed() -> None:
    assert of_run(run([case()], command="curl evil | sh"), "run.json").command == ""
    assert of_run(run([case()], command=f"{PARITY} --out x --seed 3"), "run.json").command == f"{PARITY} --seed 3"
