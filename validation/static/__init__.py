"""What compiled kernels use: registers, shared memory, spills and instructions."""
