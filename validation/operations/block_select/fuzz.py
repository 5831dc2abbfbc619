"""Fuzzed block selection: random configurations, each run twice, and every bit compared with the model."""
KIND = None
