"""Every STRATA_* switch, in one table. Absent, none changes anything: then only the gate and the device decide.

A switch asks for a path or refuses one; it never opens what the gate holds shut.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from strata.arguments import BadValueError, shown, whole
from strata.nearest import nearest

PREFIX = "STRATA_"
KINDS = ("flag", "number", "choice")


@dataclass(frozen=True)
class Switch:
    """One row of the table of switches.

    Parameters
    ----------
    name
        The variable of the environment, which begins with `PREFIX`.
    kind
        `flag` (0 or 1), `number` (a whole number of a range) or `choice` (one of some words).
    allowed
        The words of a flag or a choice; the lowest and the highest number of a range.
    default
        What absence means.
    meaning
        A line on what its values ask for.
    operation
        The operation whose path it concerns.
    works
        False while that operation does not exist.
    otherwise
        What a bad value counts as; empty where it counts as absent. A safeguard that is asked for in the wrong word is
        better on than off.
    library
        Whether it acts where a caller of the library reads it, and no engine of this version does.

    Raises
    ------
    ValueError
        For a name without `PREFIX`, a kind that does not exist, `allowed` that is empty or no range, and an `otherwise`
        that the switch does not take.
    """

    name: str
    kind: str
    allowed: tuple[str, ...]
    default: str
    meaning: str
    operation: str
    works: bool = True
    otherwise: str = ""
    library: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS or not self.allowed or not self.name.startswith(PREFIX):
            raise ValueError(f"switch {self.name!r}, kind {self.kind!r}: expected a {PREFIX} name and one of {KINDS}")
        if self.kind == "number" and not (len(self.allowed) == 2 and int(self.allowed[0]) <= int(self.allowed[1])):
            raise ValueError(f"switch {self.name!r}: a number's range is {self.allowed}, expected lowest and highest")

        if self.otherwise and not self.takes(self.otherwise):
            raise ValueError(
                f"switch {self.name!r}: a bad value counts as {self.otherwise!r}, expected {self.expected}"
            )

    @property
    def expected(self) -> str:
        """What it takes, in words."""
        if self.kind == "number":
            return f"a whole number {self.allowed[0]}..{self.allowed[1]}"
        return " or ".join(self.allowed)

    def takes(self, value: str) -> bool:
        """Whether a value means something: decimal digits without sign for a number, else the very word."""
        if self.kind != "number":
            return value in self.allowed
        try:
            whole(int(self.allowed[0]), int(self.allowed[1]))(value)
        except BadValueError:
            return False
        return True


PROMPT_Q4 = "STRATA_PROMPT_ATTN_Q4"
PROMPT_Q4_TC = "STRATA_PROMPT_ATTN_Q4_TC"
PROMPT_OLD = "STRATA_PROMPT_ATTN_OLD"
SELECT_SIMT = "STRATA_SELECT_SIMT"
SELECT_TC = "STRATA_SELECT_TC"
VERIFY_RECLAIM = "STRATA_VERIFY_RECLAIM"
LOAN_ELASTIC = "STRATA_PREFILL_ELASTIC_LOAN"
LOAN_MTP = "STRATA_PREFILL_MTP_LOAN"
LOAN_HEAD = "STRATA_PREFILL_HEAD_LOAN"
LOAN_RETAIN = "STRATA_PREFILL_RETAIN_STARTUP_CHUNK"
LOAN_REPEAT = "STRATA_PREFILL_REPEAT_LOAN"
LOAN_REPEAT_TOKENS = "STRATA_PREFILL_REPEAT_MIN_TOKENS"
FUSED = "STRATA_PF_FUSED"
FUSED_NATIVE = "STRATA_PF_FUSED_NATIVE"
FUSED_SM75 = "STRATA_PF_FUSED_NATIVE_SM75"
FUSED_ADAPTIVE = "STRATA_PF_FUSED_NATIVE_SM75_ADAPTIVE"
FUSED_TILE = "STRATA_PF_FUSED_TILE"

_ROWS = (
    Switch(
        PROMPT_Q4,
        "flag",
        ("0", "1"),
        "1",
        "0: the baseline computes prompt attention over q4_0 pools, on every device; 1 changes nothing.",
        "prompt_attention",
    ),
    Switch(
        PROMPT_Q4_TC,
        "flag",
        ("0", "1"),
        "0",
        "1: asks for the tensor-core path of q4_0 on compute capability 7.5; newer devices have theirs without asking.",
        "prompt_attention",
    ),
    Switch(
        PROMPT_OLD,
        "flag",
        ("0", "1"),
        "0",
        "1: the baseline computes prompt attention in every mode, on every device.",
        "prompt_attention",
    ),
    Switch(
        FUSED,
        "flag",
        ("0", "1"),
        "0",
        "1: asks for the fused path of experts in their own blocks, on every device; nothing else asks for it.",
        "expert_fused",
    ),
    Switch(
        FUSED_NATIVE,
        "flag",
        ("0", "1"),
        "1",
        f"0: the baseline computes experts in their own blocks, although {FUSED}=1; 1 changes nothing.",
        "expert_fused",
    ),
    Switch(
        FUSED_SM75,
        "flag",
        ("0", "1"),
        "0",
        f"1: asks for the fused path on compute capability 7.5, beside {FUSED}=1; newer devices need it not.",
        "expert_fused",
    ),
    Switch(
        FUSED_ADAPTIVE,
        "flag",
        ("0", "1"),
        "0",
        "1: on compute capability 7.5, the large work shape for each format whose probe passes. No bit depends on it.",
        "expert_fused",
    ),
    Switch(
        FUSED_TILE,
        "choice",
        ("64", "128"),
        "",
        "Routed rows of a tile of the fused path, on compute capability 8.0 and later alone. No bit depends on it.",
        "expert_fused",
    ),
    Switch(
        SELECT_SIMT,
        "flag",
        ("0", "1"),
        "0",
        "1: asks for the tiled FP32 scorer of block selection, whose sums may change which cells are read.",
        "block_select",
    ),
    Switch(
        SELECT_TC,
        "flag",
        ("0", "1"),
        "0",
        "1: asks for the tensor-core scorer of block selection, ahead of the tiled FP32 one; other cells may be read.",
        "block_select",
    ),
    Switch(
        LOAN_ELASTIC,
        "flag",
        ("0", "1"),
        "0",
        "1: a prompt reads in the memory of what only decoding needs, and the cache grows into it meanwhile.",
        "prompt_loan",
        library=True,
    ),
    Switch(
        LOAN_MTP,
        "flag",
        ("0", "1"),
        "0",
        "1: the loan takes the routed experts of the draft layer, and the draft head with them.",
        "prompt_loan",
        library=True,
    ),
    Switch(
        LOAN_HEAD,
        "flag",
        ("0", "1"),
        "0",
        "1: the loan takes the output head.",
        "prompt_loan",
        library=True,
    ),
    Switch(
        LOAN_RETAIN,
        "flag",
        ("0", "1"),
        "0",
        "1: the chunk planned at the start, with the loan's memory, is the largest of every later prompt.",
        "prompt_loan",
        library=True,
    ),
    Switch(
        LOAN_REPEAT,
        "flag",
        ("0", "1"),
        "0",
        "1: later prompts take the loan too, not only the first.",
        "prompt_loan",
        library=True,
    ),
    Switch(
        LOAN_REPEAT_TOKENS,
        "number",
        ("0", "999999999"),
        "1024",
        "Tokens that a later prompt must really read to take the loan; below 256 it is 256.",
        "prompt_loan",
        library=True,
    ),
    Switch(
        VERIFY_RECLAIM,
        "flag",
        ("0", "1"),
        "0",
        "1: slots that come back from a loan are compared with the host in every byte before a row names them again.",
        "expert_cache",
        otherwise="1",
        library=True,
    ),
)

SWITCHES: Mapping[str, Switch] = MappingProxyType({row.name: row for row in _ROWS})

#: STRATA_* names that are read and are no switches: they say where things lie and what tests use, not which path runs.
SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "STRATA_CACHE_DIR": "Where compiled kernels are kept, and models that `strata model fetch` assembles.",
        "STRATA_STATE_DIR": "Where records of this machine's own runs are kept.",
        "STRATA_DUMP_FIRST_LOGITS": "A file, .npy, that takes the first logits of `strata generate` as float32.",
        "STRATA_TRACEBACK": "Whether a command that could not run shows the traceback of what nobody foresaw.",
        "STRATA_BENCH_EXECUTOR": "Which executor the benchmarks in tests/ time: auto, lanes or cuda.",
    }
)


@dataclass(frozen=True)
class Switches:
    """What an environment asks for.

    Parameters
    ----------
    values
        Values by the name of the switch, of those that are good or count as something.
    problems
        One line for each name or value that is wrong.
    notes
        A line on each switch that asks for something which acts only in the library so far.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def value(self, name: str) -> str:
        """The value of a known switch, its default when absent. Raises KeyError for a name outside the table."""
        return self.values.get(name, SWITCHES[name].default)


