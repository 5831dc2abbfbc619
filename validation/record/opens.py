"""What the gate would make of a record, were it accepted."""

from __future__ import annotations

from dataclasses import dataclass

from strata.device import named
from strata.gates import evidence, gate
from strata.gates.policy import POLICY, Policy
from strata.gates.record import of_value
from strata.gates.sources import of_path
from validation.record.rules.subject import Subject


@dataclass(frozen=True)
class Opens:
    """What the gate makes of a path.

    Parameters
    ----------
    path
        The path's name.
    kind
        attested, surrogate or simulated.
    opens
        Whether the record opens it on the devices that it is for.
    reason
        One line of the gate.
    """

    path: str
    kind: str
    opens: bool
    reason: str


def opens(name: str, subject: Subject, policy: Policy = POLICY) -> list[Opens]:
    """What the gate makes of each path of a record.

    It is asked for the device that made the record where the path serves it, else for the oldest one that it serves.

    Parameters
    ----------
    name
        The name of the record.
    subject
        The record.
    policy
        What is asked of a record.

    Raises
    ------
    RecordProblem
        When the gate cannot read it.
    """
    record = of_value(dict(subject.record), name, local=False)
    found = []
    included: dict[str, list[str]] = {}  # by a kernel's file: paths of an operation share theirs
    for path in subject.paths:
        lowest, highest = policy.rules[path.tier].serves
        made = subject.capability
        device = named(made if made is not None and lowest <= made <= highest else lowest)
        kind, _ = evidence.kind(record, path)
        decision = gate.decide(path, device, of_path(path, known=included), [record], policy)
        found.append(Opens(path.name, kind.value, decision.open, decision.reason))
    return found
