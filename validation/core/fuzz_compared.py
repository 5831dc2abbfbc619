"""What a fuzzed configuration came to on one path."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Compared:
    """configuration: its text; outputs: compared, of which `differing` differ and `not_finite` are not finite; guards:
    whether memory around every buffer is untouched; said: what else is wrong, such as a count or a run that failed,
    empty when nothing is; arch: what the images that ran were built for."""

    configuration: str
    path: str
    outputs: int = 0
    differing: int = 0
    not_finite: int = 0
    guards: bool = True
    said: str = ""
    arch: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        return not self.differing and self.guards and not self.said
