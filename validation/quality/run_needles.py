"""Needles by FP64 and by the engine in each setting."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath

from strata.dispatch import Gate
from validation.core.verdict import Verdict
from validation.quality import needle_model
from validation.quality.fp64_file import Fp64File
from validation.quality.fp64_model import Fp64Model, Int64
from validation.quality.needles import Found, asked, needles
from validation.quality.setting import Setting
from validation.quality.subject import EngineSubject

FP64 = "FP64"
#: Called with the name of a setting when its needles are done.
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Answers:
    """What a setting found. setting: its name, or `FP64`; served: lines on what computed it."""

    setting: str
    found: Sequence[Found]
    served: Sequence[str] = ()

    @property
    def right(self) -> int:
        """How many needles were found."""
        return sum(one.right for one in self.found)


@dataclass(frozen=True)
class NeedleResult:
    """What FP64 and the settings found."""

    answers: Sequence[Answers]

    @property
    def verdict(self) -> Verdict:
        """VOID when FP64 misses a needle, since then the model retrieves nothing; else whether all found all."""
        exact = next((one for one in self.answers if one.setting == FP64), None)
        settings = [one for one in self.answers if one.setting != FP64]
        if exact is None or not exact.found or exact.right < len(exact.found):
            return Verdict.VOID
        if not settings:
            return Verdict.NOT_RUN
        whole = all(one.found and one.right == len(one.found) for one in settings)
        return Verdict.EXACT if whole else Verdict.EXCEEDS


def run(
    settings: Sequence[Setting],
    lengths: Sequence[int],
    seed: int,
    executor: str,
    gate: Gate | None = None,
    progress: Progress = lambda name: None,
) -> NeedleResult:
    """Write the model, and ask FP64 and the engine in each setting for every needle.

    Parameters
    ----------
    settings
        The settings.
    lengths
        Tokens of the prompts; each length has every depth.
    seed
        Of the prompts.
    executor
        `lanes` or `cuda`.
    gate
        See `EngineSubject`.
    progress
        Called after FP64 and after each setting.
    """
    hidden = needles(seed, lengths)
    with tempfile.TemporaryDirectory(prefix="strata-needles-") as directory:
        file = FilePath(directory) / "needles.gguf"
        needle_model.write(file)
        model = Fp64Model(Fp64File(file))

        def exact(tokens: Int64) -> needle_model.Float64:
            logits: needle_model.Float64 = model.logits(model.states(tokens, first=len(tokens) - 1))[0]
            return logits

        found = [Answers(FP64, [asked(exact, one) for one in hidden])]
        progress(FP64)
        for setting in settings:
            with EngineSubject(file, setting, executor, max(lengths), gate) as subject:
                found.append(Answers(str(setting), [asked(subject.last, one) for one in hidden], subject.served))
            progress(str(setting))
    return NeedleResult(found)
