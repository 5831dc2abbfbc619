"""A flag that is not handed to a compiler fails a control, without NVRTC and without a C++ compiler."""

from __future__ import annotations

import pytest

from strata.executors.cuda import images
from strata.executors.lanes import build
from validation.controls import flags
from validation.core.control import answers, failed


def wrong() -> set[str]:
    return {one.name for one in failed(answers(flags.compilation()))}


def test_every_flag_is_handed_on_as_it_is() -> None:
    assert not wrong()


@pytest.mark.parametrize("flag", images.FLAGS)
def test_a_flag_that_nvrtc_is_not_given_is_told(flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "FLAGS", tuple(other for other in images.FLAGS if other != flag))
    assert "flags/NVRTC, router for sm_75" in wrong()


@pytest.mark.parametrize("flag", ["-std=c++20", "-ffp-contract=off", "-fno-fast-math", "-DSTRATA_LANES"])
def test_a_flag_that_the_cxx_compiler_is_not_given_is_told(flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "FLAGS", tuple(other for other in build.FLAGS if other != flag))
    assert {f"flags/C++, {flavor}" for flavor in flags.FLAVORS} <= wrong()


@pytest.mark.parametrize("word", ["-ffast-math", "-Ofast", "-ffp-contract=fast"])
def test_a_word_that_undoes_a_flag_is_told(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, word))
    assert "flags/C++, fast" in wrong()
