"""Rules of sparse flows in NumPy: rounding of results of ops, folds over query heads, how many
blocks are selected, and the scores of shipped flows.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path

import kvmill
import numpy as np
from flows import (
    DIM,
    FLOWS,
    GROUP,
    HEADS,
    KV_HEADS,
    LENGTHS,
    PAGE,
    SIZES,
    Pages,
    flow_of,
    selected,
)
from tap import Tap


def brain(numbers: np.ndarray) -> np.ndarray:
    """Round numbers to bfloat16, half to even."""
    bits = np.asarray(numbers, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def rounded(rng: np.random.Generator, packs: Sequence[kvmill.Pack]) -> None:
    """Scores of mean keys with each op's result rounded to bfloat16.  Without rounding they are
    exact."""
    more = {"temporaries": "bfloat16"}
    flow, _ = flow_of("block_sparse", more, T1="float32")
    pages, first, changed = Pages(rng, "float32"), 0, 0
    fields = pages.append(flow, packs)
    query = rng.integers(-30, 31, (len(LENGTHS), HEADS, DIM)).astype(np.float32)
    scores = np.zeros(int(pages.indptr[-1]) * KV_HEADS, np.float32)
    step = flow.plan("index", batch=len(LENGTHS), pages=max(pages.counts), packs=packs)
    step.run(query=query, scores=scores, **pages.requests(), **fields)
    for b, head in np.ndindex(len(LENGTHS), KV_HEADS):
        row, first = scores[first : first + pages.counts[b]], first + pages.counts[b]
        mean = brain(query[b, head * GROUP : (head + 1) * GROUP].mean(0))
        for page in np.flatnonzero(np.isfinite(row)):
            keys = pages.key[b][page * PAGE : (page + 1) * PAGE, head]
            exact = keys.mean(0, dtype=np.float64) @ mean
            assert row[page] == brain(exact), (b, head, page)
            changed += row[page] != exact
    assert changed > 50, changed


def folds(rng: np.random.Generator, packs: Sequence[kvmill.Pack]) -> None:
    """Query heads with opposite preferences: their maximum selects pages, but their mean and their
    mean query see no difference, so the first pages are listed."""
    pages, lists = Pages(rng, "float32"), {}
    signs = np.where(np.arange(HEADS) % 2, -1, 1)[None, :, None]
    query = (signs * rng.integers(-2, 3, (len(LENGTHS), 1, DIM))).astype(np.float32)
    dot = {"op": "GeMM", "inputs": ["q", "centroid"], "output": "dot"}
    programs = {
        op: [dot, {"op": op, "inputs": ["dot"], "dim": 2, "output": "score"}]
        for op in ("Max", "Mean", "Sum")
    }
    programs["the mean query"] = json.loads((FLOWS / "block_sparse.json").read_text())["index"][:2]
    for name, ops in programs.items():
        index = [*ops, {"op": "topK", "inputs": ["score"]}]
        flow, select = flow_of("block_sparse", {"index": index}, T1="float32")
        fields = pages.append(flow, packs)
        step = flow.plan("index", batch=len(LENGTHS), pages=max(pages.counts), packs=packs)
        lists[name] = step.run(query=query, **pages.requests(), **fields)[1]
    key, ask = pages.key[0][:, 0].astype(np.float64), query[0, :GROUP].astype(np.float64)
    best = selected(lambda key, query: (key.mean(1) @ query.T).max(-1), key, ask, select)
    assert lists["Max"][: len(best)].tolist() == best
    assert lists["Mean"][: len(best)].tolist() != best
    for name in ("Sum", "the mean query"):
        assert (lists[name] == lists["Mean"]).all(), name


def budgets() -> None:
    """The numbers of listed pages, for every length up to four pages."""
    lengths, page_size, counted = range(17), 4, 0
    numbers = product(range(3), range(3), range(1, 3), ("0", "1/3", "1"), (0, 1, 3))
    for k, bos, eos, ratio, cap in numbers:
        select = {"topk_val": k, "reserved_bos": bos, "reserved_eos": eos, "cap": cap}
        select["topk_ratio"] = int(ratio) if "/" not in ratio else ratio
        spec = json.loads((FLOWS / "block_sparse.json").read_text()) | {"select": select}
        flow = kvmill.Flow(spec, **(SIZES | {"page_size": page_size}), T1="float32")
        pages = [-(-length // page_size) for length in lengths]
        budget = [max(bos + k + eos, int(Fraction(ratio) * n)) for n in pages]
        most = [min(b, max(cap, bos + eos)) if cap else b for b in budget]
        want = np.repeat(np.minimum(pages, most), KV_HEADS)
        assert (np.diff(flow.count(lengths)) == want).all(), select
        counted += len(want)
    assert counted == 3 * 3 * 2 * 3 * 3 * 17 * KV_HEADS


# ---- The scores of flows that ship, as their sources have them ----


def softmax_of_pages(numbers: np.ndarray) -> np.ndarray:
    weights = np.exp(numbers - numbers.max(0))
    return weights / weights.sum(0)


def mean_dots(key: np.ndarray, query: np.ndarray) -> np.ndarray:
    return key.mean(1) @ query.mean(0)


def bounds_of(key: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Return Quest's bounds, [pages, query heads]."""
    above, below = query * key.max(1)[:, None], query * key.min(1)[:, None]
    return np.maximum(above, below).sum(-1)


