"""Embeddings of tokens."""
