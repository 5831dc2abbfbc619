"""Prompt and decode attention over a paged pool: data, reference, bounds, relations and the run of a case."""
