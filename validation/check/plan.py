"""Which cases a profile plans for an author's kernel: every recipe, and the sizes at which kernels go wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from strata.executors.base import StrataError
from validation.check import raw
from validation.check.author import called
from validation.check.case import OwnCase, case_of
from validation.check.data import candidates, filled
from validation.check.load import Loaded
from validation.check.own_kernel import OwnKernel
from validation.check.recipes import RECIPES
from validation.check.refusal import refuse
from validation.check.sizes import Size, shape_of
from validation.core.random_streams import Stream
from validation.run.runner import Job

PROFILES = ("quick", "standard", "full")
#: The seed of all cases unless another is asked for.
SEED = 1
#: Elements of all arrays of a case at most: lanes run every thread in turn.
MOST_ELEMENTS = {"quick": 1 << 18, "standard": 1 << 20, "full": 1 << 24}
#: Elements of all arrays, and threads of all launches, of a case that makes one size as large as it may be: an index
#: too narrow and a loop with too few turns show there, and nowhere near a tile.
_LARGE_ELEMENTS, _LARGE_THREADS = 1 << 16, 1 << 16
#: The recipe of the cases that are about a size: its values tell every row and column from another.
_OF_SIZES = "signed_decades"
#: That of the cases in which threads have no element: what they bring in as zero is the largest value.
_OF_IDLE = "negative"
#: Up to so many elements a case runs in the checked build of lanes, which watches every access.
_CHECKED = 1 << 18


def usual(kernel: OwnKernel) -> list[str]:
    """The recipes of a kernel: all that say something of its inputs and that its author does not leave out. Who leaves
    out `not_finite` leaves out `infinities`."""
    return [
        name
        for name in RECIPES
        if name not in kernel.without
        and not (name == "infinities" and "not_finite" in kernel.without)
        and not (kernel.raw is not None and name in raw.LEFT_OUT)
        and (candidates(kernel, name) or not (RECIPES[name].needs_float or filled(kernel)))
    ]


def elements(loaded: Loaded, sizes: Mapping[str, int]) -> int:
    """Elements of all arrays of a case. Raises AuthorError for an axis that cannot be."""

    def count() -> int:
        total = 0
        kernel = loaded.kernel
        for array in (*kernel.inputs.values(), *kernel.outputs.values(), *kernel.workspaces.values()):
            product = 1
            for length in shape_of(array.axes, sizes):
                product *= length
            total += product
        return total

    return called(loaded.file, "the axes", count)


def independent_axes(loaded: Loaded) -> None:
    """Raises AuthorError when the length of an axis depends on an independent size in another way than being it: such
    an array could be neither permuted nor cut."""
    kernel = loaded.kernel
    base = {name: size.ragged() for name, size in kernel.sizes.items()}

    def look() -> None:
        for axis in kernel.apart:
            visited = [base | {axis: value} for value in kernel.sizes[axis].edges()]
            for name, array in (*kernel.inputs.items(), *kernel.outputs.items()):
                others = [tuple(shape_of([own for own in array.axes if own != axis], sizes)) for sizes in visited]
                if len(set(others)) > 1 or list(array.axes).count(axis) > 1:
                    raise refuse(f"the axes of {name}", array.axes, f"{axis!r} as one axis of its own, or none of it")

    called(loaded.file, "independent", look)


def _fitting(loaded: Loaded, wanted: Mapping[str, int], most: int) -> dict[str, int] | None:
    """The sizes, with those of no tile made smaller where the arrays would be too large; None when that is no help."""
    kernel, sizes = loaded.kernel, dict(wanted)
    for name in sorted(sizes, key=lambda name: bool(kernel.sizes[name].tiles)):
        if elements(loaded, sizes) <= most:
            return sizes
        sizes[name] = kernel.sizes[name].smallest
    return sizes if elements(loaded, sizes) <= most else None


def sizes_of(loaded: Loaded, profile: str) -> list[dict[str, int]]:
    """The sizes that a profile visits: ragged ones first, then the edges of each size with the others ragged, then the
    smallest of all, and each as large as a case may be with the others as small as may be; in the full profile the
    largest of each as well. Those that are too large are left out."""
    kernel, most = loaded.kernel, MOST_ELEMENTS[profile]
    ragged = {name: size.ragged() for name, size in kernel.sizes.items()}
    wanted = [ragged]
    for name, size in kernel.sizes.items():
        wanted += [ragged | {name: edge} for edge in (*size.edges(), *_blocks(loaded, ragged, size))]
    least = {name: size.smallest for name, size in kernel.sizes.items()}
    wanted += [least, *(_large(loaded, least, name) for name in kernel.sizes)]
    if profile == "full":
        wanted += [least | {name: size.largest} for name, size in kernel.sizes.items()]
    found: dict[tuple[tuple[str, int], ...], dict[str, int]] = {}
    for sizes in wanted:
        fits = _fitting(loaded, sizes, most)
        if fits is not None:
            found.setdefault(tuple(fits.items()), fits)
    if not found:
        raise StrataError(
            f"{kernel.name} has no sizes with at most {most} elements in all, expected smaller ones to be allowed"
        )
    return list(found.values())


def _blocks(loaded: Loaded, sizes: Mapping[str, int], size: Size) -> list[int]:
    """Both sides of the threads of a block, of every launch, and of twice as many, for a size without a tile: its
    author may not know that something changes there."""
    if size.tiles or loaded.kernel.raw is not None:
        return []
    blocks = {kernel.block for kernel, _ in loaded.launches(sizes)}
    wanted = [turns * block + step for block in sorted(blocks) for turns in (1, 2) for step in (0, 1)]
    return [value for value in dict.fromkeys(map(size.near, wanted)) if value in wanted]


def _large(loaded: Loaded, least: Mapping[str, int], name: str) -> dict[str, int]:
    """The smallest sizes, but for one that is about as large as a case may be."""
    size, value = loaded.kernel.sizes[name], loaded.kernel.sizes[name].largest
    while value > size.smallest and not _affordable(loaded, dict(least) | {name: value}):
        value = size.near(value // 2)
    return dict(least) | {name: value}


def _affordable(loaded: Loaded, sizes: Mapping[str, int]) -> bool:
    """Whether lanes run a case of these sizes in a moment."""
    if elements(loaded, sizes) > _LARGE_ELEMENTS:
        return False
    if loaded.kernel.raw is not None:
        return True
    threads = sum(kernel.block * math.prod(one.grid) for kernel, one in loaded.launches(sizes))
    return threads <= _LARGE_THREADS


def _idle(loaded: Loaded, profile: str) -> Iterator[dict[str, int]]:
    """Ragged sizes, but for one that is just below its smallest tile constant: a thread of a block has no element."""
    kernel = loaded.kernel
    for name, size in kernel.sizes.items():
        below = [edge for edge in size.edges() if edge < min(size.tiles, default=0)]
        if below:
            wanted = {other: own.ragged() for other, own in kernel.sizes.items()} | {name: below[-1]}
            fits = _fitting(loaded, wanted, MOST_ELEMENTS[profile])
            if fits is not None:
                yield fits


def cases(loaded: Loaded, profile: str, seed: int) -> list[OwnCase]:
    """The cases of a profile, none twice.

    Parameters
    ----------
    loaded : Loaded
        The kernel.
    profile : str
        ``quick``: every recipe at ragged sizes, once for each input that it can be about, every size's edges, and
        sizes just below a tile constant with values below zero.
        ``standard``: every recipe at four more sizes, and the edges with more data. ``full``: every recipe at every
        size, and the largest sizes.
    seed : int
        Of the data.

    Raises
    ------
    StrataError
        For a profile that is none, and for a kernel without a size that fits.
    """
    if profile not in PROFILES:
        raise refuse("the profile", profile, f"one of {', '.join(PROFILES)}")
    independent_axes(loaded)
    return list(dict.fromkeys(_cases(loaded, profile, seed)))


def _cases(loaded: Loaded, profile: str, seed: int) -> Iterator[OwnCase]:
    kernel = loaded.kernel
    visited, names = sizes_of(loaded, profile), usual(kernel)
    if not names:
        raise StrataError(f"{kernel.name} leaves every recipe out, expected at least one to be left")
    about_sizes = _OF_SIZES if _OF_SIZES in names else names[0]
    # The first case is the one that most faults fall to.
    for name in sorted(names, key=lambda name: name != about_sizes):
        for turn in range(max(1, len(candidates(kernel, name))) if RECIPES[name].targets else 1):
            yield case_of(kernel, name, seed + turn, visited[0])
    for sizes in visited[1:]:
        yield case_of(kernel, about_sizes, seed, sizes)
    if _OF_IDLE in names:
        for sizes in _idle(loaded, profile):
            yield case_of(kernel, _OF_IDLE, seed, sizes)
    if profile == "quick":
        return
    for index, name in enumerate(names):
        step = len(visited) if profile == "full" else 4
        for offset in range(step):
            sizes = visited[(index + offset * max(1, len(visited) // step)) % len(visited)]
            yield case_of(kernel, name, seed + 1 + offset, sizes)
    for sizes in visited:
        yield case_of(kernel, about_sizes, seed + 1, sizes)


def random_cases(loaded: Loaded, count: int, seed: int) -> list[OwnCase]:
    """Cases of random recipes, sizes and seeds, for what the edges of no profile meet.

    Parameters
    ----------
    loaded : Loaded
        The kernel.
    count, seed : int
        How many cases, and where they begin: a seed gives the same ones everywhere.

    Raises
    ------
    StrataError
        For a kernel without a size that fits.
    """
    kernel, names = loaded.kernel, usual(loaded.kernel)
    if not names:
        raise StrataError(f"{kernel.name} leaves every recipe out, expected at least one to be left")
    sizes_of(loaded, "quick")  # refuses what has no size that fits
    made: list[OwnCase] = []
    index = 0
    while len(made) < count:
        stream = Stream.of(seed, "random case", index)
        index += 1
        fits = _random_sizes(loaded, stream)
        if fits is not None:
            name = names[int(stream.child("recipe").below(len(names), 1)[0])]
            made.append(case_of(kernel, name, int(stream.child("seed").below(1 << 31, 1)[0]), fits))
    return made


def random_case(loaded: Loaded, recipe: str, words: Sequence[int]) -> OwnCase:
    """The case of a recipe that random words choose, the first of them its seed. Raises StrataError for a kernel
    without a size that fits."""
    fits = _random_sizes(loaded, Stream.of(words[0], "random words", *words[1:]))
    return case_of(loaded.kernel, recipe, words[0], fits or sizes_of(loaded, "quick")[0])


def _random_sizes(loaded: Loaded, stream: Stream) -> dict[str, int] | None:
    """Random sizes that fit the quick profile, None where those that were drawn do not."""
    sizes = {name: _random_size(size, stream.child(name)) for name, size in loaded.kernel.sizes.items()}
    return _fitting(loaded, sizes, MOST_ELEMENTS["quick"])


def _random_size(size: Size, stream: Stream) -> int:
    """An allowed size: of every length of its binary digits one as likely as another, up to a moderate one."""
    shortest = size.smallest.bit_length()
    longest = min(size.largest, max(size.smallest, 4 * max(size.edges()))).bit_length()
    bits = shortest + int(stream.child("length").below(longest - shortest + 1, 1)[0])
    return size.near((1 << (bits - 1)) + int(stream.below(1 << min(bits - 1, 31), 1)[0]))


def small(loaded: Loaded, case: OwnCase) -> bool:
    """Whether lanes run a case in the checked build, which watches every access."""
    return elements(loaded, case.by_name) <= _CHECKED


def jobs(loaded: Loaded, planned: Sequence[OwnCase], profile: str | None) -> list[Job]:
    """How lanes run planned cases: small ones in the checked build, every second one under another schedule; the first
    one in the fast build besides, and outside of the quick profile with the compiler's sanitizers."""
    made = []
    for index, case in enumerate(planned):
        flavor = "checked" if small(loaded, case) else "fast"
        made.append(Job(case, loaded.path, flavor, index if index % 2 else None))
    if profile is not None and made:
        made.insert(1, Job(planned[0], loaded.path, "fast", 1))
        if profile != "quick":
            made.append(Job(planned[0], loaded.path, "sanitize"))
    return made
