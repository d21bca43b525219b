"""Classes of kvmill.vflow, compared with what their methods compute in NumPy: those of examples/vflow and
those that are written as users write them, in tests/vflow.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import tempfile
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import kvmill
import kvmill.vflow
import numpy as np
import vflow_numpy
from kvmill.vflow import op_table, ops
from tap import Tap, refused

TREE = Path(kvmill.__file__).resolve().parents[3]
EXAMPLES = sorted((TREE / "examples" / "vflow").glob("*.py"))
USERS = sorted((TREE / "tests" / "vflow").glob("*.py"))
SIZES = {"num_heads": 8, "num_kv_heads": 2, "head_dim": 16, "cache_layout": 3, "T1": "float32"}
LATENT = {"num_kv_heads": 1, "head_dim": 24, "value_head_dim": 16}
SMALL = {"topk_val": 3, "page_reserved_bos": 1, "page_reserved_eos": 2, "topk_ratio": "1/5"}
LENGTHS = (700, 1, 0, 333, 64)
STEPS = 3


def registered(path: Path) -> list[str]:
    return re.findall(r'^@register\("(\w+)"\)', path.read_text(), re.M)


def is_latent(path: Path) -> bool:
    return "vFlowMLA" in path.read_text()


# ---- A cache of several requests ----


class Scene:
    """Requests in shuffled pages.  Numbers are small integers, so that most sums are exact."""

    def __init__(self, rng: np.random.Generator, flow: kvmill.vflow.VFlow) -> None:
        self.rng, self.flow, spec = rng, flow, flow.spec
        sizes, select = spec["attention"], spec["select"]
        self.kv_heads, self.group = sizes["num_kv_heads"], sizes["num_heads"] // sizes["num_kv_heads"]
        self.size, self.dim = sizes["page_size"], sizes["head_dim"]
        self.block = spec.get("block_size", self.size)
        self.parts = self.size // self.block
        self.is_view = "value_view" in sizes
        self.lengths = [length // 4 if self.size == 1 else length for length in LENGTHS]
        counts = [-(-length // self.size) for length in self.lengths]
        self.pool = sum(counts) + 3
        self.indptr = np.cumsum([0, *counts])
        self.ids = rng.permutation(self.pool)[: self.indptr[-1]].astype(np.int32)
        ratio = Fraction(select.get("topk_ratio", 0))
        k = 2**31 if select["topk_val"] == "all" else select["topk_val"]
        self.select = {"k": k, "bos": select["reserved_bos"], "eos": select["reserved_eos"]}
        self.select |= {"numerator": ratio.numerator, "denominator": ratio.denominator}

    def numbers(self, *shape: int) -> np.ndarray:
        return self.rng.integers(-4, 5, shape).astype(np.float32)

    def slots(self, b: int) -> np.ndarray:
        tokens = np.arange(self.lengths[b])
        return self.ids[self.indptr[b] + tokens // self.size].astype(np.int64) * self.size + tokens % self.size

    def own_rows(self) -> dict[str, tuple[int, int]]:
        """Return (heads, columns) of the fields whose rows come with tokens."""
        fields = [f for f in self.flow.spec.get("fields", []) if f.get("appended")]
        return {f["name"]: (f.get("heads", self.kv_heads), f["shape"][1]) for f in fields}

    # In vortex_torch's order, block ((page * kv heads) + head) * blocks of a page + block.

    def spread(self, rows: np.ndarray) -> np.ndarray:
        """Return rows of slots [slots, heads, columns] as [S, block, columns]."""
        shared = np.repeat(rows, self.kv_heads // rows.shape[1], 1)
        pages = shared.reshape(self.pool, self.parts, self.block, self.kv_heads, -1)
        return pages.transpose(0, 3, 1, 2, 4).reshape(-1, self.block, rows.shape[2]).astype(np.float64)

    def spread_field(self, field: np.ndarray) -> np.ndarray:
        """Return a field of kvmill, [blocks, heads, r, c], as [S, r, c]."""
        shared = np.repeat(field, self.kv_heads // field.shape[1], 1)
        split = shared.reshape(self.pool, self.parts, self.kv_heads, *field.shape[2:])
        return split.swapaxes(1, 2).reshape(-1, *field.shape[2:]).astype(np.float64)

    def block_ids(self, b: int, head: int) -> np.ndarray:
        blocks = np.arange(-(-self.lengths[b] // self.block))
        pages = self.ids[self.indptr[b] + blocks // self.parts].astype(np.int64)
        return (pages * self.kv_heads + head) * self.parts + blocks % self.parts

    def complete(self) -> np.ndarray:
        ends = [(b, h) for b in range(len(self.lengths)) for h in range(self.kv_heads)]
        return np.concatenate([self.block_ids(b, h)[: self.lengths[b] // self.block] for b, h in ends])


class Contents:
    """What the cache holds: rows of slots."""

    def __init__(self, scene: Scene) -> None:
        slots = scene.pool * scene.size
        self.scene = scene
        self.key = np.zeros((slots, scene.kv_heads, scene.dim), np.float32)
        self.value = np.zeros_like(self.key)
        self.own = {n: np.zeros((slots, *size), np.float32) for n, size in scene.own_rows().items()}
        kinds = 1 if scene.is_view else 2
        self.cache = np.zeros((1, kinds, scene.kv_heads, slots, scene.dim), np.float32)

    def append(self) -> dict[str, np.ndarray]:
        """Append all tokens with kvmill, and keep their rows.  Returns kvmill's fields."""
        scene = self.scene
        fields = scene.flow.fields(scene.pool)
        step = scene.flow.plan("append", cache_pages=scene.pool, portable="allow")
        for b, length in enumerate(scene.lengths):
            slots = scene.slots(b)
            given = {}
            for name, rows in {"key": self.key, "value": self.value, **self.own}.items():
                rows[slots] = scene.numbers(length, *rows.shape[1:])
                given[f"current_{name}"] = rows[slots]
            if scene.is_view:
                del given["current_value"]
            step.run(cache=self.cache, slot_mapping=slots, **given, **fields)
        return fields

    def stored(self) -> dict[str, np.ndarray]:
        """Return k, v and the fields as vortex_torch stores them; float8 codes with their scales."""
        scene = self.scene
        stored = {"k": scene.spread(self.key), "v": scene.spread(self.value)}
        for field in scene.flow.spec.get("fields", []):
            name = field["name"]
            blocks = scene.pool * scene.kv_heads * scene.parts
            stored.setdefault(name, np.full((blocks, *field["shape"]), np.nan))
            if name in self.own:
                stored[name] = scene.spread(self.own[name])
            if "scales" in field:
                stored[field["scales"]] = powers_of_two(stored[name])
                stored[name] = stored[name] / stored[field["scales"]]
        return stored


