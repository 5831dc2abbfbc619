"""Check a kernel of your own: what an author writes, and what he gets.

An author's file defines an `OwnKernel`; `python -m validation check FILE` runs it. Everything here is a small frozen
object that refuses nonsense when it is made, with one line that names the value and what was expected.
"""

from __future__ import annotations

from validation.check.arrays import Drawn, Output, Values, Workspace
from validation.check.own_kernel import Launch, OwnKernel
from validation.check.roundings import Roundings, TensorCore
from validation.check.sizes import Size
from validation.core.random_streams import Stream

__all__ = ["Drawn", "Launch", "Output", "OwnKernel", "Roundings", "Size", "Stream", "TensorCore", "Values", "Workspace"]
