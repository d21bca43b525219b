"""CacheAttend in Python: random caches, masks and ways to select rows, compared with NumPy in
float64.

Rows that no list selects are NaN, or have scales that are NaN.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial

import kvmill
import numpy as np
import pmx_reference as reference
from cache_rows import BLOCKS, CODES, PLAIN, TYPES, Side, random_side
from pmx import Variant, check_all, sums
from tap import Tap

CASES = 120
HEADS = [(8, 2, 64, 64), (6, 3, 32, 96), (5, 1, 100, 24), (3, 3, 24, 7), (4, 2, 128, 32)]
ROWS = ("lengths of caches", "lengths of one cache", "ranges", "pages", "pages of heads", "slots")
UNIT = 2.0**-24
ROUNDING = {"float32": UNIT, "float16": 2.0**-11, "bfloat16": 2.0**-8}


# ---- Memory ----


def spread(rng: np.random.Generator, array: np.ndarray, unnamed: np.ndarray) -> np.ndarray:
    """Return a copy with gaps between rows, or with heads before rows.  Rows that no list selects
    are NaN."""
    copy = np.ascontiguousarray(array)
    copy.view(np.uint8)[unnamed] = 0xFF
    if rng.random() < 0.5:
        return np.ascontiguousarray(copy.swapaxes(0, 1)).swapaxes(0, 1)
    wide = np.zeros((*copy.shape[:-1], copy.shape[-1] + 3), copy.dtype)
    wide[..., : copy.shape[-1]] = copy
    return wide[..., : copy.shape[-1]]


# ---- Which rows there are ----


@dataclass
class Case:
    """A call, and what the oracle needs to know about it."""

    attributes: dict
    tensors: dict
    starts: np.ndarray  # the number of queries of each sequence
    cells: list  # the rows of each sequence and kv head, in order
    positions: np.ndarray  # positions of queries
    sides: tuple[Side, Side] | None = None
    key_positions: np.ndarray | None = None  # positions of rows
    ranges: np.ndarray | None = None
    facts: Counter = field(default_factory=Counter)

    @property
    def heads(self) -> int:
        return self.attributes["num_heads"]

    @property
    def kv_heads(self) -> int:
        return self.attributes["num_kv_heads"]

    @cached_property
    def wanted(self) -> list:
        """Return the results of `attend` for each query and head."""
        spans = enumerate(zip(self.starts[:-1], self.starts[1:], strict=True))
        queries = [(b, n) for b, (first, end) in spans for n in range(first, end)]
        return [[attend(self, b, n, h) for h in range(self.heads)] for b, n in queries]


def integers(rng: np.random.Generator, numbers: object) -> np.ndarray:
    return np.asarray(numbers, np.int64 if rng.random() < 0.5 else np.int32)


def name_pages(
    rng: np.random.Generator, tensors: dict, lengths: np.ndarray, size: int, heads: int, pages: int
) -> list[np.ndarray]:
    """Draw lists of pages, for sequences or for their kv heads, without common pages."""
    counts = np.repeat(-(-lengths // size), heads)
    ids = rng.permutation(pages)[: counts.sum()]
    starts = sums(counts)
    tensors["page_ids"], tensors["page_starts"] = integers(rng, ids), integers(rng, starts)
    if rng.random() < 0.5 or (lengths % size).any():
        tensors["lengths"] = integers(rng, lengths)
    lists = [ids[a:b] for a, b in zip(starts[:-1], starts[1:], strict=True)]
    spans = np.repeat(lengths, heads)
    return [
        (pages[:, None] * size + np.arange(size)).reshape(-1)[:length]
        for pages, length in zip(lists, spans, strict=True)
    ]


def random_rows(
    rng: np.random.Generator, way: str, lengths: np.ndarray, kv_heads: int, size: int
) -> tuple[dict, list, int, int | None]:
    """Draw tensors that select rows.  Returns them with the cells of each list, the number of rows
    of the cache, and the number of rows of each sequence's own cache or None."""
    tensors: dict = {}
    batch, most = len(lengths), int(lengths.max()) + int(rng.integers(0, 4))
    if way.startswith("pages"):
        heads = kv_heads if way == "pages of heads" else 1
        pages = int((-(-lengths // size)).sum()) * heads + 2
        lists = name_pages(rng, tensors, lengths, size, heads, pages)
        lists = lists if heads > 1 else [cells for cells in lists for _ in range(kv_heads)]
        return tensors, lists, pages * size, None
    if way == "slots":
        count = int(lengths.sum())
        slots = rng.permutation(count + 5)[:count]
        tensors["slots"] = integers(rng, slots)
        tensors["slot_starts"] = integers(rng, sums(lengths))
        lists = np.split(slots, np.cumsum(lengths)[:-1])
        return tensors, [cells for cells in lists for _ in range(kv_heads)], count + 5, None
    own = way != "lengths of one cache"
    lists = [np.arange(n) + (b * most if own else 0) for b, n in enumerate(lengths)]
    if way != "ranges":
        tensors["lengths"] = integers(rng, lengths)
    every = [cells for cells in lists for _ in range(kv_heads)]
    return tensors, every, most * (batch if own else 1), most if own else None


def random_ranges(
    rng: np.random.Generator, case: Case, lengths: np.ndarray, sequence: np.ndarray
) -> None:
    first = rng.integers(0, lengths[sequence] + 1)
    last = np.maximum(first, rng.integers(0, lengths[sequence] + 1))
    case.ranges = np.stack([first, last], -1)
    case.tensors["ranges"] = integers(rng, case.ranges)


# ---- What is added to scores ----


def random_mask(rng: np.random.Generator, case: Case, most: int, counts: np.ndarray) -> None:
    """Draw a mask of any rank and type.  Dims may be 1; the last one may be too short or too
    long."""
    together = "query_starts" in case.tensors
    rows = int(counts.sum()) if together else int(counts[0])
    lead = (1 if together else len(counts), case.heads, rows)
    rank = int(rng.integers(1, 5))
    dims = [int(n) if rng.random() < 0.6 else 1 for n in lead][4 - rank :]
    shape = (*dims, most + int(rng.integers(-2, 3)) if most > 2 else most)
    kind = str(rng.choice(["bool", *TYPES]))
    case.attributes["mask_T1"] = kind
    hidden = rng.random(shape) < 0.3
    if kind == "bool":
        case.tensors["attn_mask"] = ~hidden
    else:
        mask = np.where(hidden, -np.inf, rng.standard_normal(shape))
        case.tensors["attn_mask"] = reference.encode(kind, mask)
    case.facts[f"mask {kind}, rank {rank}"] += 1


def random_terms(rng: np.random.Generator, case: Case) -> None:
    attributes, tensors = case.attributes, case.tensors
    if rng.random() < 0.4:
        attributes["is_causal"] = True
    if rng.random() < 0.3:
        attributes["left_window_size"] = int(rng.integers(0, 20))
    if rng.random() < 0.2:
        attributes["right_window_size"] = int(rng.integers(0, 5))
    if rng.random() < 0.25:
        attributes["softcap"] = 5.0
    if rng.random() < 0.25:
        attributes["softmax_scale"] = 0.25
    if rng.random() < 0.3:
        attributes["is_alibi"] = True
        attributes["alibi_of_mask"] = bool("attn_mask" in tensors and rng.random() < 0.5)
        if rng.random() < 0.5:
            tensors["alibi_slopes"] = rng.random(case.heads).astype(np.float32)
    if rng.random() < 0.25:
        dtype = "float32" if rng.random() < 0.5 else attributes["T1"]
        tensors["sinks"] = reference.encode(dtype, rng.standard_normal(case.heads))


# ---- A case ----


def set_sides(
    rng: np.random.Generator, case: Case, rows: int, own: int | None, D: int, E: int
) -> None:
    """Draw K and V, in the shapes that go with the way in which rows are selected."""
    key, value = (random_side(rng, (rows, case.kv_heads, dim)) for dim in (D, E))
    named = np.unique(np.concatenate([np.empty(0, np.int64), *case.cells])).astype(np.int64)
    unnamed = np.setdiff1d(np.arange(rows), named)
    size = case.attributes["page_size"]
    split = own or (size if "page_ids" in case.tensors and rng.random() < 0.5 else None)
    for name, side in (("key", key), ("value", value)):
        parts = {name: side.rows, f"{name}_scale": side.scales}
        for part, array in parts.items():
            if array is None:
                continue
            array = spread(rng, array, unnamed)
            apart = (-1, split, *array.shape[1:])
            case.tensors[part] = array if split is None else array.reshape(apart)
        case.attributes |= {f"{name}_{word}": fact for word, fact in side.attributes.items()}
        case.facts[f"{name} {'/'.join(map(str, side.attributes.values()))}"] += 1
    case.sides = key, value


def random_case(rng: np.random.Generator, way: str) -> Case:
    H, G, D, E = HEADS[rng.integers(len(HEADS))]
    T1, batch, size = str(rng.choice(TYPES)), int(rng.integers(1, 4)), int(rng.choice([1, 4, 7, 16]))
    lengths = rng.choice([1, 5, 17, 60], batch) + rng.integers(0, 4, batch)
    tensors, cells, rows, own = random_rows(rng, way, lengths, G, size)
    ragged = bool(rng.random() < 0.5)
    counts = rng.integers(1, 6, batch) if ragged else np.full(batch, rng.integers(1, 6))
    starts = sums(counts)
    attributes = dict(num_heads=H, num_kv_heads=G, key_head_dim=D, value_head_dim=E, T1=T1)
    attributes |= {"page_size": size, "output_T1": "float32" if rng.random() < 0.3 else None}
    positions = np.concatenate([n - c + np.arange(c) for n, c in zip(lengths, counts, strict=True)])
    case = Case(attributes, tensors, starts, cells, positions)
    lead = (int(starts[-1]),) if ragged else (batch, int(counts[0]))
    tensors["query"] = reference.encode(T1, rng.standard_normal((*lead, H, D)))
    if ragged:
        tensors["query_starts"] = integers(rng, starts)
    if way == "ranges":
        random_ranges(rng, case, lengths, np.repeat(np.arange(batch), counts))
    if way == "ranges" or rng.random() < 0.3:
        case.positions = positions + rng.integers(-3, 4, len(positions))
        tensors["positions"] = integers(rng, case.positions)
    if way == "slots" and rng.random() < 0.5:
        case.key_positions = rng.integers(0, 70, rows)
        tensors["key_positions"] = integers(rng, case.key_positions)
    set_sides(rng, case, rows, own, D, E)
    if rng.random() < 0.6:
        random_mask(rng, case, int(lengths.max()), counts)
    random_terms(rng, case)
    case.facts[f"rows by {way}"] += 1
    return case


# ---- The oracle ----


def hides(case: Case, n: int, j: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return which rows of a list query n does not see.  j: places in the list; at: positions."""
    attributes, p = case.attributes, case.positions[n]
    hidden = np.zeros(len(j), bool)
    if case.ranges is not None:
        hidden |= (j < case.ranges[n, 0]) | (j >= case.ranges[n, 1])
        if case.key_positions is None:
            return hidden
    if attributes.get("is_causal"):
        hidden |= at > p
    elif attributes.get("right_window_size", -1) >= 0:
        hidden |= at > p + attributes["right_window_size"]
    if attributes.get("left_window_size", -1) >= 0:
        hidden |= at < p - attributes["left_window_size"]
    return hidden


def mask_row(case: Case, b: int, n: int, h: int, count: int) -> np.ndarray:
    mask = case.tensors.get("attn_mask")
    if mask is None:
        return np.zeros(count)
    if mask.dtype == bool:
        mask = np.where(mask, 0.0, -np.inf)
    else:
        mask = reference.decode(case.attributes["mask_T1"], mask)
    mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    row = n if "query_starts" in case.tensors else n - case.starts[b]
    place = [i if extent > 1 else 0 for i, extent in zip((b, h, row), mask.shape, strict=False)]
    added = np.full(count, -np.inf)
    given = mask[tuple(place)][:count]
    added[: len(given)] = given
    return added


def slopes_of(case: Case) -> np.ndarray | None:
    if not case.attributes.get("is_alibi"):
        return None
    given = case.tensors.get("alibi_slopes")
    return reference.alibi_slopes(case.heads) if given is None else given


def scores_of(case: Case, b: int, n: int, h: int, cells: np.ndarray) -> tuple[np.ndarray, float]:
    """Return scores, -infinity for hidden rows, and the error that float32 may have."""
    attributes, j = case.attributes, np.arange(len(cells))
    at = j if case.key_positions is None else case.key_positions[cells]
    query = reference.decode(attributes["T1"], case.tensors["query"]).reshape(
        -1, case.heads, attributes["key_head_dim"]
    )[n, h].astype(np.float64)
    keys = case.sides[0].values[cells, h * case.kv_heads // case.heads].astype(np.float64)
    scale = attributes.get("softmax_scale") or attributes["key_head_dim"] ** -0.5
    scores = keys @ query * scale
    off = UNIT * (len(query) + 8) * (np.abs(keys) @ np.abs(query)) * scale
    cap = attributes.get("softcap")
    if cap:
        scores, off = cap * np.tanh(scores / cap), off + 16 * UNIT * cap
    added, slopes = mask_row(case, b, n, h, len(cells)), slopes_of(case)
    hidden = hides(case, n, j, at) | (added == -np.inf)
    added[hidden] = 0
    if slopes is not None and attributes["alibi_of_mask"]:
        added = added * slopes[h]
    elif slopes is not None:
        added = added + slopes[h].astype(np.float64) * (at - case.positions[n])
    off = off + 8 * UNIT * (np.abs(scores) + np.abs(added))
    return np.where(hidden, -np.inf, scores + added), float(off.max(initial=0, where=~hidden))


def attend(case: Case, b: int, n: int, h: int) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Return output and lse of query n and head h, and the error that they may have."""
    g = h * case.kv_heads // case.heads
    cells = case.cells[b * case.kv_heads + g]
    scores, off = scores_of(case, b, n, h, cells)
    values = case.sides[1].values[cells, g].astype(np.float64)
    sinks = case.tensors.get("sinks")
    if sinks is not None:
        dtype = "float32" if sinks.dtype == np.float32 else case.attributes["T1"]
        scores = np.append(scores, reference.decode(dtype, sinks)[h].astype(np.float64))
        values = np.append(values, np.zeros((1, values.shape[1])), 0)
    most = scores.max(initial=-np.inf)
    if most == -np.inf:
        return np.zeros(values.shape[1]), np.zeros(values.shape[1]), -np.inf, 0
    weights = np.exp(scores - most)
    lse = most + np.log(weights.sum())
    weights /= weights.sum()
    seen = weights > 0
    bound = 2 * off + 2 * (len(cells) + 24) * UNIT
    error = bound * (weights[seen] @ np.abs(values[seen]))
    return weights[seen] @ values[seen], error, lse, bound + 4 * UNIT * abs(lse)


# ---- Running kvmill ----


def check_case(case: Case, variant: Variant) -> None:
    plan = kvmill.CacheAttend(threads=variant.threads, **case.attributes, **variant.options)
    with ThreadPoolExecutor(variant.threads) as executor:
        pool = executor if variant.threads > 1 else None
        output, lse = plan.run(executor=pool, lse=True, **case.tensors)
    dtype = case.attributes["output_T1"] or case.attributes["T1"]
    E = case.attributes["value_head_dim"]
    assert output.shape == (*case.tensors["query"].shape[:-1], E), output.shape
    assert lse.shape == output.shape[:-1] and lse.dtype == np.float32
    rows = reference.decode(dtype, output).reshape(-1, case.heads, E)
    sums_ = lse.reshape(-1, case.heads)
    for n in range(len(rows)):
        for h in range(case.heads):
            check_row(dtype, rows[n, h], sums_[n, h], case.wanted[n][h], f"query {n}, head {h}")


def check_row(dtype: str, row: np.ndarray, lse: float, want: tuple, what: str) -> None:
    output, error, want_lse, lse_error = want
    allowed = error + ROUNDING[dtype] * (np.abs(output) + error) + 2.0**-24
    off = np.abs(row - output)
    assert (off <= allowed).all(), f"{what}: off by {off.max()}; allowed: {allowed[off.argmax()]}"
    same = lse == want_lse or abs(lse - want_lse) <= lse_error
    assert same, f"{what}: lse {lse}, not {want_lse}"


def check_facts(cases: Sequence[Case]) -> None:
    """Check that every way to select rows, every format of K and V, and every type of mask
    occurred."""
    facts = sum((case.facts for case in cases), Counter())
    words = " ".join(facts)
    for way in ROWS:
        assert facts[f"rows by {way}"], way
    for word in (*PLAIN, *BLOCKS):
        assert f"key {word}" in words and f"value {word}" in words, word
    for bits in CODES.values():
        assert f"key {bits}/" in words and f"value {bits}/" in words, bits
    for kind in ("bool", *TYPES):
        assert f"mask {kind}" in words, kind


def run(tap: Tap, packs: Sequence[kvmill.Pack], seed: int) -> None:
    rng = np.random.default_rng(seed)
    cases = [random_case(rng, ROWS[i % len(ROWS)]) for i in range(CASES)]
    for variant in (Variant("packs", {"packs": packs}, 1), Variant("portable", {"portable": True}, 2)):
        test = partial(check_all, check_case, cases, variant)
        tap.run(f"CacheAttend, {len(cases)} cases, {variant.name}", test)
    tap.run("  of every way to name rows, every format and every mask", lambda: check_facts(cases))
