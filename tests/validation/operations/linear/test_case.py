"""Cases of dense products: one text form, what cannot exist, and which modes take a width."""

from __future__ import annotations

import pytest

from strata.formats import FORMATS
from strata.kernels.linear_weights import LINEAR_FORMATS
from strata.kernels.paths import PATHS
from validation.core.case import CaseError
from validation.operations import registry
from validation.operations.linear.case import LinearCase

BELL = "recipe=linear_bell seed=1 rows=9 outputs=257 width=1024"


def test_the_text_form_is_parsed_again() -> None:
    assert registry.parse(BELL).text() == BELL
    assert LinearCase.parse(BELL) == LinearCase("linear_bell", 1, 9, 257, 1024)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rows=9", "rows=0", "rows is 0, expected 1..1048576"),
        ("outputs=257", "outputs=0", "outputs is 0, expected 1..1048576"),
        ("width=1024", "width=1026", "width is 1026, expected a multiple of 4"),
        (" width=1024", "", "width is missing, expected e.g. recipe=linear_bell"),
    ],
)
def test_what_cannot_exist_is_said(old: str, new: str, said: str) -> None:
    with pytest.raises(CaseError, match=f"^case: {said}"):
        LinearCase.parse(BELL.replace(old, new))


@pytest.mark.parametrize("mode", LINEAR_FORMATS)
def test_a_path_takes_widths_of_whole_blocks(mode: str) -> None:
    block = FORMATS[mode].values
    for path in (PATHS[f"linear_dp4a/{mode}/simt"], PATHS[f"linear/{mode}/sm75"]):
        taken = [width for width in (4, 32, 36, 64, 256, 288, 512) if _takes(path.name, width)]
        assert taken == [width for width in (4, 32, 36, 64, 256, 288, 512) if width % block == 0]
    assert _takes("linear_f16/f16/simt", 36)


def _takes(path: str, width: int) -> bool:
    operation = registry.of(PATHS[path])
    return operation.takes(LinearCase("linear_bell", 1, 2, 3, width), PATHS[path])
