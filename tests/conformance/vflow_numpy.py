"""Runs vFlow classes on NumPy arrays, in the shapes in which vortex_torch describes them: q [B, H_q, D]
with a row for each request and kv head, fields [S, r, c] with the pages of all rows one after the other,
o [S_sparse, 1, 1].  It shares no code with kvmill.vflow.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

MASKED = -1e30


class Array:
    """kind: "batched" [B, r, c], "ragged" [S, r, c], or in forward_cache "blocks": those that are
    complete.  A field knows where it is stored."""

    def __init__(self, a: np.ndarray, kind: str, stored: np.ndarray | None = None) -> None:
        self.a, self.kind, self.stored = a, kind, stored

    @property
    def shape(self) -> tuple[int, ...]:
        return self.a.shape

    def dim(self) -> int:
        return self.a.ndim

    def mean(self, dim: int, keepdim: bool = True) -> Array:
        return Array(self.a.mean(dim, keepdims=True), self.kind)


class Rows:
    """ctx of forward_indexer.  counts: pages of each row; ids: the numbers of their blocks; lists: the
    rows whose scores are added up for a list."""

    def __init__(self, counts: np.ndarray, ids: np.ndarray, lists: list[list[int]], select: dict[str, int]) -> None:
        self.counts, self.ids, self.lists, self.select = counts, ids, lists, select
        self.first = np.cumsum([0, *counts])
        self.row_of = np.repeat(np.arange(len(counts)), counts)
        self.chosen: list[list[int]] = []

    def budget(self, pages: int) -> int:
        kept = self.select["bos"] + self.select["k"] + self.select["eos"]
        return min(pages, max(kept, pages * self.select["numerator"] // self.select["denominator"]))

    def scored(self, row: int) -> slice:
        """The pages that are scored; none where the row is read whole."""
        pages = self.counts[row]
        if pages <= self.budget(pages):
            return slice(self.first[row], self.first[row])
        return slice(self.first[row] + self.select["bos"], self.first[row + 1] - self.select["eos"])

    def choose(self, scores: np.ndarray, others: np.ndarray | None = None, second: int = 0) -> None:
        for rows in self.lists:
            pages = int(self.counts[rows[0]])
            best = range(pages)
            if pages > self.budget(pages):
                mine = sum(scores[self.scored(row)] for row in rows)
                yours = None if others is None else sum(others[self.scored(row)] for row in rows)
                best = self._best(pages, mine, yours, second)
            self.chosen.append(sorted(best))

    def _best(self, pages: int, scores: np.ndarray, others: np.ndarray | None, second: int) -> list[int]:
        bos, eos = self.select["bos"], self.select["eos"]
        count = self.budget(pages) - bos - eos
        order = np.argsort(-scores, kind="stable").tolist()
        taken = order[: max(count - second, 0)]
        if others is not None:
            rest = [p for p in np.argsort(-others, kind="stable").tolist() if p not in taken]
            taken += rest[: count - len(taken)]
        return [*range(bos), *(bos + p for p in taken), *range(pages - eos, pages)]

    def packed(self) -> np.ndarray:
        """The lists as o has them."""
        firsts = [self.first[rows[0]] for rows in self.lists]
        lists = [self.ids[first + np.array(own, np.int64)] for first, own in zip(firsts, self.chosen)]
        return np.concatenate(lists).reshape(-1, 1, 1)


class Blocks:
    """ctx of forward_cache.  done: the numbers of the blocks that are complete."""

    def __init__(self, done: np.ndarray) -> None:
        self.done = done


# ---- Ops ----

Compute = Callable[..., np.ndarray]


class Op:
    names: tuple[str, ...] = ()
    defaults: dict[str, Any] = {}

    def __init__(self, *args: Any, **given: Any) -> None:
        self.__dict__.update({**self.defaults, **dict(zip(self.names, args)), **given})

    def compute(self, *arrays: np.ndarray) -> np.ndarray:
        raise NotImplementedError


class IndexOp(Op):
    def __call__(self, *tensors: Array, ctx: Rows) -> Any:
        kind = "ragged" if any(t.kind == "ragged" for t in tensors) else "batched"
        wide = [t.a[ctx.row_of] if kind == "ragged" and t.kind == "batched" else t.a for t in tensors]
        if self.__dict__.get("dim") == 0:
            return self.over_pages(tensors[0], ctx)
        return Array(self.compute(*wide), kind)

    def over_pages(self, x: Array, ctx: Rows) -> Array:
        rows = [x.a[ctx.scored(row)] for row in range(len(ctx.counts))]
        found = [self.compute(r) if len(r) else np.zeros((1, *x.shape[1:])) for r in rows]
        return Array(np.concatenate(found), "batched")


class PagesOp(IndexOp):
    """An op that gives as many pages as it takes.  in_place: it changes its input."""

    in_place = True

    def over_pages(self, x: Array, ctx: Rows) -> Array:
        result = x.a.copy()
        for row in range(len(ctx.counts)):
            own = ctx.scored(row)
            if own.stop > own.start:
                result[own] = self.compute(x.a[own])
        if not self.in_place:
            return Array(result, "ragged")
        x.a = result
        return x


class CacheOp(Op):
    def __call__(self, *tensors: Any, output: Any = (), x: Any = None, loc: object, ctx: Blocks) -> Array:
        *inputs, output = tensors if output == () else (*((x,) if x is not None else tensors), output)
        result = self.compute(*(t.a for t in inputs))
        if output is None:
            return Array(result, "blocks")
        if output.stored is not None:
            output.stored[ctx.done] = result
        output.a = result
        return output


def of(base: type[Op], compute: Compute, names: str = "", **defaults: Any) -> type[Op]:
    """Return an op: compute gets the op object and arrays."""
    body = {"compute": compute, "names": tuple(names.split()), "defaults": defaults}
    return type("NumpyOp", (base,), body)


REDUCTIONS = {
    "Mean": lambda x, dim: x.mean(dim, keepdims=True),
    "Max": lambda x, dim: x.max(dim, keepdims=True),
    "Min": lambda x, dim: x.min(dim, keepdims=True),
    "Sum": lambda x, dim: x.sum(dim, keepdims=True),
    "L2Norm": lambda x, dim: np.sqrt((x * x).sum(dim, keepdims=True)),
}
BINARY = {
    "Multiply": lambda op, x, y: x * y,
    "Maximum": lambda op, x, y: np.maximum(x, y),
    "Minimum": lambda op, x, y: np.minimum(x, y),
    "WhereEqual": lambda op, x, y: np.where(x == y, 0, MASKED),
    "WhereNotEqual": lambda op, x, y: np.where(x != y, 0, MASKED),
    "WhereGreater": lambda op, x, y: np.where(x > y, 0, MASKED),
    "WhereGreaterEqual": lambda op, x, y: np.where(x >= y, 0, MASKED),
    "WhereLess": lambda op, x, y: np.where(x < y, 0, MASKED),
    "WhereLessEqual": lambda op, x, y: np.where(x <= y, 0, MASKED),
    "GeMM": lambda op, x, y: y @ x.transpose(0, 2, 1),
}
UNARY: dict[str, tuple[Compute, float, float]] = {
    "Relu": (lambda op, x: np.where(x >= op.alpha, x, op.beta), 0, 0),
    "Sigmoid": (lambda op, x: 1 / (1 + np.exp(op.beta * x + op.alpha)), 0, 0),
    "Silu": (lambda op, x: x / (1 + np.exp(op.beta * x + op.alpha)), 0, 0),
    "Add_Mul": (lambda op, x: op.beta * x + op.alpha, 0, 1),
    "Abs": (lambda op, x: np.abs(op.beta * x + op.alpha), 0, 1),
    "Log": (lambda op, x: np.log(op.beta * x + op.alpha), 0, 1),
    "Exp": (lambda op, x: np.exp(op.beta * x + op.alpha), 0, 1),
}


def interleaved(op: Any, x: np.ndarray, reduce: Callable[[np.ndarray, int], np.ndarray]) -> np.ndarray:
    s, r, c = x.shape
    shape = (s, r // op.k, op.k, c) if op.dim == 1 else (s, r, c // op.k, op.k)
    return np.squeeze(reduce(x.reshape(shape), op.dim + 1), op.dim + 1)


def mask_slice(op: Any, x: np.ndarray) -> np.ndarray:
    places = np.arange(x.shape[op.dim]).reshape((1, -1, 1) if op.dim == 1 else (1, 1, -1))
    return np.broadcast_to(np.where((op.start <= places) & (places < op.end), op.alpha, op.beta), x.shape)


def kron(op: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    dims = (op.dim,) if isinstance(op.dim, int) else op.dim
    for dim in dims:
        if dim == 1:
            x, y = np.repeat(x, y.shape[1], 1), np.tile(y, (1, x.shape[1], 1))
        else:
            x, y = np.repeat(x, y.shape[2], 2), np.tile(y, (1, 1, x.shape[2]))
    return x * y


def softmax(op: Any, x: np.ndarray) -> np.ndarray:
    weights = np.exp(op.scale * (x - x.max(0)))
    return weights / weights.sum(0)


def normalize(op: Any, x: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).sum(0))


def conv1d(op: Any, x: np.ndarray) -> np.ndarray:
    taps = np.array(op.weight)
    before = len(taps) // 2
    wide = np.pad(x, ((before, len(taps) - 1 - before), (0, 0), (0, 0)))
    return sum(tap * wide[t : t + len(x)] for t, tap in enumerate(taps))


def of_both(base: type[Op]) -> dict[str, type[Op]]:
    ops = {name: of(base, compute, "alpha beta") for name, compute in BINARY.items()}
    ops["Add"] = of(base, lambda op, x, y: op.alpha * x + op.beta * y, "alpha beta", alpha=1, beta=1)
    for name, (compute, alpha, beta) in UNARY.items():
        ops[name] = of(base, compute, "alpha beta", alpha=alpha, beta=beta)
    for name, reduce in REDUCTIONS.items():
        ops[name] = of(base, lambda op, x, reduce=reduce: reduce(x, op.dim), "dim", dim=1)
    ops["MaskSlice"] = of(base, mask_slice, "start end dim alpha beta", alpha=1, beta=0)
    ops["Reshape"] = of(base, lambda op, x: x.reshape(-1, op.x2, op.y2), "batch_dim x2 y2")
    return ops


class Load(IndexOp):
    def compute(self, *arrays: np.ndarray) -> np.ndarray:
        return arrays[0].copy()


class Save(IndexOp):
    def __call__(self, x: Array, o: Array, *, ctx: Rows) -> None:
        for row in range(len(ctx.counts)):
            own = ctx.scored(row)
            o.stored[ctx.ids[own]] = x.a[own]


class TopK(IndexOp):
    def __call__(self, score: Array, o: Array, *, ctx: Rows) -> None:
        assert score.kind == "ragged" and score.shape[1:] == (1, 1), score.shape
        ctx.choose(score.a[:, 0, 0])
        o.a[...] = ctx.packed()


class Union(IndexOp):
    names = ("second",)

    def __call__(self, x: Array, y: Array, o: Array, *, ctx: Rows) -> None:
        ctx.choose(x.a[:, 0, 0], y.a[:, 0, 0], self.second)
        o.a[...] = ctx.packed()


class Fill(Op):
    names, defaults = ("alpha",), {"alpha": 0.0}

    def __call__(self, x: Array, *, loc: object, ctx: Blocks) -> None:
        x.stored[ctx.done] = self.alpha


# ---- What kvmill.vflow adds ----


class Field(tuple):
    def __new__(cls, rows: int, columns: int, **options: Any) -> Field:
        field = super().__new__(cls, (rows, columns))
        field.options = options
        return field


class Given(Array):
    """Constant or Input: the same for all rows until a scene gives others."""

    def __init__(self, values: Any, shape: tuple[int, int] | None = None, *, name: str = "") -> None:
        size = values if shape is None else shape
        number = 0.0 if shape is None else values
        super().__init__(np.full((1, *size), number), "batched")

    @property
    def a(self) -> np.ndarray:
        return self._a if len(self._a) > 1 else np.repeat(self._a, self.rows, 0)

    @a.setter
    def a(self, value: np.ndarray) -> None:
        self._a = value

    rows = 1


# ---- Modules ----


class Anything(ModuleType):
    """torch: names for annotations, and decorators."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Array if name == "Tensor" else Anything(name)

    def __call__(self, *args: Any) -> Any:
        return lambda function: function

    def __or__(self, other: object) -> object:
        return object


