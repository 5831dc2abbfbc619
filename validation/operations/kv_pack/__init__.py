"""Packing of keys and values into a pool."""
