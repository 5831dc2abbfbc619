"""Resources: released before what they need, restored after it, whatever the order they are listed in."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.memory.loan.resources import DEPENDENCIES, ResourceGraph


class Plain:
    """A resource that is a flag and may refuse."""

    def __init__(self, name: str, needs: tuple[str, ...], present: bool = True, nbytes: int = 1) -> None:
        self.name, self.needs, self.present, self.nbytes = name, needs, present, nbytes
        self.refuses = False

    def release(self) -> None:
        self._change(False)

    def restore(self) -> None:
        self._change(True)

    def _change(self, present: bool) -> None:
        assert self.present is not present
        if self.refuses:
            raise StrataError(f"{self.name} refuses")
        self.present = present


@st.composite
def graphs(draw: st.DrawFn) -> list[Plain]:
    """Any graph without a circle, listed in any order."""
    count = draw(st.integers(1, 7))
    made = [
        Plain(str(k), tuple(draw(st.lists(st.sampled_from([str(n) for n in range(k)]), unique=True)) if k else ()))
        for k in range(count)
    ]
    return draw(st.permutations(made))


@settings(deadline=None)
@given(graphs(), st.data())
def test_any_release_and_restore(resources: list[Plain], data: st.DataObject) -> None:
    """At every moment whatever is there has all it needs; only what was named and its dependents go."""
    graph = ResourceGraph(resources)
    names = data.draw(st.lists(st.sampled_from([resource.name for resource in resources]), unique=True))

    class Watched(Plain):
        def _change(self, present: bool) -> None:
            super()._change(present)
            assert graph.violations() == []

    for resource in resources:
        resource.__class__ = Watched
    released = graph.release(names)
    assert set(released) == set(graph.absent)
    reach = set(names)
    for _ in resources:
        reach |= {resource.name for resource in resources if reach & set(resource.needs)}
    assert set(released) == reach
    assert graph.nbytes(names) == len(reach)
    assert graph.restore() == list(reversed(released))
    assert graph.absent == []
    assert graph.release([]) == graph.restore() == []


@settings(deadline=None)
@given(graphs(), st.data())
def test_a_refusal_leaves_the_rest_whole(resources: list[Plain], data: st.DataObject) -> None:
    graph = ResourceGraph(resources)
    stubborn = data.draw(st.sampled_from(resources))
    stubborn.refuses = True
    with pytest.raises(StrataError, match=f"{stubborn.name} refuses"):
        graph.release([resource.name for resource in resources])
    assert stubborn.present
    assert graph.violations() == []
    stubborn.refuses = False
    graph.restore()
    assert graph.absent == []


def test_reference_order() -> None:
    graph = ResourceGraph([Plain(name, needs) for name, needs in DEPENDENCIES.items()])
    assert [resource.name for resource in graph.order] == ["H", "X", "D", "V", "G"]
    assert graph.release("H") == ["G", "V", "D", "H"]
    assert graph["X"].present


def test_a_resource_without_what_it_needs_is_seen() -> None:
    graph = ResourceGraph([Plain("a", (), present=False), Plain("b", ("a",))])
    assert graph.violations() == ["b is there without a"]


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ([Plain("a", ()), Plain("a", ())], "expected different names"),
        ([Plain("a", ("b",))], "resource a needs 'b', expected one of"),
        ([Plain("a", ("b",)), Plain("b", ("a",))], "depends on itself"),
        ([Plain("a", ("a",))], "resource a depends on itself"),
    ],
)
def test_graphs_that_cannot_be(resources: list[Plain], message: str) -> None:
    with pytest.raises(StrataError, match=message):
        ResourceGraph(resources)


def test_an_unknown_name() -> None:
    with pytest.raises(StrataError, match=r"resources \['Z'\]: expected some of"):
        ResourceGraph([Plain("a", ())]).release(["Z"])
