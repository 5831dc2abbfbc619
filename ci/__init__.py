"""What CI and maintainers run; used from a checkout, never installed."""
