"""Arithmetic that belongs to no operation: tensor-core rules, fused products, exp2, units in the last place, blocks."""
