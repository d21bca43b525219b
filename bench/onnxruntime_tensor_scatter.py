"""TensorScatter of kvmill and of ONNX Runtime (CPU), side by side in one run.

    python onnxruntime_tensor_scatter.py --packs PACK[:PACK...] [--rounds N] [--json FILE]

functional  present and past are different buffers, so the cache is copied.  64 MiB of float16.
in place    past and present are one buffer, as in a decoder: one new row for each of 64 sequences,
            one slot further in each run.  float16 and float32.
default     the same decode step, except that ONNX Runtime has a separate output, as in a session
            whose caller does not bind one buffer twice: it copies the cache, kvmill does not.
floor       a cache with one element: the cost of the call, and of the two NumPy calls that advance
            write_indices, which are part of all times.

Both sides use the same arrays: ONNX Runtime through run_with_iobinding on bound buffers, kvmill
through a prepared call (kvmill.Call), which is kvmill_run with the arguments of the last run.
Rounds alternate; a round is the mean of enough runs to fill a few milliseconds.  Before the timing,
both must give identical bytes.  A ratio above 1 means that kvmill is faster.

With two threads, kvmill runs on its own pool, and ONNX Runtime also has two threads.  Arrays begin
at multiples of 64 bytes, as engines allocate them.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import kvmill
import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from sides import (
    aligned,
    packs_of,
    parse_arguments,
    write_results,
)

ROUND_SECONDS = 0.004
ELEMENT_TYPES = {"float16": TensorProto.FLOAT16, "float32": TensorProto.FLOAT}


@dataclass(frozen=True)
class Problem:
    """A cache [batch, heads, capacity, head_dim] that takes one row per head."""

    name: str
    dtype: str
    shape: tuple[int, int, int, int]
    in_place: bool
    onnxruntime_copies: bool = False

    @property
    def update_shape(self) -> tuple[int, int, int, int]:
        batch, heads, _, head_dim = self.shape
        return batch, heads, 1, head_dim


@dataclass(frozen=True)
class Row:
    """Results for one problem: seconds per run, medians of the rounds."""

    problem: str
    dtype: str
    shape: tuple[int, ...]
    threads: int
    kernel: str
    runs_per_round: int
    kvmill: float
    onnxruntime: float

    @property
    def ratio(self) -> float:
        return self.onnxruntime / self.kvmill


PROBLEMS = [
    Problem("functional", "float16", (8, 8, 4096, 128), in_place=False),
    Problem("functional, floor", "float16", (1, 1, 1, 1), in_place=False),
    Problem("in place", "float16", (64, 8, 1024, 128), in_place=True),
    Problem("in place", "float32", (64, 8, 1024, 128), in_place=True),
    Problem("default", "float16", (64, 8, 1024, 128), in_place=True, onnxruntime_copies=True),
    Problem("in place, floor", "float16", (1, 1, 1, 1), in_place=True),
]


# ---- The arrays ----


class Arrays:
    """Inputs and outputs of a problem.  Both sides share them, except an output that ONNX Runtime
    copies to."""

    def __init__(self, problem: Problem) -> None:
        rng = np.random.default_rng(24)
        count = int(np.prod(problem.shape))
        self.past = aligned(problem.shape, problem.dtype)
        self.past.flat = np.resize(rng.random(1 << 16, np.float32), count)
        self.update = aligned(problem.update_shape, problem.dtype)
        self.update.flat = rng.random(self.update.size, np.float32)
        batch, _, self.capacity, _ = problem.shape
        self.first = np.arange(batch, dtype=np.int64) * 7 % self.capacity
        self.write_indices = self.first.copy()
        self.present = self.past if problem.in_place else aligned(problem.shape, problem.dtype)
        copies = problem.onnxruntime_copies
        self.copied = aligned(problem.shape, problem.dtype) if copies else self.present

    def rewind(self) -> None:
        self.write_indices[:] = self.first

    def advance(self) -> None:
        """Moves each sequence one slot further; at the end of the cache it starts again at the
        first slot."""
        np.add(self.write_indices, 1, out=self.write_indices)
        np.remainder(self.write_indices, self.capacity, out=self.write_indices)


# ---- ONNX Runtime ----


def make_model(problem: Problem) -> bytes:
    element = ELEMENT_TYPES[problem.dtype]
    value = helper.make_tensor_value_info
    inputs = [
        value("past", element, problem.shape),
        value("update", element, problem.update_shape),
        value("write_indices", TensorProto.INT64, problem.shape[:1]),
    ]
    node = helper.make_node("TensorScatter", [v.name for v in inputs], ["present"], axis=-2)
    graph = helper.make_graph(
        [node], "tensor_scatter", inputs, [value("present", element, problem.shape)]
    )
    opset = [helper.make_opsetid("", 24)]
    return helper.make_model(graph, opset_imports=opset, ir_version=11).SerializeToString()


def onnxruntime_run(problem: Problem, arrays: Arrays, threads: int) -> Callable[[], None]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Functional runs would log a warning that they copy.
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        make_model(problem), options, providers=["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    for name in "past", "update", "write_indices":
        array = getattr(arrays, name)
        binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    present = arrays.copied
    binding.bind_output("present", "cpu", 0, present.dtype, present.shape, present.ctypes.data)
    return lambda: session.run_with_iobinding(binding)


# ---- kvmill ----


def plan_of(
    arrays: Arrays, packs: Sequence[kvmill.Pack], threads: int
) -> kvmill.TensorScatter:
    return kvmill.TensorScatter(
        arrays.past, arrays.update, arrays.write_indices, packs=packs, threads=threads
    )


def kvmill_run(plan: kvmill.TensorScatter, arrays: Arrays) -> Callable[[], None]:
    return plan.prepare(arrays.past, arrays.update, arrays.write_indices, arrays.present).run


# ---- Measuring ----


def result_from_scratch(
    run: Callable[[], None], arrays: Arrays, output: np.ndarray, old_past: np.ndarray
) -> np.ndarray:
    output.fill(0)
    arrays.past[...] = old_past
    arrays.rewind()
    run()
    return output.view(np.uint8).copy()


def require_identical(sides: Sequence[Callable[[], None]], arrays: Arrays) -> None:
    old_past = arrays.past.copy()
    ours = result_from_scratch(sides[0], arrays, arrays.present, old_past)
    theirs = result_from_scratch(sides[1], arrays, arrays.copied, old_past)
    if not np.array_equal(ours, theirs):
        sys.exit("kvmill and ONNX Runtime differ: nothing to compare")


def seconds_per_run(run: Callable[[], None], arrays: Arrays, runs: int) -> float:
    arrays.rewind()
    begin = time.perf_counter()
    for _ in range(runs):
        run()
        arrays.advance()
    return (time.perf_counter() - begin) / runs


def runs_to_fill_a_round(sides: Sequence[Callable[[], None]], arrays: Arrays) -> int:
    slowest = max(seconds_per_run(run, arrays, 10) for run in sides)
    return max(1, round(ROUND_SECONDS / slowest))


def measure(
    problem: Problem,
    packs: Sequence[kvmill.Pack],
    threads: int,
    rounds: int,
) -> Row:
    arrays = Arrays(problem)
    plan = plan_of(arrays, packs, threads)
    sides = [
        kvmill_run(plan, arrays),
        onnxruntime_run(problem, arrays, threads),
    ]
    require_identical(sides, arrays)
    runs = runs_to_fill_a_round(sides, arrays)
    times = [[seconds_per_run(run, arrays, runs) for run in sides] for _ in range(rounds)]
    ours, theirs = (statistics.median(side) for side in zip(*times, strict=True))
    kernel = plan.describe().partition("store with ")[2].partition(" ")[0]
    return Row(problem.name, problem.dtype, problem.shape, threads, kernel, runs, ours, theirs)


# ---- Reporting ----


def print_table(rows: Sequence[Row]) -> None:
    columns = "{:18} {:8} {:20} {:>7} {:>12} {:>16} {:>6}  {}"
    head = "problem", "type", "shape", "threads", "kvmill us", "onnxruntime us", "ratio", "kernel"
    print(columns.format(*head))
    for row in rows:
        print(
            columns.format(
                row.problem,
                row.dtype,
                "x".join(map(str, row.shape)),
                row.threads,
                f"{row.kvmill * 1e6:.1f}",
                f"{row.onnxruntime * 1e6:.1f}",
                f"{row.ratio:.2f}",
                row.kernel,
            )
        )


def main() -> None:
    arguments = parse_arguments(__doc__.splitlines()[0])
    packs = packs_of(arguments)
    rows = [
        measure(problem, packs, threads, arguments.rounds)
        for problem in PROBLEMS
        for threads in (1, 2)
    ]
    print_table(rows)
    write_results(arguments.json, rows, onnxruntime=onnxruntime.__version__)


if __name__ == "__main__":
    main()
