"""The stand-ins under the name that tests import them by; they live in validation/controls."""

from validation.controls.stand_in import (
    DIGEST,
    Fault,
    StubCard,
    StubExecutor,
    StubOutcome,
    attention,
    healthy,
    kernel,
    witness,
)

__all__ = ["DIGEST", "Fault", "StubCard", "StubExecutor", "StubOutcome", "attention", "healthy", "kernel", "witness"]
