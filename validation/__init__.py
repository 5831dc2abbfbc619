"""What proves Strata's kernels: hard data, FP64 references, bounds, verdicts and their report.

Used from a checkout (`python -m validation`); `strata` never imports it.
"""