class Flow:
    pass


REGISTRY: dict[str, type] = {}


def register(name: str) -> Callable[[type], type]:
    return lambda cls: REGISTRY.setdefault(name, cls)


INDEXER = of_both(IndexOp) | {
    "GeMV": of(IndexOp, BINARY["GeMM"]), "Kron": of(IndexOp, kron, "dim", dim=(1, 2)),
    "Transpose": of(IndexOp, lambda op, x: x.transpose(0, 2, 1)),
    "Softmax": of(PagesOp, softmax, "dim scale", dim=0, scale=1), "Normalize": of(PagesOp, normalize, "dim", dim=0),
    "Conv1d": type("Conv1d", (of(PagesOp, conv1d, "weight dim", dim=0),), {"in_place": False}),
    "Load": Load, "Save": Save, "topK": TopK, "approxTopK": TopK,
}  # fmt: skip
CACHE = of_both(CacheOp) | {"Fill": Fill}
for word in ("Mean", "Max", "Min", "L2Norm"):
    CACHE[f"{word}Interleave"] = of(
        CacheOp, lambda op, x, reduce=REDUCTIONS[word]: interleaved(op, x, reduce), "dim k", dim=1, k=2
    )
MODULES: dict[str, dict[str, Any]] = {
    "vortex_torch": {}, "vortex_torch.flow": {"vFlow": Flow, "vFlowMLA": Flow, "register": register},
    "vortex_torch.flow.flow": {"vFlow": Flow}, "vortex_torch.indexer": INDEXER, "vortex_torch.cache": CACHE,
    "vortex_torch.flow.registry": {"register": register, "_REGISTRY": REGISTRY},
    "vortex_torch.abs": {"ContextBase": object},
    "kvmill.vflow": {"Field": Field, "Input": Given, "Constant": Given, "Union": Union},
}  # fmt: skip


@contextmanager
def modules() -> Iterator[None]:
    """Put these modules in place of vortex_torch, torch and kvmill.vflow."""
    before = {name: sys.modules.get(name) for name in (*MODULES, "torch", "torch.nn")}
    for name, names in MODULES.items():
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update(names, __path__=[])
        parent, _, child = name.rpartition(".")
        if parent == "vortex_torch":
            setattr(sys.modules[parent], child, sys.modules[name])
    sys.modules["torch"], sys.modules["torch.nn"] = Anything("torch"), Anything("torch.nn")
    try:
        yield
    finally:
        for name, module in before.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module


def classes(path: Path) -> dict[str, type]:
    """Return the classes of a file by the names that they are registered by; inside of modules()."""
    REGISTRY.clear()
    names = {"__name__": path.stem, "__package__": "vortex_torch.flow"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return dict(REGISTRY)
