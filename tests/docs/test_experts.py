"""The example of docs/experts.md that needs no card runs."""

from __future__ import annotations

import re
from pathlib import Path

DOCUMENT = (Path(__file__).parents[2] / "docs" / "experts.md").read_text(encoding="utf-8")


def test_the_example_of_one_layer_runs() -> None:
    first, _ = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(first, "docs/experts.md", "exec"), names)  # its own assertions are the test
    assert names["routed"] is not names["large"]
