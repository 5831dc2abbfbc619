"""What every operation shares and none is named in: verdicts, findings, settings, random streams, copies."""
