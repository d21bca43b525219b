"""Sparse flows in Python, compared with NumPy: Quest and mean keys as their papers and vFlow define
them; flow files as the command runs them; and refusals.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from pathlib import Path

import kvmill
import numpy as np
from tap import Tap, refused

ERRORS = (kvmill.KvmillError, TypeError, ValueError)

TREE = Path(kvmill.__file__).resolve().parents[3]
FLOWS = TREE / "configs" / "flows"
SIZES = {"num_heads": 8, "num_kv_heads": 2, "head_dim": 16, "page_size": 16, "cache_layout": 3}
HEADS, KV_HEADS, DIM, PAGE = list(SIZES.values())[:4]
GROUP = HEADS // KV_HEADS
LENGTHS = [700, 1, 0, 333, 64]
POOL = 96


class Pages:
    """A paged cache of one layer.  Requests have shuffled pages; rows are small integers, so that
    every sum is exact."""

    def __init__(self, rng: np.random.Generator, dtype: str) -> None:
        self.counts = [-(-length // PAGE) for length in LENGTHS]
        order = rng.permutation(POOL).astype(np.int32)
        self.indptr = np.cumsum([0, *self.counts])
        self.ids = order[: self.indptr[-1]]
        self.cache = np.full((1, 2, KV_HEADS, POOL * PAGE, DIM), np.nan, dtype)
        self.key, self.value = (
            [rng.integers(-4, 5, (n, KV_HEADS, DIM)).astype(dtype) for n in LENGTHS] for _ in "kv"
        )

    def requests(self) -> dict[str, object]:
        return {"seq_len": LENGTHS, "page_indptr": self.indptr, "page_ids": self.ids}

    def slots(self, b: int) -> np.ndarray:
        tokens = np.arange(LENGTHS[b])
        return self.ids[self.indptr[b] + tokens // PAGE].astype(np.int64) * PAGE + tokens % PAGE

    def append(self, flow: kvmill.Flow, packs: Sequence[kvmill.Pack]) -> dict[str, np.ndarray]:
        """Append all tokens, one request after the other.  Returns the fields."""
        fields = flow.fields(POOL)
        step = flow.plan("append", cache_pages=POOL, packs=packs)
        for b in range(len(LENGTHS)):
            current = {"current_key": self.key[b], "current_value": self.value[b]}
            done = step.run(cache=self.cache, slot_mapping=self.slots(b), **current, **fields)
            assert done is None
        return fields


# ---- What is right ----


def quest_scores(key: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Return Quest's scores of full pages, [pages, PAGE, DIM], for the query heads of a group: the
    largest upper bound on a dot product."""
    above, below = query[:, None] * key.max(1), query[:, None] * key.min(1)
    return np.maximum(above, below).sum(-1).max(0)


def centroid_scores(key: np.ndarray, query: np.ndarray) -> np.ndarray:
    return key.mean(1) @ query.mean(0)


