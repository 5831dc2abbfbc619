"""What a run leaves behind: progress lines, a table for a person, `run.json` for a program."""