def parts_of(key: np.ndarray, tokens: int) -> np.ndarray:
    """Split keys into parts of `tokens` tokens: [pages, parts, tokens, DIM]."""
    return key.reshape(len(key), -1, tokens, DIM)


def best_bound_of_parts(key: np.ndarray, query: np.ndarray) -> np.ndarray:
    parts = np.moveaxis(parts_of(key, 16), 1, 0)
    return np.max([bounds_of(part, query) for part in parts], (0, -1))


# Tokens of a page, and a function that returns the score of each candidate from its keys and values
# [pages, tokens, DIM], the query heads of a group, and its score in the previous step.
SCORES: dict[str, tuple[int, Callable[..., np.ndarray]]] = {
    "block_sparse": (16, lambda k, v, q, before: mean_dots(k, q)),
    "gqa_block_sparse": (
        16,
        lambda k, v, q, before: softmax_of_pages(0.09 * k.mean(1) @ q.T).max(-1),
    ),
    "gqa_quest": (16, lambda k, v, q, before: bounds_of(k, q).max(-1)),
    "lserve_sparse": (64, lambda k, v, q, before: best_bound_of_parts(k, q)),
    "lserve_centroid": (
        64,
        lambda k, v, q, before: (parts_of(k, 16).mean(2) @ q.mean(0)).max(-1),
    ),
    "masked_quest": (16, lambda k, v, q, before: bounds_of(k[..., 8:], q[:, 8:]).max(-1)),
    "centered_block_sparse": (
        16,
        lambda k, v, q, before: mean_dots(k, q) - mean_dots(k, q).mean(),
    ),
    "running_avg_block_sparse": (16, lambda k, v, q, before: 0.5 * before + mean_dots(k, q)),
    "venergy_gated_centroid": (
        16,
        lambda k, v, q, before: mean_dots(k, q) * np.linalg.norm(v, axis=-1).mean(1),
    ),
    "h2o_sparse": (
        16,
        lambda k, v, q, before: mean_dots(k, q) / 2
        + bounds_of(k, q.mean(0, keepdims=True))[:, 0] / 2,
    ),
    "gqa_h2o": (
        16,
        lambda k, v, q, before: ((k.mean(1) @ q.T + bounds_of(k, q)) / 2).max(-1),
    ),
    "h2o_token": (
        1,
        lambda k, v, q, before: softmax_of_pages(k[:, 0] @ q.mean(0) / np.sqrt(128))
        + 0.984375 * before,
    ),
    "gqa_h2o_token": (
        1,
        lambda k, v, q, before: softmax_of_pages(k[:, 0] @ q.T / np.sqrt(128)).max(-1)
        + 0.984375 * before,
    ),
    "infllm": (
        16,
        lambda k, v, q, before: (parts_of(k, 4).mean(2) @ q.mean(0)).sum(-1),
    ),
}


