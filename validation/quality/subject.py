"""What is asked for logits: the engine in a setting, or whatever a test puts in its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from strata.dispatch import Gate
from strata.engine.engine import PAGE_SIZE, Engine
from strata.executors import open_executor
from strata.executors.base import StrataError
from strata.kernels.paths import PATHS
from validation.quality.setting import CAPABILITY, Setting

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]


class Subject(Protocol):
    """A model in a setting. Where its kernels give values that are not finite, its methods may raise LostValuesError.

    Parameters
    ----------
    name
        The setting.
    served
        Lines on what computes it.
    """

    name: str
    served: list[str]

    def logits(self, tokens: Int64) -> Iterator[tuple[int, Float32]]:
        """Logits of every position, in slices: the first position and float32 [k, vocabulary]."""
        ...

    def last(self, tokens: Int64) -> Float32:
        """Logits behind the last token, float32 [vocabulary]."""
        ...

    def greedy(self, tokens: Int64, count: int) -> list[int]:
        """The next tokens, each the one of the largest logit."""
        ...


class EngineSubject:
    """The engine in a setting.

    Parameters
    ----------
    file
        The model.
    setting
        The KV format and the kernels of attention.
    executor
        `lanes` or `cuda`, see `place`.
    context
        Tokens of the longest prompt and what is generated behind it.
    gate
        What decides in place of this installation's gate; None for that.

    Raises
    ------
    StrataError
        When other kernels than the setting's serve attention.
    """

    def __init__(self, file: FilePath, setting: Setting, executor: str, context: int, gate: Gate | None = None) -> None:
        self.name = str(setting)
        # A baseline on lanes is asked of the same card, so that both settings differ in attention alone.
        capability = CAPABILITY if executor == "lanes" else None
        self._engine = Engine.open(
            file,
            executor=executor,
            kv=setting.kv,
            context=context,
            # A reading of every position has a sequence of its own beside the one that is generated.
            pages=2 * -(-context // PAGE_SIZE),
            page_size=PAGE_SIZE,
            capability=capability,
            environ=setting.switches,
            gate=gate,
        )
        self.served: list[str] = list(self._engine.facts()["paths"])
        self.attention = str(self._engine.facts()["attention"])
        found = PATHS[self.attention].operation
        if found != setting.operation:
            raise StrataError(f"setting {setting}: {self.served[0]}; expected a path of {setting.operation}")

    def logits(self, tokens: Int64) -> Iterator[tuple[int, Float32]]:
        """Logits of every position, in slices."""
        return self._engine.logits(tokens)

    def last(self, tokens: Int64) -> Float32:
        """Logits behind the last token."""
        self._engine.start()
        return self._engine.prefill(tokens)

    def greedy(self, tokens: Int64, count: int) -> list[int]:
        """The next tokens."""
        logits, found = self.last(tokens), []
        for _ in range(count):
            found.append(int(np.argmax(logits)))
            if len(found) < count:
                logits = self._engine.decode(found[-1])
        return found

    def close(self) -> None:
        """Let its memory go."""
        self._engine.close()

    def __enter__(self) -> EngineSubject:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def place(name: str) -> tuple[str, dict[str, Any]]:
    """Where an executor's name leads: `lanes` or `cuda`, and what it says of itself.

    Parameters
    ----------
    name
        `auto`, `lanes` or `cuda`.
    """
    found = open_executor(name)
    return ("lanes" if found.capability is None else "cuda"), dict(found.describe())
