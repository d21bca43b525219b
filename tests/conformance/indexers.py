"""Flows with an indexer of their own, compared with NumPy: DSA, MSA and QSA, as the models' papers
and implementations define the scores (doc/guide/sparse.md names them).

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import kvmill
import ml_dtypes
import numpy as np
from tap import Tap, refused

ERRORS = (kvmill.KvmillError, TypeError, ValueError)
FLOWS = Path(kvmill.__file__).resolve().parents[3] / "configs" / "flows"
TOKENS, POOL, DIM, INDEX_HEADS = 90, 128, 128, 4


# ---- Scores: of blocks of tokens [blocks, size, DIM], for the queries of an indexer ----


def dsa_scores(keys: np.ndarray, queries: np.ndarray, weights: np.ndarray) -> np.ndarray:
    positive = np.maximum(keys[:, 0] @ queries.T, 0)
    return positive @ weights[0]


def msa_scores(keys: np.ndarray, query: np.ndarray) -> np.ndarray:
    return (keys @ query[0]).max(1)


def qsa_scores(keys: np.ndarray, queries: np.ndarray) -> np.ndarray:
    return np.maximum(keys.mean(1) @ queries.T, 0).sum(1)


# ---- A cache of one request ----


class Request:
    """Tokens in shuffled pages.  Rows are small integers, so that every sum is exact."""

    def __init__(self, rng: np.random.Generator, flow: kvmill.Flow, spec: dict) -> None:
        sizes = spec["attention"]
        self.rng, self.flow = rng, flow
        self.heads, self.kv_heads = sizes["num_heads"], sizes["num_kv_heads"]
        self.size, self.head_dim = sizes["page_size"], sizes["head_dim"]
        self.block = spec.get("block_size", self.size)
        self.index_heads = spec["fields"][0].get("heads", self.kv_heads)
        self.value_dim = sizes.get("value_head_dim", self.head_dim)
        self.is_view = "value_view" in sizes
        pages = -(-TOKENS // self.size)
        self.ids = rng.permutation(POOL)[:pages].astype(np.int32)
        kinds = 1 if self.is_view else 2
        rows = (1, kinds, self.kv_heads, POOL * self.size, self.head_dim)
        self.cache = np.full(rows, np.nan, np.float32)
        self.key = self.numbers(TOKENS, self.kv_heads, self.head_dim)
        self.value = self.numbers(TOKENS, self.kv_heads, self.value_dim)
        self.index_keys = self.numbers(TOKENS, self.index_heads, DIM)
        self.index_rows = {"current_index_keys": self.index_keys}
        if "scales" in spec["fields"][0]:
            self.scale_index_keys()
        if self.is_view:
            self.value = self.key[..., : self.value_dim]

    def numbers(self, *shape: int) -> np.ndarray:
        return self.rng.integers(-4, 5, shape).astype(np.float32)

    def scale_index_keys(self) -> None:
        """Quantise keys to float8 as append does, and return what is read back."""
        largest = np.abs(self.index_keys).max(-1, keepdims=True)
        scales = np.exp2(np.ceil(np.log2(np.maximum(largest, 1e-4) / 448))).astype(np.float32)
        codes = (self.index_keys / scales).astype(ml_dtypes.float8_e4m3fn)
        self.index_keys = codes.astype(np.float32) * scales

    def append(self) -> dict[str, np.ndarray]:
        """Append in two calls, of which the first ends within a page.  Returns the fields."""
        fields = self.flow.fields(POOL)
        tokens = np.arange(TOKENS)
        slots = self.ids[tokens // self.size].astype(np.int64) * self.size + tokens % self.size
        step = self.flow.plan("append", cache_pages=POOL, portable="allow")
        for part in (slice(0, 37), slice(37, TOKENS)):
            current = {name: rows[part] for name, rows in self.index_rows.items()}
            current["current_key"] = self.key[part]
            if not self.is_view:
                current["current_value"] = self.value[part]
            step.run(cache=self.cache, slot_mapping=slots[part], **current, **fields)
        return fields

    def asked(self) -> dict[str, object]:
        pages = [0, len(self.ids)]
        query = self.numbers(1, self.heads, self.head_dim) / 4
        asked = {"query": query, "cache": self.cache, "seq_len": [TOKENS]}
        return {**asked, "page_indptr": pages, "page_ids": self.ids}

    def attended(self, query: np.ndarray, head: int, blocks: Sequence[int]) -> np.ndarray:
        size = self.block
        tokens = [t for p in blocks for t in range(p * size, min((p + 1) * size, TOKENS))]
        scores = query @ self.key[tokens, head].T.astype(np.float64) / np.sqrt(self.head_dim)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ self.value[tokens, head]


# ---- Tests ----


def spec_of(name: str, page_size: int, **sizes: object) -> dict:
    """Return a shipped flow, in float32 and with few tokens."""
    spec = json.loads((FLOWS / f"{name}.json").read_text())
    spec["attention"] = {**sizes, "page_size": page_size, "cache_layout": 3, "T1": "float32"}
    if "dims" in spec:
        spec["dims"] |= {"index_n_heads": INDEX_HEADS, "index_head_dim": DIM}
    return spec


def against_numpy(
    rng: np.random.Generator, spec: dict, scores: Callable, k: int, *inputs: tuple[str, int, int]
) -> None:
    """Expect k blocks by score, and the last one if the flow always keeps it, for each kv head
    except in QSA."""
    spec["select"]["topk_val"] = k
    flow = kvmill.Flow(spec)
    request = Request(rng, flow, spec)
    fields = request.append()
    given = {name: request.numbers(1, request.kv_heads, rows, columns) for name, rows, columns in inputs}
    if spec["select"].get("scope") == "request":
        given = {name: np.repeat(x[:, :1], request.kv_heads, 1) for name, x in given.items()}
    asked = {**request.asked(), **given, **fields}
    plans = (flow.plan(step, pages=POOL, portable="allow") for step in ("index", "decode"))
    (indptr, lists), output = (plan.run(**asked) for plan in plans)
    group, size = request.heads // request.kv_heads, request.block
    eos, blocks = spec["select"]["reserved_eos"], -(-TOKENS // request.block)
    for head in range(request.kv_heads):
        shared = head * request.index_heads // request.kv_heads
        keys = request.index_keys[: (blocks - eos) * size, shared].reshape(-1, size, DIM)
        best = np.argsort(-scores(keys, *(x[0, head] for x in given.values())), kind="stable")[:k]
        want = sorted({*best.tolist(), *range(blocks - eos, blocks)})
        row = min(head, len(indptr) - 2)
        assert lists[indptr[row] : indptr[row + 1]].tolist() == want, head
        heads = slice(head * group, (head + 1) * group)
        query = asked["query"][0, heads].astype(np.float64)
        assert np.abs(output[0, heads] - request.attended(query, head, want)).max() < 1e-5, head


def dsa(name: str = "dsa") -> dict:
    latent = {"num_heads": 6, "num_kv_heads": 1, "head_dim": 48, "value_head_dim": 32}
    return spec_of(name, 1, **latent, value_view=True)


def refusals(rng: np.random.Generator) -> None:
    spec = dsa()
    flow = kvmill.Flow(spec)
    request = Request(rng, flow, spec)
    fields = request.append()
    step = flow.plan("append", cache_pages=POOL, portable="allow")
    current = {"current_key": request.key, "slot_mapping": np.arange(TOKENS)}
    given = {"cache": request.cache, **current, **fields}
    refused("current_index_keys is NULL", lambda: step.run(**given), ERRORS)
    short = request.index_keys[1:]
    refused("current_index_keys has shape", lambda: step.run(**given, current_index_keys=short), ERRORS)
    index = flow.plan("index", pages=POOL, portable="allow")
    asked = {**request.asked(), **fields, "index_queries": request.numbers(1, 1, INDEX_HEADS, DIM)}
    refused("index_weights is NULL", lambda: index.run(**asked), ERRORS)
    weights = request.numbers(1, 1, 1, INDEX_HEADS + 1)
    refused("index_weights has shape", lambda: index.run(**asked, index_weights=weights), ERRORS)
    refused("dims", lambda: kvmill.Flow({**spec, "dims": {"index_n_heads": "many"}}), ERRORS)
    refused("index_head_dim", lambda: kvmill.Flow({**spec, "dims": {"index_topk": 4}}), ERRORS)


def run(tap: Tap, seed: int) -> None:
    rng = np.random.default_rng(seed)
    queries, weights = ("index_queries", INDEX_HEADS, DIM), ("index_weights", 1, INDEX_HEADS)
    msa = spec_of("msa", 8, num_heads=6, num_kv_heads=2, head_dim=32)
    qsa = spec_of("qsa", 16, num_heads=6, num_kv_heads=2, head_dim=32)
    tap.run("DSA", partial(against_numpy, rng, dsa(), dsa_scores, 20, queries, weights))
    float8 = dsa("dsa_float8")
    tap.run("DSA in float8", partial(against_numpy, rng, float8, dsa_scores, 20, queries, weights))
    tap.run("MSA", partial(against_numpy, rng, msa, msa_scores, 4, ("index_query", 1, DIM)))
    tap.run("QSA", partial(against_numpy, rng, qsa, qsa_scores, 6, queries))
    tap.run("indexers are refused", partial(refusals, rng))
