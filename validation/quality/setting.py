"""A setting of the engine: a KV format and which kernels compute attention, written `q4_0/tensor`."""

from __future__ import annotations

from dataclasses import dataclass

from strata.executors.base import StrataError
from strata.kernels import decode_attention, prompt_attention
from strata.kernels.pool import MODES
from strata.switches import PROMPT_OLD

BASELINE, TENSOR = "baseline", "tensor"
KERNELS = (BASELINE, TENSOR)
#: The compute capability whose paths lanes serve: that of the card on which they were measured.
CAPABILITY = 90


@dataclass(frozen=True)
class Setting:
    """A setting.

    Parameters
    ----------
    kv
        The format of keys and values.
    kernels
        `baseline`, FP32 attention, or `tensor`, the tensor-core path that replaces it.
    """

    kv: str
    kernels: str

    def __post_init__(self) -> None:
        if self.kv not in MODES or self.kernels not in KERNELS:
            raise StrataError(f"setting {self}: expected one of {', '.join(MODES)}, a slash, {' or '.join(KERNELS)}")

    def __str__(self) -> str:
        return f"{self.kv}/{self.kernels}"

    @property
    def switches(self) -> dict[str, str]:
        """The environment that asks for it; no switch of anybody's shell is in it."""
        return {PROMPT_OLD: "1"} if self.kernels == BASELINE else {}

    @property
    def operation(self) -> str:
        """The operation that must serve attention."""
        name: str = (decode_attention if self.kernels == BASELINE else prompt_attention).DESCRIPTOR.name
        return name


def parse(text: str) -> Setting:
    """The setting of a text such as `q4_0/tensor`. Raises StrataError."""
    kv, _, kernels = text.partition("/")
    return Setting(kv, kernels)


#: Every setting, by format.
ALL = tuple(Setting(kv, kernels) for kv in MODES for kernels in KERNELS)
