"""Kernels on a card: NVRTC compiles them with pinned flags, CuPy loads and launches them.

Importing this package needs neither CuPy nor a driver; opening a `CudaExecutor` does.
"""

from strata.executors.cuda.device import CudaExecutor

__all__ = ["CudaExecutor"]
