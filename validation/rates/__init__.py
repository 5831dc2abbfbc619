"""Tokens a second of the engine on a card: fresh processes, settings in turn."""
