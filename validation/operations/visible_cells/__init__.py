"""Which cells the queries of a chunk see."""
