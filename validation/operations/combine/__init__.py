"""Combining the rows of experts into tokens."""
