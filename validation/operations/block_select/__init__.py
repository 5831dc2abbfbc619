"""Block selection: scores of blocks of keys, and the exact top of them."""
