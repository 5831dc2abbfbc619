"""The parity command."""
