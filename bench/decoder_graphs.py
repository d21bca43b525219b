"""The decoders of onnxruntime_decoder.py: layers of models with random weights, as graphs.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from attention_graphs import Graph
from onnx import helper
from sides import aligned

LAYERS = 2
MODELS = Path(__file__).parent.parent / "configs" / "models"
# Widths of the feed-forward layers, as published: the configs in this tree do not have them.
INNER = {
    "smollm2-135m": 1536,
    "llama-3.2-1b": 8192,
    "smollm2-1.7b": 8192,
    "qwen2.5-7b": 18944,
    "llama-3.1-8b": 14336,
}


@dataclass(frozen=True)
class Decoder:
    """A step of one token; `length` includes it."""

    model: str
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    dim: int
    length: int

    @property
    def widths(self) -> dict[str, tuple[int, int]]:
        """Shapes of a layer's weights by name."""
        queries, rows = self.heads * self.dim, self.kv_heads * self.dim
        return {
            "WQ": (self.hidden, queries),
            "WK": (self.hidden, rows),
            "WV": (self.hidden, rows),
            "WO": (queries, self.hidden),
            "gate": (self.hidden, self.inner),
            "up": (self.hidden, self.inner),
            "down": (self.inner, self.hidden),
        }


def decoder_of(model: str, length: int) -> Decoder:
    config = json.loads((MODELS / f"{model}.json").read_text("utf-8"))
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    dim = config.get("head_dim") or hidden // heads
    return Decoder(
        model, hidden, INNER[model], heads, config["num_key_value_heads"], dim, length
    )


# ---- Arrays ----


def arrays_of(decoder: Decoder, dtype: str, seed: int) -> dict[str, np.ndarray]:
    """The arrays of a run: inputs, caches in both layouts, and outputs."""
    rng = np.random.default_rng(seed)

    def numbers(*shape: int) -> np.ndarray:
        array = aligned(shape, dtype)
        array[...] = rng.standard_normal(shape, np.float32)
        return array

    rows, length = decoder.kv_heads * decoder.dim, decoder.length
    arrays = {
        "hidden": numbers(1, 1, decoder.hidden),
        "output": aligned((1, 1, decoder.hidden), dtype),
        "position": np.array([[length - 1]], np.int64),
        "write_indices": np.array([length - 1], np.int64),
        "nonpad_kv_seqlen": np.array([length], np.int64),
        "seqlens_k": np.array([length - 1], np.int32),
        "total_sequence_length": np.array(length, np.int32),
    }
    for layer in range(LAYERS):
        for x in "KV":
            by_token = numbers(1, length, rows)
            by_head = aligned((1, decoder.kv_heads, length, decoder.dim), dtype)
            by_head[...] = by_token.reshape(1, length, -1, decoder.dim).transpose(0, 2, 1, 3)
            arrays |= {f"step_{x}{layer}": by_token, f"gqa_{x}{layer}": by_head}
        for x, width in (("Q", decoder.heads * decoder.dim), ("K", rows), ("V", rows)):
            arrays[f"{x}{layer}"] = numbers(1, 1, width)
        arrays[f"Y{layer}"] = aligned((1, 1, decoder.heads * decoder.dim), dtype)
    return arrays


def weights_of(decoder: Decoder, dtype: str) -> dict[str, np.ndarray]:
    """Weights that keep the size of the numbers that they multiply, and tables for rotary
    embedding."""
    rng = np.random.default_rng(24)
    weights = {}
    for layer in range(LAYERS):
        for name, shape in decoder.widths.items():
            array = rng.random(shape, np.float32)
            array -= np.float32(0.5)
            array *= np.float32(np.sqrt(12 / shape[0]))
            weights[f"{name}{layer}"] = array.astype(dtype)
        for name in ("before", "after"):
            weights[f"{name}{layer}"] = np.ones(decoder.hidden, dtype)
    speeds = 1e4 ** (-np.arange(0, decoder.dim, 2) / decoder.dim)
    angles = np.outer(np.arange(decoder.length), speeds)
    return weights | {"cos": np.cos(angles).astype(dtype), "sin": np.sin(angles).astype(dtype)}


# ---- Nodes ----


