"""Block formats of weights: sizes, decoders and codebooks, as ggml defines them."""

from strata.formats.blocks import FORMATS, BlockFormat, block_format
from strata.formats.codebooks import codebook, device_table, table_digest

__all__ = ["FORMATS", "BlockFormat", "block_format", "codebook", "device_table", "table_digest"]