def powers_of_two(rows: np.ndarray) -> np.ndarray:
    largest = np.maximum(np.abs(rows).max(-1, keepdims=True), 1e-4)
    return np.exp2(np.ceil(np.log2(largest / 448)))


# ---- The class in NumPy ----


class InNumpy:
    def __init__(self, scene: Scene, path: Path, name: str, stored: dict[str, np.ndarray]) -> None:
        self.scene, self.stored = scene, stored
        self.flow = vflow_numpy.classes(path)[name]()
        sizes = (LATENT["value_head_dim"], scene.dim - LATENT["value_head_dim"])
        self.flow.create_cache(scene.block, *(sizes if is_latent(path) else (scene.dim,)))
        self.stored["latent"] = self.stored["k"]
        rows = [(b, h) for b in range(len(scene.lengths)) for h in range(scene.kv_heads)]
        self.ids = [scene.block_ids(b, h) for b, h in rows]
        vflow_numpy.Given.rows = len(rows)
        by_request = np.arange(len(rows)).reshape(-1, scene.kv_heads).tolist()
        each = [[row] for row in range(len(rows))]
        self.lists = by_request if scene.flow.spec["select"].get("scope") == "request" else each

    def summarise(self) -> None:
        done = self.scene.complete()
        cache = {name: vflow_numpy.Array(a[done], "blocks", a) for name, a in self.stored.items()}
        self.flow.forward_cache(cache, np.arange(8), vflow_numpy.Blocks(done))

    def index(self, query: np.ndarray, inputs: dict[str, np.ndarray]) -> tuple[vflow_numpy.Rows, np.ndarray]:
        """query: [requests, heads, D]; inputs: [requests, kv heads, r, c].  Returns ctx and o."""
        ids = np.concatenate(self.ids)
        rows = vflow_numpy.Rows(np.array([len(own) for own in self.ids]), ids, self.lists, self.scene.select)
        for name, given in inputs.items():
            getattr(self.flow, name).a = given.reshape(-1, *given.shape[2:]).astype(np.float64)
        q = query.reshape(-1, self.scene.group, self.scene.dim).astype(np.float64)
        cache = {name: vflow_numpy.Array(a[ids], "ragged", a) for name, a in self.stored.items()}
        sizes = [rows.budget(int(rows.counts[own[0]])) for own in self.lists]
        o = vflow_numpy.Array(np.full((sum(sizes), 1, 1), -1), "batched")
        self.flow.forward_indexer(vflow_numpy.Array(q, "batched"), o, cache, rows)
        if not rows.chosen:  # nothing is scored
            rows.choose(np.zeros(len(ids)))
            o.a[...] = rows.packed()
        return rows, o.a


