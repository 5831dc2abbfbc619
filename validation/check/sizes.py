"""How large the axes of the author's arrays may be, and the sizes at which a kernel is likely to be wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from validation.check.refusal import refuse, whole

#: Sizes by the author's own names.
Sizes = Mapping[str, int]
#: One axis of a shape: the name of a size, a number, or a function of the sizes.
Axis = str | int | Callable[[Sizes], int]
#: The largest size of an axis: indices of 32 bits are the author's business.
MOST = 1 << 40
#: How far to look for the next prime.
_REACH = 400


def _prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


@dataclass(frozen=True)
class Size:
    """The values that one size of the kernel may take.

    Parameters
    ----------
    least, most : int
        The range the kernel is written for, both ends included.
    tile : int or sequence of int
        Constants of the kernel at whose multiples something changes: threads of a block, elements of a vector, rows of
        a tile. The recipes visit ``t - 1``, ``t``, ``t + 1``, ``2 t`` and ``2 t + 1``
        of each.
    multiple : int
        The size is always a multiple of this, such as the block of a block format.

    Raises
    ------
    StrataError
        For a range without a member, and for anything that is no whole number.
    """

    least: int
    most: int
    tile: int | Sequence[int] = ()
    multiple: int = 1

    def __post_init__(self) -> None:
        whole("Size.least", self.least, 1, MOST)
        whole("Size.most", self.most, 1, MOST)
        whole("Size.multiple", self.multiple, 1, MOST)
        tiles = (self.tile,) if isinstance(self.tile, int) else self.tile
        if isinstance(tiles, str) or not isinstance(tiles, Sequence):
            raise refuse("Size.tile", self.tile, "a whole number, or several")
        object.__setattr__(self, "tile", tuple(whole("Size.tile", tile, 1, MOST) for tile in tiles))
        if self.smallest > self.largest:
            within = f"a multiple of {self.multiple} from {self.least} to {self.most}"
            raise refuse("Size", (self.least, self.most), f"a range that holds {within}")

    @property
    def tiles(self) -> tuple[int, ...]:
        """The tile constants, as many as there are."""
        assert isinstance(self.tile, tuple)
        return self.tile

    @property
    def smallest(self) -> int:
        """The smallest size that may occur."""
        return -(-self.least // self.multiple) * self.multiple

    @property
    def largest(self) -> int:
        """The largest size that may occur."""
        return self.most // self.multiple * self.multiple

    def allows(self, value: int) -> bool:
        """Whether the kernel is written for this size."""
        return self.least <= value <= self.most and value % self.multiple == 0

    def near(self, value: int) -> int:
        """The allowed size nearest to a number, of two the smaller one."""
        down = value // self.multiple * self.multiple
        near = down if value - down <= self.multiple - (value - down) else down + self.multiple
        return min(max(near, self.smallest), self.largest)

    def edges(self) -> tuple[int, ...]:
        """Sizes at which an index, a mask or a loop is likely to be wrong, in rising order.

        Returns
        -------
        tuple of int
            The smallest size and the next ones, ``t - 1``, ``t``, ``t + 1``, ``2 t``, ``2 t + 1`` of every tile
            constant, and a prime or two; all allowed, none twice. With a `multiple`, the same in steps of it.
        """
        step = self.multiple
        wanted = [self.smallest, self.smallest + step, *(step * prime for prime in (3, 7))]
        for tile in self.tiles:
            wanted += [tile - step, tile, tile + step, 2 * tile, 2 * tile + step]
        if not self.tiles:
            wanted += [step * number for number in (31, 32, 33)]
        wanted.append(self.ragged())
        return tuple(sorted({value for value in wanted if self.allows(value)} | {self.smallest}))

    def ragged(self) -> int:
        """A size of moderate length that is a multiple of nothing: past the second tile of the largest constant."""
        base = max((2 * tile // self.multiple + 1 for tile in self.tiles), default=5)
        prime = next((number for number in range(base, base + _REACH) if _prime(number)), base)
        return self.near(prime * self.multiple)


def resolved(axis: Axis, sizes: Sizes) -> int:
    """The length of one axis. sizes: every size by name. Raises StrataError for one that is no whole number of at
    least 1."""
    value = sizes[axis] if isinstance(axis, str) else axis(sizes) if callable(axis) else axis
    return whole("the length of an axis", value, 1, MOST)


def shape_of(axes: Sequence[Axis], sizes: Sizes) -> tuple[int, ...]:
    """The shape of an array with these axes. Raises StrataError as `resolved` does."""
    return tuple(resolved(axis, sizes) for axis in axes)
