#!/usr/bin/env python3
"""The models of bench/llama.py and tests/llama.  Prints the specs of all kernels that bindings/ggml
uses for them.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """The shape of a model; layers: of the model with random weights."""

    architecture: str
    layers: int
    embedding: int
    forward: int
    heads: int
    kv_heads: int
    dim: int
    softcap: float = 0

    def attends(self, k: str, v: str) -> dict[str, object]:
        """A spec of the model's attention to caches of these types."""
        spec: dict[str, object] = {
            "op": "CacheAttend",
            "num_heads": self.heads,
            "num_kv_heads": self.kv_heads,
            "key_head_dim": self.dim,
            "T1": "float32",
            "mask_T1": "float16",
            **row_type("key_", k),
            **row_type("value_", v),
        }
        if (k, v) != ("f16", "f16"):
            spec["math"] = "near"
        if self.softcap:
            spec["softcap"] = self.softcap
        return spec


GEMMA = Shape("gemma3", 18, 640, 2048, 4, 1, 256)
SHAPES = {
    "Llama-3.2-1B": Shape("llama", 4, 2048, 8192, 32, 8, 64),
    "Qwen2.5-0.5B": Shape("qwen2", 6, 896, 4864, 14, 2, 64),
    "Gemma-2-2B": Shape("gemma2", 4, 2304, 9216, 8, 4, 256, 50),
}
TYPES = ["f16", "q8_0", "q5_0", "q4_0"]
PAIRS = [
    ("f16", "f16"),
    ("q8_0", "q8_0"),
    ("q5_1", "q5_1"),
    ("q5_0", "q5_0"),
    ("q4_1", "q4_1"),
    ("q4_0", "q4_0"),
    ("iq4_nl", "iq4_nl"),
    ("q8_0", "q4_0"),
    ("q5_1", "q4_0"),
]


def row_type(prefix: str, name: str) -> dict[str, str]:
    """The members of a spec that describe a type of ggml."""
    if name == "f16":
        return {f"{prefix}T2": "float16"}
    return {f"{prefix}T2": "uint8", f"{prefix}cache_format": name}


def specs() -> dict[str, object]:
    """Specs of attention and of storing."""
    kernels = [GEMMA.attends(k, v) for k, v in PAIRS]
    kernels += [shape.attends(name, name) for shape in SHAPES.values() for name in TYPES]
    kernels += [
        {"op": "WriteRows", "head_dim": 64, "T1": "float32", **row_type("", name)}
        for name in dict.fromkeys(k for k, _ in PAIRS)
    ]
    return {"kernels": kernels}


if __name__ == "__main__":
    print(json.dumps(specs(), indent=1))
