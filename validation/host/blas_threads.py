"""Keeps NumPy's linear algebra to one thread; import it before NumPy.

The reference multiplies small matrices. With more threads OpenBLAS spins for partners that the
compiler and the lanes keep busy, and a product takes twenty times as long. A variable that the
user has set stays as it is.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ.setdefault(_name, "1")
