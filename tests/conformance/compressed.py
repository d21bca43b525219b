"""Layers of DeepSeek V4, compared with NumPy: compressed entries of all earlier tokens, a window of
tokens and a sink for each head, in one softmax (doc/guide/sparse.md names the source).  kvmill
attends to the parts separately, and merges them.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from functools import partial

import kvmill
import numpy as np
from indexers import INDEX_HEADS, DIM, dsa_scores, spec_of
from tap import Tap

HEADS, HEAD_DIM, WINDOW, TOPK, POOL, PAGE = 6, 32, 8, 5, 128, 4


def softmax(scores: np.ndarray, sink: np.ndarray) -> np.ndarray:
    """Softmax of scores [heads, keys].  The sink has a weight, but no value."""
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / (weights.sum(-1) + np.exp(sink - scores.max(-1)))[:, None]


class Layer:
    """One sequence: rows that are both keys and values, and an entry for each `ratio` tokens.
    Entries are random here; in the model they are computed from tokens."""

    def __init__(self, rng: np.random.Generator, name: str, ratio: int) -> None:
        sizes = {"num_heads": HEADS, "num_kv_heads": 1, "head_dim": HEAD_DIM, "value_view": True}
        spec = spec_of(name, 1 if name == "csa" else PAGE, **sizes, partial=True)
        if "dims" in spec:
            spec["dims"]["index_topk"] = TOPK
        self.rng, self.ratio, self.has_indexer = rng, ratio, "dims" in spec
        self.flow, self.page = kvmill.Flow(spec), spec["attention"]["page_size"]
        self.ring = kvmill.MultiHeadCacheAttention(
            **sizes, left_window_size=WINDOW - 1, mode="circular", cache_layout=0, T1="float32",
            partial=True, portable="allow",
        )  # fmt: skip
        self.window = np.full((1, 1, 1, WINDOW, 1, HEAD_DIM), np.nan, np.float32)
        self.cache = np.full((1, 1, 1, POOL * self.page, HEAD_DIM), np.nan, np.float32)
        self.fields = self.flow.fields(POOL) if self.has_indexer else {}
        self.ids = rng.permutation(POOL).astype(np.int32)
        self.sinks = rng.standard_normal(HEADS).astype(np.float32)
        self.rows, self.entries, self.index_keys = [], [], []

    def numbers(self, *shape: int) -> np.ndarray:
        return self.rng.integers(-4, 5, shape).astype(np.float32)

    def compress(self) -> None:
        """Add the entry of the last `ratio` tokens, and its index key."""
        number = len(self.entries)
        self.entries.append(self.numbers(HEAD_DIM))
        self.index_keys.append(self.numbers(DIM))
        slot = int(self.ids[number // self.page]) * self.page + number % self.page
        rows = {"current_key": self.entries[-1].reshape(1, 1, HEAD_DIM)}
        if self.has_indexer:
            rows["current_index_keys"] = self.index_keys[-1].reshape(1, 1, DIM)
        step = self.flow.plan("append", cache_pages=POOL, portable="allow")
        step.run(cache=self.cache, slot_mapping=[slot], **rows, **self.fields)

    def step(self) -> None:
        """Process a token: store its row in the window, perhaps add an entry, and attend to
        everything."""
        position, row = len(self.rows), self.numbers(HEAD_DIM)
        self.rows.append(row)
        if (position + 1) % self.ratio == 0:
            self.compress()
        query = self.numbers(1, HEADS, HEAD_DIM) / 4
        recent = self.ring.run(
            query=query[None], current_key=row.reshape(1, 1, 1, HEAD_DIM), cache=self.window,
            start_pos=position, sinks=self.sinks,
        )  # fmt: skip
        asked = {"index_queries": self.numbers(1, 1, INDEX_HEADS, DIM)}
        asked["index_weights"] = self.numbers(1, 1, 1, INDEX_HEADS)
        older = self.older(query, asked if self.has_indexer else {})
        output, _ = kvmill.merge_partials(
            [recent[0].reshape(older[0].shape), older[0]], [recent[1].reshape(older[1].shape), older[1]]
        )
        assert np.abs(output[0] - self.wanted(query[0], asked)).max() < 1e-5, position

    def older(self, query: np.ndarray, asked: dict) -> tuple[np.ndarray, np.ndarray]:
        pages = -(-len(self.entries) // self.page)
        plan = self.flow.plan("decode", pages=POOL, portable="allow")
        lists = {"page_indptr": [0, pages], "page_ids": self.ids[:pages]}
        return plan.run(
            query=query, cache=self.cache, seq_len=[len(self.entries)], **lists, **asked, **self.fields
        )

    def wanted(self, query: np.ndarray, asked: dict) -> np.ndarray:
        best = range(len(self.entries))
        if self.has_indexer and len(self.entries) > TOPK:
            keys = np.stack(self.index_keys)[:, None]
            scores = dsa_scores(keys, asked["index_queries"][0, 0], asked["index_weights"][0, 0])
            best = np.argsort(-scores, kind="stable")[:TOPK]
        keys = np.stack(self.rows[-WINDOW:] + [self.entries[i] for i in best]).astype(np.float64)
        scores = query.astype(np.float64) @ keys.T / np.sqrt(HEAD_DIM)
        return softmax(scores, self.sinks.astype(np.float64)) @ keys


def steps(rng: np.random.Generator, name: str, ratio: int) -> None:
    layer = Layer(rng, name, ratio)
    for _ in range(61):
        layer.step()


def run(tap: Tap, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tap.run("CSA beside a window, step by step", partial(steps, rng, "csa", 4))
    tap.run("HCA beside a window, step by step", partial(steps, rng, "hca", 16))
