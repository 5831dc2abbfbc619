"""Faults as small named changes of the sources, which the quick run must refuse.

A verdict is worth what it refuses. Each mutant is applied to a copy of the sources, built, and given to quick
cases on lanes, in a process that imports nothing but the copy. It is killed when a case does not pass; a mutant
that does not apply, does not compile or was not what ran is an error, never a kill.

`python -m validation.mutants [NAME ...]` prints which check killed which.
"""
