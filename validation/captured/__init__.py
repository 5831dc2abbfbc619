"""Recipe `captured`: q, K and V of a real model, as data that no generator here would draw.

Gemma 3 270M (extra `model`) runs as a plain NumPy FP32 forward pass over text that ships with Python. What
chosen layers hand to their attention is written to one file, made on one machine and used on another:
`capture.capture` makes it, `archive.load` reads it. The model is never redistributed and nothing derived
from it is committed.
"""
