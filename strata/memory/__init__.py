"""Device memory that can be lent and reclaimed, in five storeys: driver, arena, cache, loan, plan.

A storey imports those before it in this list and none behind it. Importing any module of this package needs NumPy only;
`driver.real` asks for CuPy and cuda-bindings when it is opened.
"""
