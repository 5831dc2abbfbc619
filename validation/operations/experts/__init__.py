"""Cases of the expert operations: how their data is made, and what a path is asked on them.

An expert's blob holds `[gate ff rows | up ff rows | down n rows]` of blocks; a token names `top` of `experts`
experts; each (token, rank) pair gives one row of `n` values.
"""
