"""Strata: kernels for the prompt side of a mixture-of-experts language model on one NVIDIA card.

Importing this package needs NumPy only: no GPU, no CuPy, no compiler.
"""

__version__ = "0.1.0"
