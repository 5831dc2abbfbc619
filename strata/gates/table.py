"""What the gate and dispatch say of every gated path on some devices: as lines to read, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from strata.device import Device
from strata.dispatch import Served, serve
from strata.gates.gate import Decision
from strata.gates.installed import InstalledGate
from strata.kernels.paths import PATHS
from strata.switches import Switches


@dataclass(frozen=True)
class Row:
    """One path on one device: what the gate says of it, and what serves its operation and mode there."""

    path: str
    decision: Decision
    served: Served

    @property
    def remark(self) -> str:
        """What keeps the path from serving besides the gate (a switch, the compiler, the device); "" for nothing."""
        others = self.served.instead_of == self.path and self.served.cause != "gate"
        return self.served.reason if others or self.served.path is None else ""


@dataclass(frozen=True)
class Table:
    """rows: by device, in the order of the table of paths; accepted, local: how many records there are of each;
    problems: lines about switches and about files that are no records."""

    devices: tuple[tuple[Device, tuple[Row, ...]], ...]
    switches: Switches
    accepted: int
    local: int
    problems: tuple[str, ...]

    @staticmethod
    def of(devices: Sequence[Device], switches: Switches, gate: InstalledGate) -> Table:
        """The table of some devices."""
        gated = [path for path in PATHS.values() if path.baseline is not None]
        local = sum(record.local for record in gate.store.records)
        return Table(
            tuple(
                (
                    device,
                    tuple(
                        Row(path.name, gate(path, device), serve(path.operation, path.mode, device, switches, gate))
                        for path in gated
                    ),
                )
                for device in devices
            ),
            switches,
            len(gate.store.records) - local,
            local,
            (*switches.problems, *gate.store.problems),
        )

    def text(self) -> str:
        """For people: a block for each device, three or four lines for each path."""
        lines = [f"records: {self.accepted} accepted, {self.local} of this machine"]
        lines += [f"switch: {name}={value}" for name, value in self.switches.values.items()]
        lines += [f"problem: {problem}" for problem in self.problems]
        for device, rows in self.devices:
            lines += ["", device.title]
            width = max(len(row.path) for row in rows)
            for row in rows:
                state = "open" if row.decision.open else "locked"
                lines.append(f"  {row.path:<{width}}  {state:<6}  served by {row.served.path or 'nothing'}")
                lines.append(f"    why: {row.decision.reason.partition(': ')[2]}")
                if row.decision.way:
                    lines.append(f"    way: {row.decision.way}")
                if row.remark:
                    lines.append(f"    but: {row.remark}")
        return "\n".join(lines)

    def json(self) -> str:
        """For programs: one object, indented."""
        value = {
            "records": {"accepted": self.accepted, "local": self.local},
            "switches": dict(self.switches.values),
            "problems": list(self.problems),
            "devices": [
                {
                    "name": device.name,
                    "capability": None if device.capability is None else device.dotted,
                    "paths": [{"path": row.path, **asdict(row.decision), "served": asdict(row.served)} for row in rows],
                }
                for device, rows in self.devices
            ],
        }
        return json.dumps(value, indent=1)
