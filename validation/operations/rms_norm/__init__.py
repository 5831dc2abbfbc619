"""RMSNorm of rows, with or without a residual behind it."""
