"""Dense products of rows with a matrix of blocks, or of halves."""
