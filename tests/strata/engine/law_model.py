"""The smallest model that shows the laws of the engine: two layers, one with a window of 5 cells, widths of 32."""

from __future__ import annotations

from pathlib import Path

from tests.strata.engine import tiny_gemma

WIDTH, LAYERS, WINDOW, CONTEXT = 32, 2, 5, 96
_KEYS = {
    "gemma3.embedding_length": WIDTH,
    "gemma3.feed_forward_length": WIDTH,
    "gemma3.attention.sliding_window": WINDOW,
    "gemma3.context_length": CONTEXT,
}
#: One format but for the output, so that little is compiled.
_FORMATS = dict.fromkeys(("attn_q", "attn_k", "attn_output", "ffn_gate", "ffn_up"), "q8_0")


#: Roles of matrices.
_MATRICES = (*_FORMATS, "attn_v", "ffn_down", "token_embd")


def write(
    path: Path,
    layers: int = LAYERS,
    period: int = tiny_gemma.PERIOD,
    softcap: float | None = None,
    halves: bool = False,
    untied: bool = False,
) -> Path:
    """Write the model. Every layer is global whose number, counted from 1, is a multiple of the period.

    halves: whether the matrices are f16; untied: whether the output is a matrix of its own.
    """
    own = {tiny_gemma.WIDTH: WIDTH, tiny_gemma.FEED_FORWARD: WIDTH}
    heads = tiny_gemma.HEADS * tiny_gemma.HEAD_DIM
    shapes = {name: tuple(own.get(n, n) for n in shape) for name, shape in tiny_gemma.shapes(layers).items()}
    for layer in range(layers):  # widths of 256 that are no model width
        for role, shape in {
            "attn_q": (heads, WIDTH),
            "attn_k": (tiny_gemma.HEAD_DIM, WIDTH),
            "attn_v": (tiny_gemma.HEAD_DIM, WIDTH),
            "attn_q_norm": (tiny_gemma.HEAD_DIM,),
            "attn_k_norm": (tiny_gemma.HEAD_DIM,),
            "attn_output": (WIDTH, heads),
        }.items():
            shapes[f"blk.{layer}.{role}"] = shape
    keys = _KEYS | {"gemma3.block_count": layers, "gemma3.attention.sliding_window_pattern": period}
    cap = {} if softcap is None else {"gemma3.final_logit_softcapping": softcap}
    if untied:
        shapes["output"] = shapes["token_embd"]
    formats = dict.fromkeys(_MATRICES, "f16") if halves else _FORMATS
    return tiny_gemma.write(path, keys=keys | cap, formats=formats, replaced=shapes)
