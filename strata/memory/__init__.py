"""Device memory that can be lent and reclaimed: driver, arena, expert cache, loans, phases, planner.

Importing any module of this package needs NumPy only; `real` asks for CuPy and cuda-bindings when it is opened.
"""
