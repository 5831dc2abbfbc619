"""Kernels: one operation is one .cu and one .py of the same name."""
