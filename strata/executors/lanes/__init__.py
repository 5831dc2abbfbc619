"""Lanes: the CUDA sources of the engine executed on a CPU, thread by thread, bit for bit."""

from __future__ import annotations

from strata.executors.lanes.executor import FLAVORS, LanesExecutor
from strata.executors.lanes.rules import RULES, Rule, parse_rule

__all__ = ["FLAVORS", "RULES", "LanesExecutor", "Rule", "parse_rule"]
