"""The embedded engine: a model whose every bit is known; `strata.engine.engine.Engine` is its door."""
