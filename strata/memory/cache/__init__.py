"""The expert cache: slots in an arena, which expert is in which, and how bytes get there and are verified."""