def step_attention(decoder: Decoder, layer: int) -> list:
    """TensorScatter of K and of V, and Attention; caches are token-major, as Q, K and V are."""
    scatters = [
        helper.make_node(
            "TensorScatter", [f"step_{x}{layer}", f"{x}{layer}", "write_indices"], [f"all_{x}{layer}"]
        )
        for x in "KV"
    ]
    attention = helper.make_node(
        "Attention",
        [f"Q{layer}", f"all_K{layer}", f"all_V{layer}", "", "", "", "nonpad_kv_seqlen"],
        [f"Y{layer}"],
        is_causal=1,
        q_num_heads=decoder.heads,
        kv_num_heads=decoder.kv_heads,
    )
    return [*scatters, attention]


def gqa_attention(decoder: Decoder, layer: int) -> list:
    caches = [f"gqa_{x}{layer}" for x in "KV"]
    return [
        helper.make_node(
            "GroupQueryAttention",
            [*(f"{x}{layer}" for x in "QKV"), *caches, "seqlens_k", "total_sequence_length"],
            [f"Y{layer}", f"all_K{layer}", f"all_V{layer}"],
            domain="com.microsoft",
            num_heads=decoder.heads,
            kv_num_heads=decoder.kv_heads,
        )
    ]


ATTENTION = {"step": step_attention, "gqa": gqa_attention}


def rotated(decoder: Decoder, layer: int, x: str, heads: int) -> list:
    new, out = f"{x}{layer}_new", f"{x}{layer}"
    return [
        helper.make_node("MatMul", [f"normal{layer}", f"W{x}{layer}"], [new]),
        helper.make_node("RotaryEmbedding", [new, "cos", "sin", "position"], [out], num_heads=heads),
    ]


def feed_forward(layer: int) -> list:
    i = layer
    return [
        helper.make_node("RMSNormalization", [f"attended{i}", f"after{i}"], [f"scaled{i}"]),
        helper.make_node("MatMul", [f"scaled{i}", f"gate{i}"], [f"gated{i}"]),
        helper.make_node("Sigmoid", [f"gated{i}"], [f"sigmoid{i}"]),
        helper.make_node("Mul", [f"gated{i}", f"sigmoid{i}"], [f"silu{i}"]),
        helper.make_node("MatMul", [f"scaled{i}", f"up{i}"], [f"raised{i}"]),
        helper.make_node("Mul", [f"silu{i}", f"raised{i}"], [f"inner{i}"]),
        helper.make_node("MatMul", [f"inner{i}", f"down{i}"], [f"lowered{i}"]),
        helper.make_node("Add", [f"attended{i}", f"lowered{i}"], [f"hidden{i}"]),
    ]


def layer_nodes(decoder: Decoder, layer: int, form: str, hidden: str) -> list:
    i = layer
    return [
        helper.make_node("RMSNormalization", [hidden, f"before{i}"], [f"normal{i}"]),
        *rotated(decoder, layer, "Q", decoder.heads),
        *rotated(decoder, layer, "K", decoder.kv_heads),
        helper.make_node("MatMul", [f"normal{i}", f"WV{i}"], [f"V{i}"]),
        *ATTENTION[form](decoder, layer),
        helper.make_node("MatMul", [f"Y{i}", f"WO{i}"], [f"projected{i}"]),
        helper.make_node("Add", [hidden, f"projected{i}"], [f"attended{i}"]),
        *feed_forward(layer),
    ]


# ---- Graphs ----


def caches_of(form: str) -> dict[str, str]:
    """Binds caches in place: each is an input and an output."""
    return {f"all_{x}{i}": f"{form}_{x}{i}" for x in "KV" for i in range(LAYERS)}


def whole_graph(decoder: Decoder, form: str, weights: dict[str, np.ndarray]) -> Graph:
    hidden = ["hidden", *(f"hidden{i}" for i in range(LAYERS))]
    nodes = [n for i in range(LAYERS) for n in layer_nodes(decoder, i, form, hidden[i])]
    return Graph(nodes, {hidden[-1]: "output"} | caches_of(form), constants=weights)


def attention_graph(decoder: Decoder, form: str) -> Graph:
    """Only the layers' attention; queries, keys and values are inputs."""
    nodes = [n for i in range(LAYERS) for n in ATTENTION[form](decoder, i)]
    return Graph(nodes, {f"Y{i}": f"Y{i}" for i in range(LAYERS)} | caches_of(form))
