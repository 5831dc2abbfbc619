"""The machine that the harness runs on: files written whole, JSON, worker processes, the terminal, threads of BLAS."""