# ---- Comparisons ----


def inputs_of(scene: Scene) -> dict[str, np.ndarray]:
    constants = [c for c in scene.flow.spec.get("constants", []) if c["values"] == "input"]
    shape = (len(scene.lengths), scene.kv_heads)
    return {c["name"]: scene.numbers(*shape, *c["shape"]) for c in constants}


def check_fields(scene: Scene, fields: dict[str, np.ndarray], stored: dict[str, np.ndarray]) -> None:
    done = scene.complete()
    for name, field in fields.items():
        ours = scene.spread_field(field)[done]
        if field.dtype == np.uint8:
            continue  # codes, which the scores show
        np.testing.assert_allclose(ours, stored[name][done], rtol=2e-6, atol=1e-6, err_msg=name)


def check_lists(scene: Scene, found: tuple[np.ndarray, np.ndarray], rows: vflow_numpy.Rows, exact: bool) -> int:
    """Lists are equal.  Where scores are not exact, a few pages at the threshold may differ.  Returns how
    many lists left out pages."""
    indptr, lists = found
    assert len(indptr) == len(rows.lists) + 1
    sparse = 0
    for own, first, last, wanted in zip(rows.lists, indptr, indptr[1:], rows.chosen):
        ours = lists[first:last].tolist()
        different = set(ours) ^ set(wanted)
        assert len(ours) == len(wanted) and len(different) <= (0 if exact else 2), (own, ours, wanted)
        sparse += len(wanted) < rows.counts[own[0]]
    return sparse


INEXACT = ("Softmax", "Normalize", "L2Norm", "Sigmoid", "Silu", "Exp", "Log", "Conv1d")


