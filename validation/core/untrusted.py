"""Text of somebody else's file in a line of ours."""

from __future__ import annotations


def short(text: object, most: int = 90) -> str:
    """Untrusted text for a line: printable ASCII (the reader of records refuses the rest), cut."""
    said = str(text)
    return said if len(said) <= most else said[:most] + "..."
