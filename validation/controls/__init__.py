"""The harness proves itself: wrong numbers, wrong kernels, soft data and unfinished runs that it must refuse.

Asked at the start of every parity run, before the first case and without compiling anything. A wrong answer voids
the run, whatever its cases come to.
"""