def against_numpy(rng: np.random.Generator, path: Path, name: str, **settings: Any) -> None:
    flow = kvmill.vflow.load(f"{path}:{name}", **settings)
    scene = Scene(rng, flow)
    contents = Contents(scene)
    fields = contents.append()
    exact = not any(word in flow.json for word in INEXACT)
    batch, pages = len(scene.lengths), int(np.diff(scene.indptr).max())
    plan = flow.plan("index", batch=batch, pages=pages, portable="allow")
    request = {"seq_len": scene.lengths, "page_indptr": scene.indptr, "page_ids": scene.ids}
    with vflow_numpy.modules():
        ours = InNumpy(scene, path, name, contents.stored())
        ours.summarise()
        check_fields(scene, fields, ours.stored)
        sparse = 0
        for _ in range(STEPS):
            query, inputs = scene.numbers(batch, scene.kv_heads * scene.group, scene.dim), inputs_of(scene)
            ids = np.full((len(scene.ids) * scene.parts * scene.kv_heads, 1, 1), -1, np.int64)
            asked = {"query": query, "cache": contents.cache, **request, **fields, **inputs}
            found = plan.run(**asked, block_ids=ids)
            rows, o = ours.index(query, inputs)
            sparse += check_lists(scene, found, rows, exact)
            assert not exact or (ids[: len(o)] == o).all()
    assert sparse > 0 or flow.spec["select"]["topk_val"] == "all"
    check_fields(scene, fields, ours.stored)


def example(rng: np.random.Generator, path: Path, name: str) -> None:
    """Compare an example in sizes with which it leaves pages out."""
    more: dict[str, Any] = {**SIZES}
    own = kvmill.vflow.load(f"{path}:{name}").spec
    if "value_view" in own["attention"]:
        more |= LATENT
    kept = own["select"]["reserved_bos"], own["select"]["reserved_eos"]
    more |= {"page_reserved_bos": min(kept[0], 2), "page_reserved_eos": min(kept[1], 3)}
    is_scored = own["select"]["topk_val"] not in (0, "all")
    more |= {"topk_val": 12} if "Union" in str(own) else {"topk_val": 3} if is_scored else {}
    against_numpy(rng, path, name, **more)


# ---- Every op ----

ONE_OP = """
from vortex_torch.flow import vFlow, register
import vortex_torch.cache as vc, vortex_torch.indexer as vi

@register("one_op")
class OneOp(vFlow):
    def __init__(self):
        self.mean, self.dot, self.other, self.select, self.key = vi.Mean(), vi.GeMM(), vi.GeMM(), vi.topK(), vc.Mean()
        self.low, self.after, self.op = vc.Min(), {after}, {module}.{made}

    def create_cache(self, block_size, head_dim):
        return {{"mean": (1, head_dim), "low": (1, head_dim)}}

    def forward_cache(self, cache, loc, ctx):
        x, y = cache["k"], cache["v"]
        self.key({cache}, cache["mean"], loc=loc, ctx=ctx)
        self.low(cache["k"], cache["low"], loc=loc, ctx=ctx)

    def forward_indexer(self, q, o, cache, ctx):
        mean = self.mean(q, ctx=ctx)
        x, y = self.dot(mean, cache["mean"], ctx=ctx), self.other(mean, cache["low"], ctx=ctx)
        self.select({index}, o, ctx=ctx)
"""

# How an op is made, if not by its name alone.
MADE = {
    "MaskSlice": "MaskSlice(0, 1, 1, alpha=2, beta=-1)", "Reshape": "Reshape(-1, {size})", "Add": "Add(alpha=2, beta=-0.5)",
    "Conv1d": "Conv1d([[[2]], [[-1]], [[0.5]], [[1]]])", "Sigmoid": "Sigmoid(0.5, -0.25)", "Silu": "Silu(0.5, -0.25)",
    "Add_Mul": "Add_Mul(1, -2)", "Abs": "Abs(1, -2)", "Exp": "Exp(1, 0.125)", "Log": "Log(100, 0.5)", "Relu": "Relu(1, -3)",
}  # fmt: skip
# What follows it in forward_cache: back to rows of head_dim; masks of 0 and -1e30 to 0 and 1, whose means are exact.
AFTER = {"GeMM": "vc.Reshape(-1, 4, 16)", "Reshape": "vc.Reshape(-1, 8, 16)", "Where": "vc.Relu(-0.5, 1)"}
TWO_INPUTS = ("GeMM", "GeMV", "Kron", "Multiply", "Maximum", "Minimum", "Add", "Where")
ELSEWHERE = ("Load", "Save", "Fill", "topK", "approxTopK")


