"""How much of their bounds the kernels use, and whether that moved."""
