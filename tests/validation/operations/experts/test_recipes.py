"""Expert recipes by name, and parts of them put together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.executors.base import StrataError
from validation.operations import registry
from validation.operations.experts.recipes import RECIPES, Routing, Values, Weights, composed, find


@given(st.sampled_from(Weights), st.sampled_from(Routing), st.sampled_from(Values))
def test_a_composed_recipe_is_found_by_its_name(weights: Weights, routing: Routing, values: Values) -> None:
    made = composed(weights, routing, values)
    assert find(made.name) == registry.find(made.name) == made
    assert (made.weights, made.routing, made.values) == (weights, routing, values)
    assert made.operation == "expert"
    assert not made.name.split()[1:]  # one word of a case


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_of_the_table_is_itself(name: str) -> None:
    assert find(name) is registry.find(name) is RECIPES[name]


WRONG = {
    "experts_plane": "experts_plain",
    "experts:plain:hot": "one that is put together is experts:WEIGHTS:ROUTING:VALUES",
    "expert:plain:hot:bell": "one that is put together is experts:WEIGHTS:ROUTING:VALUES",
    "experts:plane:hot:bell": "weights 'plane' .* one of plain, decades",
    "experts:plain:hot:one sided": "values 'one sided' .* one_sided",
}


@pytest.mark.parametrize(("name", "said"), WRONG.items())
def test_another_name_is_refused(name: str, said: str) -> None:
    with pytest.raises(StrataError, match=said):
        find(name)
    with pytest.raises(StrataError):
        registry.find(name)
