"""The machine that the harness runs on: files written whole, JSON, worker processes, threads of BLAS."""