def shipped(rng: np.random.Generator, packs: Sequence[kvmill.Pack], name: str) -> None:
    """Run two steps of one request whose pages are all full."""
    size, score = SCORES[name]
    select = {"topk_val": 2, "reserved_bos": 1, "reserved_eos": 1}
    spec = json.loads((FLOWS / f"{name}.json").read_text()) | {"select": select}
    flow, pages = kvmill.Flow(spec, **(SIZES | {"page_size": size}), T1="float32"), 9
    key, value = (
        rng.standard_normal((pages * size, KV_HEADS, DIM)).astype(np.float32) for _ in "kv"
    )
    cache, fields = np.zeros((1, 2, KV_HEADS, pages * size, DIM), np.float32), flow.fields(pages)
    flow.plan("append", cache_pages=pages, packs=packs).run(
        current_key=key, current_value=value, cache=cache, **fields,
        slot_mapping=np.arange(pages * size),
    )
    step = flow.plan("index", batch=1, pages=pages, packs=packs)
    before, inner = np.zeros((KV_HEADS, pages - 2)), slice(1, pages - 1)
    for _ in range(2):
        query = rng.standard_normal((1, HEADS, DIM)).astype(np.float32)
        scores = np.zeros((KV_HEADS, pages), np.float32)
        step.run(
            query=query, cache=cache, scores=scores.reshape(-1), seq_len=[pages * size],
            page_indptr=[0, pages], page_ids=np.arange(pages, dtype=np.int32), **fields,
        )
        for head in range(KV_HEADS):
            of_pages = (
                rows[:, head].reshape(pages, size, DIM)[inner].astype(np.float64)
                for rows in (key, value)
            )
            ask = query[0, head * GROUP : (head + 1) * GROUP].astype(np.float64)
            want = score(*of_pages, ask, before[head])
            assert np.allclose(scores[head, inner], want, 1e-4, 1e-4), (scores[head, inner], want)
            assert np.isnan(scores[head, [0, -1]]).all()
            before[head] = scores[head, inner]


# First blocks, best blocks, last blocks, a share of all blocks, tokens of a block.
READ: dict[tuple[int, int, int, str, int], str] = {
    (1, 29, 2, "1/16", 16): "block_sparse gqa_block_sparse gqa_quest masked_quest h2o_sparse gqa_h2o "
    "centered_block_sparse running_avg_block_sparse venergy_gated_centroid quest_growing "
    "quest_and_centroid",
    (1, 29, 2, "1/16", 64): "lserve_sparse lserve_centroid",
    (4, 1024, 64, "0", 1): "h2o_token gqa_h2o_token",
    (8, 16, 256, "0", 16): "infllm",
    (1, 0, 64, "0", 16): "sinks_and_window",
    (0, 2048, 1, "0", 1): "token_index",
    (0, 2048, 0, "0", 1): "dsa dsa_float8",
    (0, 512, 0, "0", 1): "csa",
    (0, 15, 1, "0", 128): "msa",
    (0, 512, 1, "0", 4): "qsa",
}


def read_of(path: Path) -> tuple[int, int, int, str, int]:
    flow = kvmill.Flow(path)._flow
    select = flow.select
    share = Fraction(select.ratio_numerator, select.ratio_denominator or 1)
    block = flow.block_size or flow.attention.contents.page_size
    return select.reserved_bos, select.topk_val, select.reserved_eos, str(share), block


def shares() -> None:
    """Check how much shipped flows read, except those that read everything."""
    known = {name: read for read, names in READ.items() for name in names.split()}
    found = {path.stem: read_of(path) for path in FLOWS.glob("*.json")}
    assert found.items() >= known.items(), dict(known.items() - found.items())
    assert found.keys() - known.keys() == {"dense", "hca"}


def run(tap: Tap, packs: Sequence[kvmill.Pack], seed: int) -> None:
    rng = np.random.default_rng(seed)
    tap.run("a flow with temporaries in bfloat16", lambda: rounded(rng, packs))
    tap.run("folds that list other pages", lambda: folds(rng, packs))
    tap.run("counts of all short lists", budgets)
    for name in SCORES:
        tap.run(f"scores of {name}, as its source has them", partial(shipped, rng, packs, name))
    tap.run("how much flows that ship read", shares)
