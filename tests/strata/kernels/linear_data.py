"""Inputs of dense products, and what must come of them by the model of the validation."""

from __future__ import annotations

import numpy as np

from strata.executors.lanes import LanesExecutor
from strata.formats import FORMATS
from strata.kernels import linear, linear_dp4a
from strata.kernels.linear_products import Multiplied
from strata.kernels.paths import PATHS
from validation.core.random_streams import Stream
from validation.operations.linear import model, units
from validation.operations.linear.blocks import matrix

#: Tiers by the operation that has them.
TIERS = {"simt": linear_dp4a, "sm75": linear, "sm80": linear}


def drawn(mode: str, seed: int, rows: int, outputs: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """A matrix over decades of both signs, uint8 [outputs, row bytes], and float32 rows [rows, width]."""
    stream = Stream.of(seed, "linear", mode)
    sizes = np.repeat(stream.child("sizes").below(24, (rows, width // 32)) - 12, 32, axis=1)
    x = np.ldexp(stream.child("rows").normals((rows, width)), sizes)
    return matrix(stream, "decades", mode, outputs, width), x


def run(executor: LanesExecutor, mode: str, tier: str, blocks: np.ndarray, x: np.ndarray) -> Multiplied:
    """The product on an executor."""
    module = TIERS[tier]
    got: Multiplied = module.run(executor, PATHS[f"{module.DESCRIPTOR.name}/{mode}/{tier}"], blocks, x)
    return got


def assert_product(executor: LanesExecutor, mode: str, tier: str, blocks: np.ndarray, x: np.ndarray) -> Multiplied:
    """Every bit of a product and of its codes is the model's."""
    got, due = run(executor, mode, tier, blocks, x), model.bits(mode, blocks, x)
    assert got.guards_ok
    assert due.codes is not None
    assert np.array_equal(got.units, units.packed(due.codes))
    assert got.lost == due.codes.lost
    assert np.array_equal(got.out.view(np.uint32), due.out.view(np.uint32))
    return got


def blocks_of(mode: str, blocks: np.ndarray, width: int) -> np.ndarray:
    """uint8 [outputs, row bytes]: blocks side by side, the first ones again where the last row is short."""
    each = width // FORMATS[mode].values
    return np.resize(blocks, (-(-len(blocks) // each) * each, blocks.shape[1])).reshape(-1, each * blocks.shape[1])
