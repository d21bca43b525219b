"""Rules of sparse flows, in NumPy: results of ops that are rounded, folds over query heads, and how many
blocks are selected.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

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
    """The nearest numbers of bfloat16, half to even."""
    bits = np.asarray(numbers, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def rounded(rng: np.random.Generator, packs: Sequence[kvmill.Pack]) -> None:
    """Scores of mean keys, each op's result rounded to bfloat16; they are exact before."""
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
    """Query heads that want the opposite of each other: their best score lists pages, their mean
    and their mean query know no difference, so the first pages are listed."""
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
    """Counts of lists, of every length up to that of four pages."""
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


def run(tap: Tap, packs: Sequence[kvmill.Pack], seed: int) -> None:
    rng = np.random.default_rng(seed)
    tap.run("a flow with temporaries in bfloat16", lambda: rounded(rng, packs))
    tap.run("folds that list other pages", lambda: folds(rng, packs))
    tap.run("counts of all short lists", budgets)
