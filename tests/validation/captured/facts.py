"""What the captures of tests say of themselves."""

from __future__ import annotations

from validation.captured.archive import FORMAT, Metadata

METADATA = Metadata(
    format=FORMAT,
    model_sha256="0" * 64,
    text_source="a text",
    text_sha256="1" * 64,
    tokens=3,
    layers=(0, 5),
    n_head=4,
    n_head_kv=1,
    head_dim=8,
    rope_included=True,
    loss=2.5,
    loss_limit=5.0,
    numpy="2",
    python="3",
)
