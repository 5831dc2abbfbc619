"""What works on the repository is refused where the package is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.executors.base import StrataError
from validation.host.checkout import need_checkout


def test_an_installed_package_is_no_checkout(tmp_path: Path) -> None:
    with pytest.raises(StrataError, match=r"^ledger --accept works on a checkout .* is installed in"):
        need_checkout("ledger --accept", tmp_path)


def test_this_is_one() -> None:
    need_checkout("ledger --accept")
