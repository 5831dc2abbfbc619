"""One folder for each operation, with what it offers under the same names; `registry` finds them."""