def read(environ: Mapping[str, str], table: Mapping[str, Switch] = SWITCHES) -> Switches:
    """The switches of an environment, and what is wrong with it.

    An empty value is the same as none. A bad value counts as absent, or as the switch's `otherwise`, and is reported,
    as is an unknown STRATA_* name and a switch that has no effect yet. Nothing is raised.

    Parameters
    ----------
    environ
        Values by the names of variables.
    table
        The switches by name.
    """
    values: dict[str, str] = {}
    problems: list[str] = []
    notes: list[str] = []
    for name in sorted(name for name in environ if name.upper().startswith(PREFIX)):
        value, switch = environ[name], table.get(name)
        if switch is None:
            if name not in SETTINGS:
                problems.append(_unknown(name, value, [*table, *SETTINGS]))
        elif value == "":
            continue
        elif not switch.takes(value):
            if switch.otherwise:
                values[name] = switch.otherwise
            problems.append(
                f"{name}={shown(value)}: expected {switch.expected}; counts as {switch.otherwise or 'absent'}"
            )
        else:
            values[name] = value
            if not switch.works and value != switch.default:
                problems.append(f"{name}={value} has no effect yet: {switch.operation} does not exist in this version")
            if switch.library and value != switch.default:
                notes.append(f"{name}={value} acts only in the library so far: no engine in this version reads it")
    return Switches(values, tuple(problems), tuple(notes))


def _unknown(name: str, value: str, known: Iterable[str]) -> str:
    near = nearest(name, known)
    said = "`strata switches` lists all" if near is None else f"the nearest known name is {near}"
    return f"{_plain(name)}={shown(value)}: no such switch, it has no effect; {said}"


def _plain(name: str) -> str:
    return ascii(name)[1:-1][:80]
