"""Recipe `captured`: q, K and V of a real model, as data that no generator here would draw.

Gemma 3 270M (extra `model`) runs as a plain NumPy FP32 forward pass over text that ships with Python.
What chosen layers hand to their attention is written to one file, made on one machine and used on another.
The model is never redistributed and nothing derived from it is committed.
"""

from __future__ import annotations

from validation.captured.archive import Capture, CaptureError, LayerCapture, Metadata, load
from validation.captured.capture import DEFAULT_LAYERS, DEFAULT_TOKENS, capture
from validation.captured.gguf_model import ModelError, find_model

__all__ = [
    "DEFAULT_LAYERS",
    "DEFAULT_TOKENS",
    "Capture",
    "CaptureError",
    "LayerCapture",
    "Metadata",
    "ModelError",
    "capture",
    "find_model",
    "load",
]
