"""The problems of onnxruntime_attention.py, and the arrays of a run.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sides import aligned

SPECS = Path(__file__).parent.parent / "configs" / "onnx_attention.json"
WALK = 640 << 20
INT8_SCALE = 1 / 254  # of numbers from -0.5 to 0.5


@dataclass(frozen=True)
class Problem:
    """One sequence of `length` tokens, the last `queries` of which are new."""

    model: str
    step: str
    queries: int
    length: int
    cache: str  # element type; with int8, activations are float32
    math: str
    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    softcap: float

    @property
    def name(self) -> str:
        math = " fast" if self.math == "fast" else ""
        return f"{self.model} {self.step} {self.cache}{math}"

    @property
    def dtype(self) -> str:
        return "float32" if self.cache == "int8" else self.cache

    @property
    def past(self) -> int:
        return self.length - self.queries


# ---- Problems ----


def heads_of(spec: dict) -> dict[str, int | float | str]:
    """The heads of a spec, for both ops that the file has."""
    if spec["op"] == "MultiHeadCacheAttention":
        return {
            "cache": "int8",
            "math": spec["math"],
            "heads": spec["num_heads"],
            "kv_heads": spec["num_kv_heads"],
            "key_dim": spec["head_dim"],
            "value_dim": spec["head_dim"],
        }
    return {
        "cache": spec["T1"],
        "math": "f32",
        "heads": spec["Q"][1],
        "kv_heads": spec["K"][1],
        "key_dim": spec["K"][3],
        "value_dim": spec["V"][3],
    }


def problems_of(only: str) -> Iterator[Problem]:
    """Yields the problems that have all these words in their names."""
    words = [word.strip() for word in only.split(",")]
    for step, queries, length in (("decode", 1, 4096), ("prefill", 512, 512)):
        for spec in json.loads(SPECS.read_text("utf-8"))["kernels"]:
            problem = Problem(
                spec["purpose"],
                step,
                queries,
                length,
                softcap=spec.get("softcap", 0.0),
                **heads_of(spec),
            )
            if all(word in problem.name for word in words):
                yield problem


# ---- The arrays ----


class Arrays:
    """Tensors of one run by name, in the layouts of both standards, which share the caches."""

    def __init__(self, problem: Problem, numbers: np.ndarray) -> None:
        self.problem = problem
        heads, kv_heads = problem.heads, problem.kv_heads
        keys, values = problem.key_dim, problem.value_dim
        self.tensors: dict[str, np.ndarray] = {}
        for names, count, dim in (
            (("query", "Q"), heads, keys),
            (("key", "K"), kv_heads, keys),
            (("value", "V"), kv_heads, values),
            (("output", "Y"), heads, values),
        ):
            self._add_activations(names, count, dim, numbers)
        self._add_cache("past_key", (1, kv_heads, problem.length, keys), numbers)
        self._add_cache("past_value", (1, kv_heads, problem.length, values), numbers)
        self._add_counts()

    def _add_activations(
        self, names: tuple[str, str], heads: int, dim: int, numbers: np.ndarray
    ) -> None:
        """Adds one tensor with all heads of each token, and one with all tokens of each head."""
        queries = self.problem.queries
        by_token = aligned((1, queries, heads * dim), self.problem.dtype)
        shifted = np.roll(numbers, len(self.tensors) * 4099)
        by_token[...] = np.resize(shifted.astype(by_token.dtype), by_token.shape)
        by_head = aligned((1, heads, queries, dim), self.problem.dtype)
        by_head[...] = by_token.reshape(1, queries, heads, dim).transpose(0, 2, 1, 3)
        self.tensors |= dict(zip(names, (by_token, by_head), strict=True))

    def _add_cache(self, name: str, shape: tuple[int, ...], numbers: np.ndarray) -> None:
        cache = aligned(shape, self.problem.cache)
        if self.problem.cache == "int8":
            numbers = np.rint(numbers / INT8_SCALE)
            self.tensors[f"{name}_scale"] = aligned((*shape[:-1], 1), "float32")
            self.tensors[f"{name}_scale"].fill(INT8_SCALE)
        cache[...] = np.resize(numbers.astype(cache.dtype), cache.shape)
        self.tensors[name] = cache

    def _add_counts(self) -> None:
        self.tensors |= {
            "write_indices": np.array([self.problem.past], np.int64),
            "nonpad_kv_seqlen": np.array([self.problem.length], np.int64),
            "seqlens_k": np.array([self.problem.length - 1], np.int32),
            "total_sequence_length": np.array(self.problem.length, np.int32),
            "int8_scale": np.array([INT8_SCALE], np.float32),
        }

    def __getitem__(self, name: str) -> np.ndarray:
        return self.tensors[name]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.tensors.values())

    def new_rows(self) -> list[np.ndarray]:
        """The rows that a step has to store."""
        return [self[name][:, :, self.problem.past :] for name in ("past_key", "past_value")]


def sets_of(problem: Problem) -> list[Arrays]:
    """As many sets of arrays as have WALK bytes together, at least 2."""
    numbers = np.random.default_rng(24).random(1 << 17, np.float32) - np.float32(0.5)
    first = Arrays(problem, numbers)
    count = max(2, -(-WALK // first.nbytes))
    return [first, *(Arrays(problem, np.roll(numbers, i * 61)) for i in range(1, count))]
