"""The weights of a model in the memory of an executor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from strata.engine.gemma3 import Gemma3, Layer
from strata.engine.gguf_file import Tensor
from strata.executors.base import Buffer, Executor
from strata.kernels.embedding import upload
from strata.kernels.linear_weights import Weights


@dataclass(frozen=True)
class LayerWeights:
    """One layer: matrices, and float32 vectors of norms, by the names that `gemma3.Layer` has."""

    attn_norm: Buffer
    attn_q: Weights
    attn_k: Weights
    attn_v: Weights
    attn_q_norm: Buffer
    attn_k_norm: Buffer
    attn_output: Weights
    post_attention_norm: Buffer
    ffn_norm: Buffer
    ffn_gate: Weights
    ffn_up: Weights
    ffn_down: Weights
    post_ffw_norm: Buffer


@dataclass(frozen=True)
class ModelWeights:
    """All weights.

    Parameters
    ----------
    token_embd, output
        The embedding and the output matrix, which may be one.
    output_norm
        float32 [n_embd].
    layers
        The layers, in order.
    nbytes
        Bytes of them on the device.
    """

    token_embd: Weights
    output: Weights
    output_norm: Buffer
    layers: tuple[LayerWeights, ...]
    nbytes: int


def formats(model: Gemma3) -> set[str]:
    """The formats of the matrices that are multiplied: all but that of the embedding, unless it is the output too."""
    roles = (one for layer in model.layers for one in vars(layer).values())
    return {one.format for one in (*roles, model.output) if len(one.shape) == 2}


def to_executor(executor: Executor, model: Gemma3) -> ModelWeights:
    """Copy the weights of a model to an executor, each once.

    Parameters
    ----------
    executor
        Where the buffers are made.
    model
        The model, whose tensors have been checked.
    """
    nbytes = 0

    def matrix(tensor: Tensor) -> Weights:
        nonlocal nbytes
        made = upload(executor, tensor.format, tensor.blocks, tensor.shape[1])
        nbytes += made.blocks.nbytes
        return made

    def vector(tensor: Tensor) -> Buffer:
        nonlocal nbytes
        made = executor.array(tensor.floats().astype(np.float32), tensor.name)
        nbytes += made.nbytes
        return made

    token_embd = matrix(model.token_embd)
    output = token_embd if model.tied else matrix(model.output)
    layers = tuple(_layer(layer, matrix, vector) for layer in model.layers)
    return ModelWeights(token_embd, output, vector(model.output_norm), layers, nbytes)


def _layer(layer: Layer, matrix: Callable[[Tensor], Weights], vector: Callable[[Tensor], Buffer]) -> LayerWeights:
    return LayerWeights(
        attn_norm=vector(layer.attn_norm),
        attn_q=matrix(layer.attn_q),
        attn_k=matrix(layer.attn_k),
        attn_v=matrix(layer.attn_v),
        attn_q_norm=vector(layer.attn_q_norm),
        attn_k_norm=vector(layer.attn_k_norm),
        attn_output=matrix(layer.attn_output),
        post_attention_norm=vector(layer.post_attention_norm),
        ffn_norm=vector(layer.ffn_norm),
        ffn_gate=matrix(layer.ffn_gate),
        ffn_up=matrix(layer.ffn_up),
        ffn_down=matrix(layer.ffn_down),
        post_ffw_norm=vector(layer.post_ffw_norm),
    )
