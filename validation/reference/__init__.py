"""FP64 and integer references, one file an operation, written from the mathematics."""
