"""The largest errors that an operation's arithmetic allows, one file an operation. Formulas, never tuned."""
