"""The top of block selection alone, of scores that are given."""
