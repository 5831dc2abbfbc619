"""The laws of the engine, shown on a model's file: the bits of an answer do not depend on how the work was cut."""
