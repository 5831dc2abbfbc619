"""Parity records: what a run claims, in a form that anyone can check without the card.

`canonical` reads and writes the bytes, `merkle` and `challenge` bind outputs to them, `make` builds a record from a
run, and `verify` checks one. What each field means stands in docs/record.md; its shape in
strata/gates/record.schema.json.
"""
