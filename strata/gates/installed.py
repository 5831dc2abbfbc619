"""The gate of this installation: its kernels as they lie on disk, and the records it has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path as FilePath

from strata.device import Device
from strata.executors.base import KERNELS, StrataError
from strata.gates.gate import Decision, command, decide
from strata.gates.policy import POLICY, Policy
from strata.gates.records import ACCEPTED, load
from strata.gates.sources import Sources, of_path
from strata.kernels.path import Path


class InstalledGate:
    """The gate of this installation: called with a path and a device, it decides.

    Records are read once, when it is made, and the sources of a path once, when the path is first asked for. Its
    attribute `store` holds the records, and a line for each file that is none.

    Parameters
    ----------
    environ
        The variables that the directory of this machine's records is read from.
    accepted
        The directory of the records that everybody has.
    kernels
        The directory of the kernels' sources.
    policy
        What is asked of a record.
    """

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        accepted: FilePath = ACCEPTED,
        kernels: FilePath = KERNELS,
        policy: Policy = POLICY,
    ) -> None:
        self.store = load(environ, accepted)
        self._kernels = kernels
        self._policy = policy
        self._sources: dict[str, Sources | StrataError] = {}
        self._included: dict[str, list[str]] = {}

    def __call__(self, path: Path, device: Device) -> Decision:
        """The decision for a path; locked when nobody can say what the path is made of."""
        sources = self._sources.get(path.name)
        if sources is None:
            try:
                sources = of_path(path, self._kernels, self._included)
            except StrataError as error:
                sources = error
            self._sources[path.name] = sources
        if isinstance(sources, StrataError):
            return Decision(False, f"locked: {sources}", f"install the package again, then `{command(path)}`")
        return decide(path, device, sources, self.store.records, self._policy)
