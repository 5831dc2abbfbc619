"""Sizes."""
SIZES = None
