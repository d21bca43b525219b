"""What a node of kvmill's provider costs in ONNX Runtime, in addition to its attention.

    python onnxruntime_overhead.py --ort LIBRARY [--packs PACK[:PACK...]] [--rounds N] [--json FILE]

Times a session with one step and a session with NODES steps: the difference is the cost of the
additional nodes.  Steps have 32 heads on 8 of 64, and caches of 64 rows, of which 11 are used.  The
time of attention itself is that of a plan without ONNX Runtime, called from Python with the same
arrays, minus the time of the call, measured with one head and one row.  One thread; caches are in
place; contenders take turns.

step   TensorScatter of K and of V, and Attention-24
gqa    com.microsoft.GroupQueryAttention
rotary the same with do_rotary and tables

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnxruntime
from attention_graphs import Graph, graphs_of, onnxruntime_runs, register
from attention_problems import Arrays, Problem
from onnx import NodeProto, helper
from onnxruntime_attention import int8_side, step_side
from sides import packs_of, parse_arguments, write_results

NODES, TOKENS, CAPACITY = 33, 11, 64
RUNS = 200  # in a turn
CASES = (
    ("float32", "step"),
    ("float16", "step"),
    ("float32", "gqa"),
    ("float16", "gqa"),
    ("int8", "gqa"),
    ("float32", "rotary"),
    ("float16", "rotary"),
)


@dataclass(frozen=True)
class Row:
    """Seconds per node, medians of the rounds."""

    problem: str
    nodes: str
    provider: float
    alone: float
    attention: float

    @property
    def ratio(self) -> float:
        return self.alone / self.provider

    @property
    def overhead(self) -> float:
        return self.provider - self.attention


def problem_of(cache: str) -> Problem:
    return Problem("overhead", "decode", 1, TOKENS, cache, "f32", 32, 8, 64, 64, 0.0)


class Room(Arrays):
    """Arrays with caches that have spare rows."""

    def _add_cache(self, name: str, shape: tuple[int, ...], numbers: np.ndarray) -> None:
        super()._add_cache(name, (*shape[:2], CAPACITY, shape[3]), numbers)


def renamed(node: NodeProto, number: int, own: set[str]) -> NodeProto:
    """A copy of the node; outputs in `own`, and inputs that read them, have new names."""
    copy = NodeProto()
    copy.CopyFrom(node)
    for names in (copy.input, copy.output):
        for i, name in enumerate(names):
            names[i] = f"{name}_{number}" if name in own else name
    return copy


def repeated(graph: Graph, count: int) -> Graph:
    """Copies of the nodes, each with its own caches."""
    caches = {name for node in graph.nodes for name in node.input if name.startswith("past_")}
    own = {name for node in graph.nodes for name in node.output} | caches
    numbers = range(count)
    return Graph(
        [renamed(node, number, own) for number in numbers for node in graph.nodes],
        {f"{o}_{n}": f"{a}_{n}" for n in numbers for o, a in graph.outputs.items()},
        graph.inputs | {f"{c}_{n}": f"{c}_{n}" for n in numbers for c in caches},
    )


def add_copies(arrays: Arrays, graph: Graph) -> None:
    for name in {*graph.outputs.values(), *graph.inputs.values()}:
        if name not in arrays.tensors:
            arrays.tensors[name] = arrays[name.rpartition("_")[0]].copy()


def rotating(graph: Graph, arrays: Arrays) -> Graph:
    """The GroupQueryAttention node with tables for rotary embedding."""
    node = NodeProto()
    node.CopyFrom(graph.nodes[0])
    names = [*node.input, *[""] * (9 - len(node.input))]
    names[7:9] = tables = ["cos_cache", "sin_cache"]
    node.ClearField("input")
    node.input.extend(names)
    node.attribute.append(helper.make_attribute("do_rotary", 1))
    angles = np.arange(CAPACITY * 32).reshape(CAPACITY, 32)
    for name, table in zip(tables, (np.cos(angles), np.sin(angles)), strict=True):
        arrays.tensors[name] = table.astype(arrays.problem.dtype)
    return Graph([node], graph.outputs, graph.inputs)


def graph_of(arrays: Arrays, form: str) -> Graph:
    graphs = graphs_of(arrays.problem)
    return rotating(graphs["gqa"], arrays) if form == "rotary" else graphs[form]


def seconds_of(run: Callable[[], None]) -> float:
    run()
    begin = time.perf_counter()
    for _ in range(RUNS):
        run()
    return (time.perf_counter() - begin) / RUNS


def attention_run(arrays: Arrays, options: dict) -> Callable[[], None]:
    side = (int8_side if arrays.problem.cache == "int8" else step_side)(arrays, options)
    return side.bind(arrays).run


def least(options: dict) -> Callable[[], None]:
    """A call with almost no work."""
    problem = Problem("call", "decode", 1, 1, "float32", "f32", 1, 1, 1, 1, 0.0)
    return attention_run(Arrays(problem, np.ones(1 << 17, np.float32)), options)


def measure(cache: str, form: str, options: dict, rounds: int) -> Row:
    numbers = np.random.default_rng(5).random(1 << 17, np.float32) - np.float32(0.5)
    arrays = Room(problem_of(cache), numbers)
    one, many = (repeated(graph_of(arrays, form), count) for count in (1, NODES))
    add_copies(arrays, many)
    runs = [
        onnxruntime_runs(graph, [arrays], 1, provider=provider)[0]
        for provider in ({}, None)
        for graph in (one, many)
    ]
    runs += [attention_run(arrays, options), least(options)]
    times = [[seconds_of(run) for run in runs] for _ in range(rounds)]
    ours, all_ours, theirs, all_theirs, attention, call = (
        statistics.median(side) for side in zip(*times, strict=True)
    )
    more = NODES - 1
    return Row(
        cache, form, (all_ours - ours) / more, (all_theirs - theirs) / more, attention - call
    )


def main() -> None:
    given = parse_arguments(
        __doc__.splitlines()[0], rounds=9, least=5, ort="libkvmill_ort.so (required)"
    )
    if not given.ort:
        sys.exit("no provider; accepted: --ort libkvmill_ort.so")
    register(given.ort)
    options = {"packs": packs_of(given), "threads": 1, "softcap": 0.0}
    columns = "{:10} {:6} {:>12} {:>10} {:>13} {:>12}"
    print(columns.format("cache", "nodes", "provider us", "alone us", "attention us", "overhead us"))
    rows = []
    for cache, form in CASES:
        row = measure(cache, form, options, given.rounds)
        rows.append(row)
        times = (row.provider, row.alone, row.attention, row.overhead)
        print(columns.format(cache, form, *(f"{seconds * 1e6:.1f}" for seconds in times)), flush=True)
    write_results(given.json, rows, onnxruntime=onnxruntime.__version__)


if __name__ == "__main__":
    main()