def one_op(rng: np.random.Generator, module: str, name: str) -> None:
    """Compare a flow with the op between others."""
    two = name.startswith(TWO_INPUTS) and name != "Add_Mul"
    inputs = "x, y" if two else "x"
    is_cache = module == "vc"
    made = MADE.get(name, f"{name}()").format(size="16, 8" if is_cache else "1, 1")
    call = f"self.op({inputs}, {'None, loc=loc, ' if is_cache else ''}ctx=ctx)"
    after = AFTER.get(name, AFTER["Where"] if name.startswith("Where") else "vc.Add_Mul()")
    summary = f"self.after({call}, None, loc=loc, ctx=ctx)" if is_cache else 'self.after(cache["k"], None, loc=loc, ctx=ctx)'
    after = after if is_cache else "vc.Add_Mul()"
    text = ONE_OP.format(module=module, made=made, after=after, cache=summary, index="x" if is_cache else call)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "one_op.py"
        path.write_text(text)
        against_numpy(rng, path, "one_op", **SIZES, **SMALL, page_size=8)


def every_op(rng: np.random.Generator) -> None:
    for module, known in (("vi", op_table.INDEXER), ("vc", op_table.CACHE_SIDE)):
        for name, cls in known.items():
            if name not in ELSEWHERE and not issubclass(cls, ops.AbsentOp):
                try:
                    one_op(rng, module, name)
                except Exception as error:
                    raise AssertionError(f"{module}.{name}") from error


# ---- The same flow as the file ----


def resolved(value: Any, words: dict[str, int]) -> Any:
    """Replace words for sizes, and products and quotients of them, by numbers."""
    if isinstance(value, dict):
        return {key: resolved(item, words) for key, item in value.items()}
    if isinstance(value, list):
        return [resolved(item, words) for item in value]
    first, *rest = re.split("([*/])", value) if isinstance(value, str) else [value]
    if first not in words:
        return value
    number = Fraction(words[first])
    for sign, factor in zip(rest[::2], rest[1::2]):
        other = words.get(factor) or int(factor)
        number = number * other if sign == "*" else number / other
    return int(number)


def same_as_file(path: Path) -> None:
    want = json.loads(path.read_text())
    sizes, dims = want["attention"], want.pop("dims", {})
    words = {"head_dim": sizes["head_dim"], "page_size": sizes["page_size"], **dims}
    words |= {"block_size": want.get("block_size", sizes["page_size"])}
    words |= {"group": sizes["num_heads"] // sizes["num_kv_heads"]}
    want = {key: value if key == "attention" else resolved(value, words) for key, value in want.items()}
    want["select"] = {"reserved_bos": 1, "reserved_eos": 1, **want["select"]}
    del want["purpose"]
    example = next(file for file in EXAMPLES if path.stem in registered(file))
    assert kvmill.vflow.load(f"{example}:{path.stem}").spec == want


def guide() -> None:
    """The guide's class, and its program."""
    text = (TREE / "doc" / "guide" / "sparse.md").read_text()
    section = text[text.index("## From a vFlow class") : text.index("## Use it from C")]
    own, program = re.findall(r"^```python\n(.*?)^```", section, re.M | re.S)
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "my_flow.py").write_text(own)
        os.chdir(directory)
        try:
            names: dict[str, Any] = {}
            exec(program, names)
        finally:
            os.chdir(before)
    assert names["flow"].token_ratio == 2 + Fraction(1, 32)
    assert json.loads(names["flow"].json) == names["flow"].spec


