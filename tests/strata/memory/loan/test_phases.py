"""The request-scoped loan: phases and their order, thresholds, STOP, refusals, failures, and equal answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.memory.cache.adaptive import AdaptiveTier, Pace
from strata.memory.driver.driver import Code, DriverError
from strata.memory.driver.errors import Fatal, Refused
from strata.memory.driver.fault_plan import Call, Corrupt, Fail, FaultPlan, Interrupt, Report
from strata.memory.loan.lending import Lending
from strata.memory.loan.loan_switches import LoanSwitches
from strata.memory.loan.phases import FOLLOWS, Phase, Prompt, PromptLoan
from strata.memory.loan.request import RequestState, Sampling
from strata.memory.loan.workspace_layout import Workspace
from tests.strata.memory.loan.tiny_engine import (
    ALL_ON,
    DECODE_PIECES,
    PIECE,
    RESERVE,
    SIZES,
    Engine,
    content,
    engine,
    peek,
    unsound,
)

GREEDY = RequestState(tokens=(5, 9), penalty_history=(3, 3, 7))
SAMPLED = RequestState(
    Sampling(temperature=0.8, top_k=20, repeat_penalty=1.3, last=3),
    seed=77,
    draws=12,
    penalty_history=(1, 2, 2, 9),
    head_sampling=True,
    pcie_fraction=0.25,
    pcie_mode="auto",
    control_vector=True,
    tokens=(4, 8, 15),
)
LOAN = ["DECODING", "RELEASING", "READING", "RESTORING", "DECODING"]
SMALL = ["DECODING", "READING", "RESTORING", "DECODING"]


def assert_ready(made: Engine) -> None:
    """Everything that decoding needs is there with its bytes, and the cache has its decode size."""
    assert made.loan.phase is Phase.DECODING
    assert made.loan.resources.absent == []
    assert made.loan.resources.violations() == []
    assert unsound(made.cache, made.driver) == []
    assert made.cache.arena.mapped_bytes == DECODE_PIECES * PIECE
    assert made.driver.mem_info()[0] == RESERVE
    for name in ("H", "X"):
        resource = made.loan.resources[name]
        assert np.array_equal(peek(made.driver, resource.address, SIZES[name]), content(name))  # type: ignore[attr-defined]
    assert len(made.loan.tail.book) == 0
    assert made.cache.residency.resident() == [
        (row, slot) for slot, row in enumerate(made.profile[: made.loan.sizes.decode_slots])
    ]


def test_the_first_prompt_of_a_cold_engine() -> None:
    made = engine()
    assert made.loan.phase is Phase.COLD
    assert set(made.loan.resources.absent) == {"H", "X", "D", "V", "G"}
    read = made.loan.read(Prompt(2001, state=SAMPLED), made.run)
    assert (read.tokens, read.cancelled, read.loan) == (2000, False, True)
    assert sum(length for _, length in made.seen) == 2000
    assert made.loan.visited == ["COLD", "READING", "RESTORING", "DECODING"]
    assert_ready(made)
    assert made.verifier.state() == SAMPLED


def test_a_later_prompt_reads_down_to_slot_0_and_all_is_back() -> None:
    made = engine(cold=False)
    assert_ready(made)
    small, large = _workspace(made, 1000), _workspace(made, 5000)
    assert made.loan.visited == [*SMALL, *LOAN[1:]]
    assert small.nbytes < large.nbytes
    assert large.address < small.address
    assert_ready(made)


def _workspace(made: Engine, tokens: int) -> Workspace:
    workspace = made.loan.begin(Prompt(tokens + 1))
    assert unsound(made.cache, made.driver) == []
    made.run(workspace, 0, 1)
    made.loan.end()
    return workspace


def test_order_of_a_release_and_a_restore() -> None:
    """Dependents go first, and nothing is unmapped before the card is idle; memory goes before any is taken."""
    made = engine(cold=False)
    order: list[str] = []
    for name in ("H", "X", "D", "V", "G"):
        resource = made.loan.resources[name]
        for verb in ("release", "restore"):
            _before(resource, verb, partial(order.append, f"{verb} {name}"))
    made.driver.log.clear()
    workspace = made.loan.begin(Prompt(5000))
    assert order == [f"release {name}" for name in "GVDXH"]
    assert _names(made.driver.log[:2]) == ["synchronize", "synchronize"]
    made.run(workspace, 0, 1)
    made.driver.log.clear()
    order.clear()
    made.loan.end()
    assert order == [f"restore {name}" for name in "HXDVG"]
    names = _names(made.driver.log)
    assert names[0] == "synchronize"
    assert names.index("unmap") < names.index("create")
    assert max(k for k, name in enumerate(names) if name == "unmap") < names.index("create")


def test_swaps_have_landed_before_anything_is_released() -> None:
    made = engine(cold=False)
    tier = AdaptiveTier(made.cache, Pace(every=1))
    resident = {row for row, _ in made.cache.residency.resident()}
    tier.count([row for row in range(made.cache.geometry.rows) if row not in resident for _ in range(9)])
    tier.begin()
    assert tier.pending
    pending: list[int] = []
    for name in ("G", "V", "H"):
        _before(made.loan.resources[name], "release", lambda: pending.append(len(tier.pending)))
    made.loan.begin(Prompt(5000))
    assert pending == [0, 0, 0]
    made.loan.end()
    assert unsound(made.cache, made.driver) == []


def test_the_cache_grows_no_further_than_the_reserve() -> None:
    """Only the verifier is lent: its memory is less than a piece, so the cache stays as large as it is."""
    made = engine(LoanSwitches(elastic=True, repeat=True), cold=False)
    made.loan.begin(Prompt(5000))
    assert made.cache.arena.mapped_bytes == DECODE_PIECES * PIECE
    assert made.driver.mem_info()[0] >= RESERVE
    made.loan.end()
    large = engine(cold=False)
    large.loan.begin(Prompt(5000))
    assert large.cache.arena.mapped_bytes > DECODE_PIECES * PIECE
    assert large.driver.mem_info()[0] >= RESERVE


def _before(resource: object, verb: str, act: Callable[[], None]) -> None:
    """From now on `act` comes before that method of the resource."""
    method = getattr(resource, verb)

    def call() -> None:
        act()
        method()

    setattr(resource, verb, call)


def _names(log: list[Call]) -> list[str]:
    return [call.name for call in log]


@pytest.mark.parametrize(
    ("least", "prompt", "loan"),
    [
        (1024, Prompt(1 + 1023), False),
        (1024, Prompt(1 + 1024), True),
        (256, Prompt(1 + 255), False),
        (256, Prompt(1 + 256), True),
        (1024, Prompt(1 + 3000, resume=1977), False),
        (1024, Prompt(1 + 3000, resume=1976), True),
        (1024, Prompt(1 + 5000, images=True), False),
    ],
)
def test_threshold_of_a_repeated_loan(least: int, prompt: Prompt, loan: bool) -> None:
    """Uncached tokens count, all but the last; from the threshold on the loan is taken."""
    made = engine(replace(ALL_ON, repeat_tokens=least), cold=False)
    read = made.loan.read(prompt, made.run)
    assert read.loan == loan
    assert made.loan.visited == (LOAN if loan else SMALL)
    assert (made.loan.note == "") == loan
    assert_ready(made)


def test_the_first_prompt_ignores_the_threshold() -> None:
    made = engine(replace(ALL_ON, repeat_tokens=1024))
    assert made.loan.read(Prompt(2), made.run).loan
    assert_ready(made)


@pytest.mark.parametrize("off", [LoanSwitches(), replace(ALL_ON, repeat=False), replace(ALL_ON, elastic=False)])
def test_without_the_switch_no_later_prompt_borrows(off: LoanSwitches) -> None:
    made = engine(off, cold=False)
    assert not made.loan.read(Prompt(5000), made.run).loan
    assert made.loan.visited == SMALL
    assert_ready(made)


@pytest.mark.parametrize(
    ("chosen", "gone"),
    [
        (LoanSwitches(elastic=True, repeat=True), "GV"),
        (LoanSwitches(elastic=True, repeat=True, mtp=True), "GVDX"),
        (LoanSwitches(elastic=True, repeat=True, head=True), "GVDH"),
        (ALL_ON, "GVDXH"),
    ],
)
def test_what_is_lent_takes_its_dependents_along(chosen: LoanSwitches, gone: str) -> None:
    made = engine(chosen, cold=False)
    made.loan.begin(Prompt(5000))
    assert set(made.loan.resources.absent) == set(gone)
    assert made.loan.resources.violations() == []
    made.loan.end()
    assert_ready(made)


@pytest.mark.parametrize("cold", [True, False])
def test_stop_restores_before_it_is_answered(cold: bool) -> None:
    made = engine(cold=cold)
    asked = iter([False, True])
    read = made.loan.read(Prompt(9001, state=SAMPLED), made.run, lambda: next(asked))
    assert (read.cancelled, len(made.seen), read.tokens) == (True, 1, made.seen[0][1])
    assert_ready(made)
    assert made.verifier.state() == SAMPLED


@pytest.mark.parametrize("cold", [True, False])
def test_an_error_while_reading_restores_first(cold: bool) -> None:
    made = engine(cold=cold)

    def run(workspace: Workspace, start: int, length: int) -> None:
        made.run(workspace, start, length)
        raise StrataError("a kernel went wrong")

    with pytest.raises(StrataError, match="a kernel went wrong"):
        made.loan.read(Prompt(5000), run)
    assert_ready(made)


@pytest.mark.parametrize("prompt", [Prompt(5, resume=-3), Prompt(0, resume=-1)])
def test_a_prompt_that_cannot_be_leaves_a_cold_engine_cold(prompt: Prompt) -> None:
    made = engine()
    with pytest.raises(Refused, match="expected some to read"):
        made.loan.begin(prompt)
    assert made.loan.visited == ["COLD"]
    assert set(made.loan.resources.absent) == {"H", "X", "D", "V", "G"}


def test_a_prompt_with_nothing_to_read_makes_a_cold_engine_ready() -> None:
    made = engine()
    assert made.loan.read(Prompt(1, state=SAMPLED), made.run).tokens == 0
    assert made.seen == []
    assert made.verifier.state() == SAMPLED
    assert made.loan.visited == ["COLD", "RESTORING", "DECODING"]
    assert_ready(made)


def test_commands_between_requests() -> None:
    """`ready` comes before LEND, RECLAIM and VRAM: it leaves COLD, and refuses while a prompt is read."""
    made = engine()
    made.loan.ready()
    assert_ready(made)
    made.loan.begin(Prompt(5000))
    for call in (made.loan.ready, lambda: made.loan.begin(Prompt(9))):
        with pytest.raises(Refused, match="expected"):
            call()
    made.loan.end()
    with pytest.raises(Refused, match="expected a prompt that is being read"):
        made.loan.end()
    assert_ready(made)


def test_one_owner_of_the_tail() -> None:
    """While LEND is out no loan is taken, and the prompt is read below it; LEND waits while a prompt is read."""
    made = engine(cold=False)
    lending = Lending(made.cache)
    made.lend_last_piece()
    read = made.loan.read(Prompt(5000), made.run)
    assert (read.loan, made.loan.note) == (False, "the loan 'LEND' is out")
    assert unsound(made.cache, made.driver) == []
    made.reclaim()
    assert made.loan.read(Prompt(5000), made.run).loan
    assert_ready(made)
    made.loan.begin(Prompt(5000))
    with pytest.raises(Refused, match="the loan 'prompt' is still out"):
        lending.lend(1)
    made.loan.end()
    assert_ready(made)


def test_a_refused_release_is_undone_and_the_prompt_is_read_without_the_loan() -> None:
    plan = FaultPlan()
    made = engine(cold=False, plan=plan)
    experts = made.loan.resources["X"]
    plan.when(lambda call: call.name == "unmap" and call.args[0] == experts.address, Fail(Code.UNKNOWN))  # type: ignore[attr-defined]
    read = made.loan.read(Prompt(5000, state=SAMPLED), made.run)
    assert not read.loan
    assert "UNKNOWN" in made.loan.note
    assert made.loan.visited == ["DECODING", "RELEASING", "RESTORING", "DECODING", *SMALL[1:]]
    assert_ready(made)
    assert made.loan.read(Prompt(5000), made.run).loan


def test_memory_that_another_process_took_meanwhile_is_fatal() -> None:
    """Nothing can be decoded without the head: ERR, exit 1, and the engine answers nothing else."""
    made = engine(cold=False, spare=PIECE)
    made.loan.begin(Prompt(5000))
    free = made.driver.mem_info()[0]
    assert made.driver.card.take("a browser", free)
    made.driver.plan.when(lambda call: call.name == "create", Fail(Code.OUT_OF_MEMORY))
    with pytest.raises(Fatal, match="restore after a prompt: create: OUT_OF_MEMORY") as raised:
        made.loan.end()
    assert raised.value.status == 1
    assert made.loan.phase is Phase.FAILED
    assert unsound(made.cache, made.driver) == []
    for call in (made.loan.ready, made.loan.end, lambda: made.loan.begin(Prompt(5000))):
        with pytest.raises(Fatal, match="expected a new process"):
            call()


@pytest.mark.parametrize(("code", "lost"), [(Code.OUT_OF_MEMORY, False), (Code.ILLEGAL_ADDRESS, True)])
def test_after_a_fatal_end_nothing_lends(code: Code, lost: bool) -> None:
    """The cache knows too; and whether the context is lost, so that nobody calls the driver to clean up."""
    made = engine(cold=False)
    made.loan.begin(Prompt(5000))
    made.driver.plan.next("create", Fail(code))
    with pytest.raises(Fatal) as raised:
        made.loan.end()
    assert raised.value.lost == lost
    assert made.cache.fatal is raised.value
    for call in (lambda: made.lending.lend(1), made.lending.reclaim, made.cache.begin_window):
        with pytest.raises(Fatal, match="the cache has ended"):
            call()


def test_a_free_figure_of_0_grows_nothing() -> None:
    """Whatever the free figure says, the loan has at least what the cache had, and the restore has its memory."""
    for figure in (0, 1 << 40):
        made = engine(cold=False)
        made.driver.plan.next("mem_info", Report(figure))
        assert made.loan.read(Prompt(5000), made.run).loan
        assert_ready(made)


def test_the_start_s_chunk_is_kept_when_asked() -> None:
    """Retained, no later chunk is larger than that of the first prompt, even when more memory is free."""
    chunks: dict[bool, list[int]] = {}
    for retain in (False, True):
        made = engine(replace(ALL_ON, retain=retain), most_chunk=2048)
        made.loan.read(Prompt(4000), made.run)
        made.loan.most_chunk = 4096
        made.loan.read(Prompt(9000), made.run)
        chunks[retain] = [length for _, length in made.seen]
    assert max(chunks[True]) <= 2048 < max(chunks[False])


@pytest.mark.parametrize("state", [GREEDY, SAMPLED])
def test_answers_do_not_depend_on_the_loan(state: RequestState) -> None:
    """Greedy, and sampled with a seed and penalties: the same tokens with no loan, a first one, and a repeated one."""
    answers = []
    for made, prompts in ((engine(LoanSwitches(), cold=False), 1), (engine(), 1), (engine(cold=False), 2)):
        for _ in range(prompts):
            made.loan.read(Prompt(5000, state=state), made.run)
        answers.append(made.generate(40))
    assert answers[0] == answers[1] == answers[2]
    assert len(set(answers[0])) > 1


def test_the_answers_would_show_lost_state() -> None:
    """The control of the test before: each part that the decoder reads changes the tokens when it is lost."""
    made = engine(cold=False)
    made.loan.read(Prompt(5000, state=SAMPLED), made.run)
    right = made.generate(40)
    blank = RequestState()
    for lost in ("sampling", "seed", "draws", "penalty_history", "tokens"):
        made.verifier.apply(replace(SAMPLED, **{lost: getattr(blank, lost)}))
        assert made.generate(40) != right, lost


def test_a_verifier_that_forgets_is_fatal() -> None:
    made = engine(cold=False)
    made.verifier.apply = lambda state: None  # type: ignore[method-assign]
    with pytest.raises(Fatal, match="request state is"):
        made.loan.read(Prompt(5000, state=SAMPLED), made.run)
    assert made.loan.phase is Phase.FAILED


def test_wrong_bytes_in_a_restored_resource_are_fatal() -> None:
    made = engine(cold=False)
    made.loan.begin(Prompt(5000))
    head = made.loan.resources["H"]
    made.driver.plan.when(
        lambda call: call.name == "copy_in" and call.args[0] == head.address,  # type: ignore[attr-defined]
        Corrupt(offset=777, flip=4),
    )
    with pytest.raises(Fatal, match="H: byte 777 is"):
        made.loan.end()


@pytest.mark.parametrize("verify_all", [False, True])
@pytest.mark.parametrize("cold", [False, True])
def test_what_comes_back_is_compared(verify_all: bool, cold: bool) -> None:
    """A wrong byte in any slot ends the engine when all are compared; else in those of the sample, as is said."""
    counted = engine(replace(ALL_ON, verify_all=verify_all), cold=cold)
    counted.loan.begin(Prompt(5000))
    decode = counted.loan.sizes.decode_slots
    pairs = [pair for pair in counted.loan.tail.book if pair[1] < decode]
    assert len(pairs) > 10
    sample = counted.cache.sample(pairs)
    counted.loan.end()
    compared = pairs if verify_all else sample
    assert counted.loan.verified[:2] == (len(compared), len(pairs))
    assert counted.loan.verified.nbytes == sum(counted.cache.geometry.blob(row) for row, _ in compared)
    for pair in pairs:
        made = engine(replace(ALL_ON, verify_all=verify_all), cold=cold)
        made.loan.begin(Prompt(5000))
        made.driver.plan.when(_copy_to(made, pair[1]), Corrupt(1000, 0xFF))
        if pair in compared:
            with pytest.raises(Fatal, match=f"in slot {pair[1]}: byte 1000"):
                made.loan.end()
            assert made.loan.phase is Phase.FAILED
            assert made.cache.fatal is not None
        else:
            made.loan.end()
            assert made.loan.verified.slots < made.loan.verified.of


def _copy_to(made: Engine, slot: int) -> Callable[[Call], bool]:
    address = made.cache.base + int(made.cache.slots.off[slot])
    return lambda call: call.name == "copy_in" and call.args[0] == address


def test_a_cold_engine_lends_nothing_to_others() -> None:
    """What RECLAIM brought back would lie beyond the decode size, among what decoding needs."""
    made = engine()
    with pytest.raises(Refused, match="the loan 'cold start' is still out"):
        made.lending.lend(1)
    assert unsound(made.cache, made.driver) == []
    assert made.loan.read(Prompt(5000), made.run).loan
    assert_ready(made)
    made.lend_last_piece()
    made.reclaim()
    assert_ready(made)
    other = engine()
    other.loan.ready()
    assert other.cache.out() == ""


def test_an_engine_that_has_lent_cannot_begin_cold() -> None:
    made = engine()
    made.loan._cold.first = None
    made.lend_last_piece()
    parts = (made.loan.resources, made.loan.sizes, made.loan.tail, made.loan.path, made.verifier)
    with pytest.raises(StrataError, match="the loan 'LEND' is out, expected none of a cold engine"):
        PromptLoan(*parts, ALL_ON, 4096)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, OSError])
def test_whatever_breaks_off_a_change_of_phase_is_the_end(error: type[BaseException]) -> None:
    """Before and after each driver call: never DECODING with something missing, nor a phase between for good."""
    counted = engine(cold=False)
    before = len(counted.driver.log)
    counted.loan.begin(Prompt(5000))
    counted.loan.end()
    calls = counted.driver.log[before:]
    assert len(calls) > 20
    for call, after in product(calls, (False, True)):
        made = engine(cold=False)
        made.driver.plan.at(call.number, Interrupt(error("in the middle"), after))
        with pytest.raises(error):
            _there_and_back(made)
        assert made.loan.phase is Phase.FAILED, call
        assert made.cache.fatal is not None
        for request in (made.loan.ready, made.cache.begin_window, lambda made=made: made.loan.begin(Prompt(9))):
            with pytest.raises(Fatal):
                request()


def _there_and_back(made: Engine) -> None:
    made.loan.begin(Prompt(5000))
    made.loan.end()


def _raise(error: type[BaseException]) -> None:
    raise error("in the middle")


def test_content_that_cannot_be_read_is_the_end() -> None:
    made = engine(cold=False)
    made.loan.begin(Prompt(5000))
    made.loan.resources["X"]._content = partial(_raise, OSError)  # type: ignore[attr-defined]
    with pytest.raises(OSError, match="in the middle"):
        made.loan.end()
    assert made.loan.phase is Phase.FAILED
    with pytest.raises(Fatal, match="the cache has ended: OSError in the middle of a change: in the middle"):
        made.lending.lend(1)


def test_every_change_of_phase_is_in_the_table() -> None:
    assert set(FOLLOWS) == set(Phase)
    assert {phase for follow in FOLLOWS.values() for phase in follow} == set(Phase) - {Phase.COLD}


@settings(max_examples=25, deadline=None)
@given(
    st.booleans(),
    st.lists(
        st.tuples(st.sampled_from(["prompt", "stop", "lend", "reclaim", "ready"]), st.integers(1, 6000)), max_size=8
    ),
)
def test_any_trace_keeps_the_law(cold: bool, trace: list[tuple[str, int]]) -> None:
    """I1 to I7 after each step, and between requests everything is there."""
    made = engine(cold=cold)
    for step, tokens in trace:
        if step in ("prompt", "stop"):
            made.loan.read(Prompt(tokens + 1, state=SAMPLED), made.run, lambda step=step: step == "stop")  # type: ignore[misc]
            assert made.verifier.state() == SAMPLED
        elif step == "ready" or made.loan.phase is Phase.COLD:
            made.loan.ready()
        elif step == "lend" and made.lending.loan is None:
            made.lend_last_piece()
        elif step == "reclaim":
            made.reclaim()
        assert unsound(made.cache, made.driver) == []
        assert made.loan.resources.violations() == []
        if made.loan.phase is Phase.DECODING:
            assert made.loan.resources.absent == []


def _one_loan(made: Engine) -> None:
    made.loan.read(Prompt(5000, state=SAMPLED), made.run)


def test_every_call_of_a_loan_may_fail() -> None:
    """Each driver call of a repeated loan, before and after its effect: everything is there again, or FAILED; the law
    holds either way, no memory is lost, and what is FAILED was raised as Fatal."""
    counted = engine(cold=False)
    before = len(counted.driver.log)
    _one_loan(counted)
    calls = counted.driver.log[before:]
    outcomes = {"read": 0, "not read": 0, "fatal": 0}
    for call in calls:
        for after in (False, True):
            plan = FaultPlan()
            made = engine(cold=False, plan=plan)
            plan.at(call.number, Fail(Code.UNKNOWN, after))
            outcome = "read"
            try:
                _one_loan(made)
            except Fatal:
                outcome = "fatal"
            except DriverError:
                outcome = "not read"  # the prompt path's own call failed
            outcomes[outcome] += 1
            if outcome == "fatal":
                assert made.loan.phase is Phase.FAILED
                assert unsound(made.cache, made.driver) == []
                continue
            assert made.loan.phase is Phase.DECODING
            assert made.verifier.state() == SAMPLED
            assert made.loan.resources.absent == []
            assert unsound(made.cache, made.driver) == []
            _one_loan(made)
            assert_ready(made)
    print(len(calls), outcomes)
    assert sum(outcomes.values()) == 2 * len(calls)
    assert min(outcomes.values()) > 0