def selected(scores: Callable, key: np.ndarray, query: np.ndarray, select: dict) -> list[int]:
    """Return the pages of a row: the first ones, the best ones, the last ones."""
    pages = -(-len(key) // PAGE)
    bos, k, eos = select["reserved_bos"], select["topk_val"], select["reserved_eos"]
    budget = max(bos + k + eos, int(Fraction(select["topk_ratio"]) * pages))
    if pages <= budget:
        return list(range(pages))
    candidates = np.arange(bos, pages - eos)
    whole = key[: (pages - eos) * PAGE].reshape(-1, PAGE, DIM)[bos:]
    best = np.argsort(-scores(whole, query), kind="stable")[: budget - bos - eos]
    return [*range(bos), *sorted(candidates[best].tolist()), *range(pages - eos, pages)]


def attended(key: np.ndarray, value: np.ndarray, query: np.ndarray, pages: list[int]) -> np.ndarray:
    """Attention of the group's query heads to the tokens of these pages only."""
    tokens = [t for p in pages for t in range(p * PAGE, min((p + 1) * PAGE, len(key)))]
    if not tokens:
        return np.zeros((GROUP, DIM))
    return softmax(query, key[tokens]) @ value[tokens]


def softmax(query: np.ndarray, key: np.ndarray) -> np.ndarray:
    scores = query @ key.T / np.sqrt(DIM)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def is_lost_mass_a_bound(
    key: np.ndarray, value: np.ndarray, query: np.ndarray, pages: list[int], output: np.ndarray
) -> bool:
    """Whether the output differs from dense attention by at most twice the mass that is left out,
    times the longest value."""
    if not len(key):
        return True
    mass = softmax(query, key)
    left_out = mass[:, ~np.isin(np.arange(len(key)) // PAGE, pages)].sum(-1)
    longest = np.linalg.norm(value, axis=-1).max()
    distance = np.linalg.norm(mass @ value - output, axis=-1)
    return bool((distance <= 2 * left_out * longest + 1e-2).all())


# ---- Tests ----


def flow_of(name: str, more: dict | None = None, **attention: object) -> tuple[kvmill.Flow, dict]:
    spec = json.loads((FLOWS / f"{name}.json").read_text()) | (more or {})
    spec["select"] = {"topk_val": 4, "reserved_bos": 1, "reserved_eos": 2, "topk_ratio": "1/5"}
    return kvmill.Flow(spec, **SIZES, **attention), spec["select"]


def check_rows(
    pages: Pages, scores: Callable, select: dict, query: np.ndarray, got: tuple
) -> int:
    """Check that lists are equal and outputs close.  Returns how many rows left out pages."""
    indptr, lists, output = got
    sparse = 0
    for row in range(len(LENGTHS) * KV_HEADS):
        b, head = divmod(row, KV_HEADS)
        group = slice(head * GROUP, (head + 1) * GROUP)
        rows = pages.key[b][:, head], pages.value[b][:, head], query[b, group]
        key, value, ask = (array.astype(np.float64) for array in rows)
        want = selected(scores, key, ask, select)
        assert lists[indptr[row] : indptr[row + 1]].tolist() == want, (b, head)
        found = output[b, group].astype(np.float64)
        difference = np.abs(found - attended(key, value, ask, want))
        assert difference.max() <= (1e-5 if output.dtype == np.float32 else 1e-2), difference.max()
        assert is_lost_mass_a_bound(key, value, ask, want, found), (b, head)
        sparse += len(want) < pages.counts[b]
    return sparse


def against_numpy(
    rng: np.random.Generator,
    packs: Sequence[kvmill.Pack],
    name: str,
    scores: Callable,
    dtype: str,
) -> None:
    flow, select = flow_of(name, T1=dtype)
    pages = Pages(rng, dtype)
    fields = pages.append(flow, packs)
    query = rng.integers(-2, 3, (len(LENGTHS), HEADS, DIM)).astype(dtype)
    limits = {"batch": len(LENGTHS), "pages": max(pages.counts), "packs": packs, "threads": 2}
    index, decode, attend = (flow.plan(step, **limits) for step in ("index", "decode", "attend"))
    asked = {"query": query, "cache": pages.cache, **pages.requests()}
    indptr, lists = index.run(**asked, **fields)
    with ThreadPoolExecutor(2) as executor:
        output = decode.run(**asked, **fields, executor=executor)
    assert check_rows(pages, scores, select, query, (indptr, lists, output)) > 0
    along = attend.run(**asked, sel_indptr=indptr, sel=lists)
    assert along.tobytes() == output.tobytes()
    dense = attend.run(**asked)
    assert dense[4].tobytes() == output[4].tobytes() and dense[0].tobytes() != output[0].tobytes()


def quantised(
    rng: np.random.Generator, packs: Sequence[kvmill.Pack], bits: int, stored: int
) -> None:
    """Attend to a quantised cache along its lists; results are as close as the codes are."""
    flow, _ = flow_of("gqa_quest", T1="float16", quant_bit=bits, quant_group=8)
    pages = Pages(rng, "float16")
    codes = np.int8 if bits == 8 else np.uint8
    pages.cache = np.zeros((1, 2, KV_HEADS, POOL * PAGE, stored), codes)
    scale = np.zeros((1, 2, KV_HEADS, POOL * PAGE, DIM // 8), np.float16)
    fields, step = flow.fields(POOL), flow.plan("append", cache_pages=POOL, packs=packs)
    for b in range(len(LENGTHS)):
        current = {"current_key": pages.key[b], "current_value": pages.value[b], "scale": scale}
        step.run(cache=pages.cache, slot_mapping=pages.slots(b), **current, **fields)
    query = (rng.integers(-2, 3, (len(LENGTHS), HEADS, DIM)) / 16).astype(np.float16)
    counts = np.full(len(LENGTHS) * KV_HEADS + 1, -1), np.zeros(POOL * KV_HEADS, np.int32)
    output = flow.plan("decode", batch=len(LENGTHS), pages=POOL, packs=packs).run(
        query=query, cache=pages.cache, scale=scale, sel_indptr=counts[0], sel=counts[1],
        **pages.requests(), **fields
    )
    for row in range(len(LENGTHS) * KV_HEADS):
        b, head = divmod(row, KV_HEADS)
        group = slice(head * GROUP, (head + 1) * GROUP)
        own = counts[1][counts[0][row] : counts[0][row + 1]].tolist()
        assert own[:1] == [0][: len(own)] and len(own) <= pages.counts[b]
        rows = pages.key[b][:, head], pages.value[b][:, head], query[b, group]
        want = attended(*(rows[i].astype(np.float64) for i in (0, 1, 2)), own)
        assert np.abs(output[b, group] - want).max() <= (0.05 if bits == 8 else 0.5)


def absolute_ids(rng: np.random.Generator, packs: Sequence[kvmill.Pack]) -> None:
    flow, _ = flow_of("gqa_quest", T1="float32")
    pages = Pages(rng, "float32")
    fields = pages.append(flow, packs)
    query = np.ones((len(LENGTHS), HEADS, DIM), np.float32)
    blocks = np.full((POOL * KV_HEADS, 1, 1), -1, np.int64)
    scores = np.zeros(POOL * KV_HEADS, np.float32)
    step = flow.plan("index", batch=len(LENGTHS), pages=max(pages.counts), packs=packs)
    given = {"query": query, **pages.requests(), **fields}
    indptr, lists = step.run(**given, block_ids=blocks, scores=scores)
    blocks = blocks[:, 0, 0]
    assert (flow.count(LENGTHS) == indptr).all()
    assert np.isfinite(scores).any() and np.isnan(scores[0])
    whole = np.full(len(LENGTHS), 2**31 - 1)
    starts, _ = step.run(**given, topk_vals=whole)
    assert (np.diff(starts).reshape(-1, KV_HEADS) == np.array(pages.counts)[:, None]).all()
    assert (flow.count(LENGTHS, whole) == starts).all()
    for row in range(len(LENGTHS) * KV_HEADS):
        b, head = divmod(row, KV_HEADS)
        own = slice(indptr[row], indptr[row + 1])
        assert (blocks[own] == pages.ids[pages.indptr[b] + lists[own]] * KV_HEADS + head).all()
    assert (blocks[indptr[-1] :] == -1).all()


def bounds(rng: np.random.Generator, packs: Sequence[kvmill.Pack]) -> None:
    """Check that Quest's score of a page is at least the dot product with any of its keys, although
    its fields are narrower.  If all keys are the same, it is that dot product, rounded up."""
    spec = json.loads((FLOWS / "gqa_quest.json").read_text())
    spec["fields"] = [{**field, "dtype": "bfloat16"} for field in spec["fields"]]
    flow, pages = kvmill.Flow(spec, **SIZES, T1="float32"), Pages(rng, "float32")
    pages.key = [rng.standard_normal(key.shape).astype(np.float32) for key in pages.key]
    for key in pages.key:
        key[: 20 * PAGE] = np.repeat(key[: 20 * PAGE : PAGE], PAGE, 0)[: len(key[: 20 * PAGE])]
    fields = pages.append(flow, packs)
    query = rng.standard_normal((len(LENGTHS), HEADS, DIM)).astype(np.float32)
    scores = np.zeros(int(pages.indptr[-1]) * KV_HEADS, np.float32)
    step = flow.plan("index", batch=len(LENGTHS), pages=max(pages.counts), packs=packs)
    none_whole = np.where(np.array(pages.counts) > 3, 1, -1)
    step.run(query=query, scores=scores, topk_vals=none_whole, **pages.requests(), **fields)
    scored, first = 0, 0
    for b, head in np.ndindex(len(LENGTHS), KV_HEADS):
        row = scores[first : first + pages.counts[b]]
        first += pages.counts[b]
        for page in np.flatnonzero(np.isfinite(row)):
            keys = pages.key[b][page * PAGE : (page + 1) * PAGE, head].astype(np.float64)
            most = (query[b, head * GROUP : (head + 1) * GROUP] @ keys.T).max()
            assert row[page] >= most - 1e-6, (b, head, page)
            scored += 1
    assert scored > 100, scored


def run_command(
    command: str,
    spec: dict,
    arrays: dict[str, np.ndarray],
    outputs: Sequence[str],
    step: str = "index",
) -> list[np.ndarray]:
    with tempfile.TemporaryDirectory() as directory:
        where = Path(directory)
        (where / "flow.json").write_text(json.dumps(spec))
        words = []
        for name, array in arrays.items():
            np.save(where / f"{name}.npy", array)
            words += ["--in", f"{name}={where / name}.npy"]
        for name in outputs:
            words += ["--out", f"{name}={where / name}.out"]
        run = ["run", str(where / "flow.json"), "--portable", "--step", step]
        subprocess.run([command, *run, *words], check=True)
        return [np.load(where / f"{name}.out") for name in outputs]


def random_field(rng: np.random.Generator, field: np.ndarray) -> np.ndarray:
    """Draw a field; for float8, bits of numbers that are not NaN."""
    if field.dtype == np.uint8:
        return rng.integers(0, 127, field.shape, np.uint8)
    return rng.standard_normal(field.shape).astype(field.dtype)


def against_command(rng: np.random.Generator, command: str, path: Path) -> None:
    """Run one file in Python and by the command: lists and state are the same."""
    spec = json.loads(path.read_text())
    size = spec["attention"]["page_size"]
    spec["attention"] = {**SIZES, "T1": "float32", "page_size": size}
    spec["select"] |= {"topk_val": 3} if spec["select"]["topk_val"] not in ("all", 0) else {}
    flow, count = kvmill.Flow(spec), 30
    pages = count + spec["select"].get("reserved_bos", 1) + spec["select"].get("reserved_eos", 1)
    fields = {name: random_field(rng, field) for name, field in flow.fields(pages).items()}
    arrays = {
        "query": rng.standard_normal((1, HEADS, DIM)).astype(np.float32),
        "cache": rng.standard_normal((1, 2, KV_HEADS, pages * size, DIM)).astype(np.float32),
        "seq_len": np.array([pages * size]),
        "page_indptr": np.array([0, pages]),
        "page_ids": rng.permutation(pages).astype(np.int32),
    }
    for constant in flow._flow.constants[: flow._flow.constant_count]:
        shape = (1, KV_HEADS, constant.rows, constant.columns)
        if not constant.values:
            arrays[constant.name.decode()] = rng.standard_normal(shape).astype(np.float32)
    theirs = run_command(command, spec, {**arrays, **fields}, ["sel_indptr", "sel"])
    ours = flow.plan("index", batch=1, pages=pages, portable=True).run(**arrays, **fields)
    assert [a.tolist() for a in ours] == [a.tolist() for a in theirs]


def beside(rng: np.random.Generator, packs: Sequence[kvmill.Pack], command: str) -> None:
    """Fields that are adjacent in memory have the same contents as separate fields, and give the
    same output.  The command appends to them, given files without a layout."""
    spec = json.loads((FLOWS / "gqa_quest.json").read_text())
    spec["attention"] = {**SIZES, "T1": "float16"}
    pages = Pages(rng, "float16")
    query = rng.integers(-2, 3, (len(LENGTHS), HEADS, DIM)).astype(np.float16)
    limits = {"batch": len(LENGTHS), "pages": max(pages.counts), "packs": packs}
    results = []
    for layout in ("apart", "page", "head"):
        laid = {**spec, "field_layout": layout}
        flow = kvmill.Flow(laid)
        fields = pages.append(flow, packs)
        size = 2 * DIM
        apart = fields["lowest"].ctypes.data - fields["highest"].ctypes.data != size
        assert apart == (layout == "apart")
        outer = {"apart": (2, 1), "page": (4, 2), "head": (2, 2 * POOL)}[layout]
        assert fields["lowest"].strides[:2] == (size * outer[0], size * outer[1])
        output = flow.plan("decode", **limits).run(
            query=query, cache=pages.cache, **pages.requests(), **fields
        )
        arrays = {
            "current_key": pages.key[0],
            "current_value": pages.value[0],
            "slot_mapping": pages.slots(0),
            "cache": pages.cache,
            **{name: np.ascontiguousarray(field) * 0 for name, field in flow.fields(POOL).items()},
        }
        files = run_command(command, laid, arrays, ["highest", "lowest"], "append")
        held = [np.ascontiguousarray(fields[name]) for name in ("highest", "lowest")]
        own = pages.ids[: LENGTHS[0] // PAGE]
        assert all((a[own] == b[own]).all() for a, b in zip(files, held))
        results.append([array.tobytes() for array in (*held, *files, output)])
    assert results[0] == results[1] == results[2]


def sizes() -> None:
    opaque = re.search(r"uint64_t opaque\[(\d+)\]", (TREE / "include" / "kvmill_core.h").read_text())
    assert opaque and kvmill.c.Call.opaque.size == 8 * int(opaque[1])


def ratios() -> None:
    for name, elements in [("gqa_quest", Fraction(17, 8)), ("block_sparse", Fraction(33, 16))]:
        flow = kvmill.Flow(FLOWS / f"{name}.json")
        assert flow.token_ratio == elements, flow.token_ratio
        assert flow.get_token_ratio() == float(elements)
        assert list(flow.get_cache_meta_info().values())[-3:] == [(1, 128), (16, 128), (16, 128)]
        assert list(flow.get_cache_meta_info())[-2:] == ["k", "v"]
    int8 = kvmill.Flow(FLOWS / "gqa_quest.json", quant_bit=8, quant_group=32)
    assert int8.token_ratio_bytes > Fraction(9, 4)


def field_of(**given: object) -> dict:
    return {"fields": [{"name": "highest", "shape": [1, "head_dim"], **given}]}


# Sources that are not flows, and parts of the messages, which begin with the place.
BROKEN = [
    ({"select": {"topk_ratio": "1/0"}}, "/select/topk_ratio: the denominator of topk_ratio is 0"),
    ({"select": {"topk_ratio": None}}, "/select/topk_ratio: is not a fraction"),
    ({"select": 7}, "/select: is an integer; accepted: an object"),
    ({"select": {"cap": float("nan")}}, "accepted: what JSON can hold"),
    ({"select": {"cap": {1, 2}}}, "accepted: what JSON can hold"),
    ({"fields": [7]}, "/fields/0: is an integer; accepted: an object"),
    ({"fields": [{"name": "highest"}]}, "/fields/0/shape: is missing"),
    (field_of(shape=[1, "head_dim/0"]), '/fields/0/shape/1: is "head_dim/0"'),
    (field_of(shape=[1, "head_dim/-1"]), '/fields/0/shape/1: is "head_dim/-1"'),
    (field_of(shape=[1, None]), "/fields/0/shape/1: is null"),
    (field_of(name="cache"), '/fields/0: the name is "cache", which is another tensor\'s'),
    ({"constants": [{"name": "w", "shape": [1, 1]}]}, "/constants/0/values: is missing"),
    ({"index": [{"inputs": ["q"]}]}, "/index/0/op: is missing"),
    ({"index": [{"op": "Sigmoid", "inputs": ["q"], "output": "s"}]}, "/index/0/beta: is missing"),
    ({"index": [{"op": "Union", "inputs": ["q", "q"]}]}, "/index/0/second: is missing"),
    ({"index": [{"op": "GeMM", "inputs": ["q", "q", "q"], "output": "s"}]}, "/index/0/inputs: has 3"),
]


def files() -> None:
    """A file's own text is read, so messages have its line numbers; with other attributes the flow
    is the same."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "broken.json"
        path.write_text('{"op": "flow",\n "attention": {]}')
        refused("broken.json:2:16: ", lambda: kvmill.Flow(path), kvmill.KvmillError)
        refused("broken.json: ", lambda: kvmill.Flow(path, num_heads=8), ValueError)
        refused("nothing.json", lambda: kvmill.Flow(path.with_name("nothing.json")), OSError)
        spec = json.loads((FLOWS / "gqa_quest.json").read_text())
        spec["select"] |= {"topk_ratio": Fraction(1, 4), "cap": np.int64(64)}
        plain = {**spec, "select": {**spec["select"], "topk_ratio": "1/4", "cap": 64}}
        path.write_text(json.dumps(plain))
        flows = [kvmill.Flow(spec, **SIZES), kvmill.Flow(plain, **SIZES), kvmill.Flow(path, **SIZES)]
        counts = [flow.count(LENGTHS).tolist() for flow in flows]
        assert counts[0] == counts[1] == counts[2] and flows[0]._flow.select.cap == 64


def without_reader() -> None:
    """Without libkvmill_specs next to the library, the package works, and the message says what
    flows need.  Nothing is loaded before it is needed."""
    program = """
import kvmill
def loaded():
    return "libkvmill_specs" in open("/proc/self/maps").read()
kvmill.version(), kvmill.Flow, kvmill.Scatter
assert not loaded()
try:
    kvmill.Flow({"op": "flow"})
except (OSError, kvmill.KvmillError) as error:
    print(loaded(), error)
"""
    library = Path(os.environ["KVMILL_LIBRARY"]).resolve()

    def said(path: Path) -> str:
        environment = {**os.environ, "KVMILL_LIBRARY": str(path)}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
        return done.stdout.decode()

    assert said(library).startswith("True KVMILL_E_ATTRIBUTE: flow: ")
    with tempfile.TemporaryDirectory() as directory:
        alone = Path(directory) / "libkvmill.so"
        shutil.copy(library, alone)
        assert said(alone).startswith("False flow files and regions are read by libkvmill_specs.so.1, which")


def refusals() -> None:
    spec = json.loads((FLOWS / "gqa_quest.json").read_text())
    flow = kvmill.Flow(spec, **SIZES)
    refused('/op: is "flows"; accepted: "flow"', lambda: kvmill.Flow({"op": "flows"}), ERRORS)
    refused('/fieldz: is not a known key; did you mean "fields"?', lambda: kvmill.Flow({**spec, "fieldz": []}), ERRORS)
    headless = {"op": "flow", "attention": {"num_heads": 8, "T1": "float32"}}
    refused("/attention/head_dim: is missing", lambda: kvmill.Flow(headless), ERRORS)
    refused("/attention: page_size is 0", lambda: kvmill.Flow(spec, page_size=0), ERRORS)
    shapeless = {**spec, "fields": [{"name": "highest", "shape": [1, "head_size"]}]}
    refused('/fields/0/shape/1: is "head_size"', lambda: kvmill.Flow(shapeless), ERRORS)
    for broken, words in BROKEN:
        refused(words, lambda broken=broken: kvmill.Flow({**spec, **broken}, **SIZES), ERRORS)
    endless = {**spec, "select": {"reserved_eos": -1}}
    refused("/select/reserved_eos: reserved_eos is -1", lambda: kvmill.Flow(endless), ERRORS)
    refused("append, index, attend, decode", lambda: flow.plan("score"), ERRORS)
    refused("limits.pages is -1", lambda: flow.plan("index", pages=-1), ERRORS)
    refused("highest", lambda: flow.plan("index").prepare(nothing=None), ERRORS)
    step = flow.plan("append", cache_pages=4)
    fields = flow.fields(4)
    fields["lowest"].flags.writeable = False
    refused("lowest is read-only", lambda: step.run(**fields), ERRORS)
    refused("seq_len has type float64", lambda: step.run(**flow.fields(4), seq_len=[1.5]), ERRORS)
    keeping = kvmill.Flow(FLOWS / "running_avg_block_sparse.json", **SIZES)
    fields = keeping.fields(4)
    fields["running"].flags.writeable = False
    for name in ("index", "decode"):
        refused("running is read-only", lambda name=name: keeping.plan(name).prepare(**fields), ERRORS)


def transposed(rng: np.random.Generator, packs: Sequence[kvmill.Pack]) -> None:
    """Keys that are transposed in their page give the same results, with the same lists."""
    pages, caches, found = Pages(rng, "float32"), [], []
    query = rng.integers(-2, 3, (len(LENGTHS), HEADS, DIM)).astype(np.float32)
    limits = {"batch": len(LENGTHS), "pages": max(pages.counts), "packs": packs}
    for more in ({}, {"cache_format": "transposed"}):
        flow, _ = flow_of("gqa_quest", T1="float32", **more)
        pages.cache[...] = 0
        fields = pages.append(flow, packs)
        asked = {"query": query, "cache": pages.cache, **pages.requests(), **fields}
        found.append([flow.plan(step, **limits).run(**asked) for step in ("index", "decode")])
        caches.append(pages.cache[0].reshape(2, KV_HEADS, -1, PAGE, DIM).copy())
    turned = caches[1][0].reshape(KV_HEADS, -1, DIM, PAGE)
    assert (caches[0][0].swapaxes(2, 3) == turned).all() and (caches[0][1] == caches[1][1]).all()
    assert all((ours == theirs).all() for ours, theirs in zip(found[0][0], found[1][0]))
    assert np.abs(found[0][1] - found[1][1]).max() < 1e-5


def run(tap: Tap, command: str, packs: Sequence[kvmill.Pack], seed: int) -> None:
    rng = np.random.default_rng(seed)
    for name, scores in [("gqa_quest", quest_scores), ("block_sparse", centroid_scores)]:
        for dtype in ("float32", "float16"):
            test = partial(against_numpy, rng, packs, name, scores, dtype)
            tap.run(f"flow {name} of {dtype}", test)
    tap.run("flow of an int8 cache", lambda: quantised(rng, packs, 8, DIM))
    tap.run("flow of an int4 cache", lambda: quantised(rng, packs, 4, DIM // 2))
    tap.run("absolute ids of a flow", lambda: absolute_ids(rng, packs))
    tap.run("bounds are bounds in narrower fields", lambda: bounds(rng, packs))
    for path in sorted(FLOWS.glob("*.json")):
        tap.run(f"{path.name}, as the command runs it", partial(against_command, rng, command, path))
    tap.run("fields of a flow beside each other", lambda: beside(rng, packs, command))
    tap.run("keys of a flow, transposed", lambda: transposed(rng, packs))
    tap.run("token ratios of flows", ratios)
    tap.run("sizes of what the library fills", sizes)
    tap.run("flows are refused", refusals)
    tap.run("flow files", files)
    tap.run("without the reader of flow files", without_reader)
