"""Faults as small named changes of the sources, which the project's own verdicts must refuse.

A verdict is worth what it refuses. Each mutant is applied to a copy of the sources, built, and given to the
controls and quick cases on lanes, or to named tests, in a process that imports nothing but the copy. It is killed
when a control, a case or a test does not pass; a mutant that does not apply, does not compile, crashes its judge
or was not what ran is an error, never a kill. Beside the verdict stands what two usual checks say of the same
mutant: NMSE <= 5e-4 and allclose(1e-2) on data uniform in [-1, 1].

`python -m validation.mutants [NAME ...]` prints the kill matrix. A mutant is one entry of a module in `faults/`, or
a module of its own there; nothing else has to be touched.
"""
