"""Random configurations compared bit for bit."""
