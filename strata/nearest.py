"""The known name that somebody may have meant by an unknown one, when one is near enough to be that.

Near is a slip of the fingers: letters that are wrong, missing, too many or swapped, one in four of the name at most,
and never more than three. Any list has a name that is nearest; one that is not near is no help and is not said.
"""

from __future__ import annotations

from collections.abc import Iterable

#: Slips of a long name at most.
MOST = 3
#: Letters of a name that are looked at: the work grows with their square.
_LONGEST = 100


def slips(one: str, other: str) -> int:
    """How many letters are wrong, missing, too many or swapped with their neighbour between two names.

    Parameters
    ----------
    one, other
        The names. Upper and lower case differ.

    Returns
    -------
    int
        The optimal string alignment distance: a letter takes part in one swap at most.

    References
    ----------
    F. J. Damerau, "A Technique for Computer Detection and Correction of Spelling Errors", Communications of the ACM 7
    (3), 1964.
    """
    before, row = [0] * (len(other) + 1), list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        earlier, before, row = before, row, [i]
        for j, wanted in enumerate(other, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and (letter, one[i - 2]) == (other[j - 2], wanted):
                best = min(best, earlier[j - 2] + 1)
            row.append(best)
    return row[-1]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is nearest to an unknown one, whatever the case of their letters.

    Parameters
    ----------
    name
        The unknown name.
    known
        The known names; of those equally near the first is taken.

    Returns
    -------
    str or None
        None when none is near.
    """
    most = min(MOST, max(1, len(name) // 4))
    if len(name) > _LONGEST:
        return None
    near = [
        (count, other)
        for other in known
        if abs(len(other) - len(name)) <= most and (count := slips(name.lower(), other.lower())) <= most
    ]
    return min(near, key=lambda found: found[0])[1] if near else None


def hint(name: str, known: Iterable[str], listing: str) -> str:
    """The end of a refusal of an unknown name: the known name that is near, if one is, and where all of them are.

    Parameters
    ----------
    name
        The unknown name.
    known
        The known names.
    listing
        Words on where all known names are.
    """
    near = nearest(name, known)
    return listing if near is None else f"the nearest is {near!r} ({listing})"