def generations() -> None:
    """The base class has the functions of both generations of vortex_torch."""
    path = TREE / "tests" / "vflow" / "gated_bound.py"
    with kvmill.vflow.stand_ins():
        names: dict[str, Any] = {"__name__": "users"}
        exec(path.read_text(), names)
        import torch
    flow = names["GatedBound"]()
    shapes = {"max": (1, 128), "min": (1, 128), "k": (16, 128), "v": (16, 128)}
    assert flow.get_cache_meta_info(16, 128) == shapes and list(shapes)[-2:] == ["k", "v"]
    assert flow.get_token_ratio(16, 128) == 2.125 and flow.get_token_ratio() is None
    flow.initialize(16, 128, "fp8_e5m2", torch.bfloat16)
    assert flow.get_token_ratio() == 2.25 and flow.get_aux_token_ratio() == 0.25
    info = flow.get_cache_meta_info()
    assert info == {name: (shape, info[name][1]) for name, shape in shapes.items()}
    assert [str(info[name][1]) for name in ("max", "k")] == ["torch.bfloat16", "torch.float8_e5m2"]
    ours = kvmill.vflow.load(flow, num_heads=8, num_kv_heads=2, page_size=16)
    assert ours.get_cache_meta_info() == shapes and ours.get_token_ratio() == 2.125
    flow.create_cache = lambda block_size, head_dim: {"k": (1, head_dim)}
    refused("create_cache declares 'k'", lambda: flow.get_cache_meta_info(16, 128), AssertionError)


def without_stand_ins() -> None:
    """Outside of stand_ins, torch and vortex_torch are as absent as they are."""
    kvmill.vflow.load(f"{USERS[0]}", **SIZES)
    left = [name for name in sys.modules if name.partition(".")[0] in ("torch", "vortex_torch")]
    assert not left, left
    refused("No module named 'vortex_torch'", lambda: importlib.import_module("vortex_torch"), ImportError)


def refusals() -> None:
    error, path = kvmill.vflow.VFlowError, TREE / "examples" / "vflow" / "quest.py"
    refused("object has no create_cache; accepted: a class", lambda: kvmill.vflow.load(object), error)
    refused("quest.py: has no class", lambda: kvmill.vflow.load(f"{path}:None"), error)
    refused("attention/num_head: is not a known key; did you mean", lambda: kvmill.vflow.load(f"{path}:Quest", num_head=8), error)
    refused("num_heads is 9; accepted: a multiple of num_kv_heads, 8", lambda: kvmill.vflow.load(f"{path}:Quest", num_heads=9), error)
    refused("select/order: is \"best\"", lambda: kvmill.vflow.load(f"{path}:Quest", order="best"), error)
    refused("topk_ratio is 'some'", lambda: kvmill.vflow.load(f"{path}:Quest", topk_ratio="some"), error)
    for kind, words in ((kvmill.vflow.Input, "the shape of an Input is (0, 1)"), (kvmill.vflow.Constant, "two positive")):
        refused(words, lambda kind=kind: kind((0, 1)) if kind is kvmill.vflow.Input else kind(1.0, (0, 1)), error)
    refused("rows of as many numbers", lambda: kvmill.vflow.Constant([[1, 2], [3]]), error)


def run(tap: Tap, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tap.run("the guide's vFlow class", guide)
    tap.run("both generations of vFlow's functions", generations)
    tap.run("stand-ins are there only while a class is read", without_stand_ins)
    tap.run("vFlow classes are refused", refusals)
    for path in sorted((TREE / "configs" / "flows").glob("*.json")):
        tap.run(f"a class of examples/vflow is {path.name}", partial(same_as_file, path))
    tap.run("every op of a vFlow class", partial(every_op, rng))
    for path in EXAMPLES:
        for name in registered(path):
            tap.run(f"{name} of {path.name} is what NumPy makes of it", partial(example, rng, path, name))
    for path in USERS:
        for name in registered(path):
            size = {"page_size": 1} if "tokens" in path.stem else {"page_size": 8}
            size |= LATENT if is_latent(path) else {}
            test = partial(against_numpy, rng, path, name, **{**SIZES, **SMALL, **size})
            tap.run(f"{name} of a user is what NumPy makes of it", test)
