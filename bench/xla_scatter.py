"""stablehlo.scatter of kvmill and of XLA (CPU), side by side in one run.

    python xla_scatter.py --packs PACK[:PACK...] [--rounds N] [--json FILE]

triangles    8000 packed triangles of 79 x 79 float32 are added to 8000 squares: 8000 x 3160 updates
             to 8000 x 6241 (jax issue 695).
embedding    4096 rows of 4096 bfloat16 are added to a table of 32000, as in the gradient of an
             embedding.
segments     262144 float32 are added to 65536 sums, in random order.

functional   the result is a new array: XLA runs a jitted function, kvmill writes to another array.
in place     the result replaces the input, which is donated to XLA.

XLA's function is jitted and run once before the timing; it may use as many threads as it chooses.
kvmill runs a prepared call (kvmill.Call), with one thread and with a pool of two.  Rounds
alternate. Before the timing, both must give identical bytes, or close numbers if several updates
are added to one element.  A ratio above 1 means that kvmill is faster.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import kvmill  # noqa: E402
import numpy as np  # noqa: E402
from sides import (  # noqa: E402
    aligned,
    packs_of,
    parse_arguments,
    write_results,
)


@dataclass(frozen=True)
class Problem:
    """Updates that are added, along one axis of the input."""

    name: str
    dtype: str
    input: tuple[int, ...]
    axis: int
    count: int
    slices: bool  # indices of packed triangles; else random

    @property
    def updates(self) -> tuple[int, ...]:
        return tuple(self.count if d == self.axis else n for d, n in enumerate(self.input))


@dataclass(frozen=True)
class Row:
    """Results for one problem: seconds per run, medians of the rounds."""

    problem: str
    how: str
    threads: int
    kernel: str
    kvmill: float
    xla: float

    @property
    def ratio(self) -> float:
        return self.xla / self.kvmill


PROBLEMS = [
    Problem("triangles", "float32", (8000, 6241), 1, 3160, slices=True),
    Problem("embedding", "bfloat16", (32000, 4096), 0, 4096, slices=False),
    Problem("segments", "float32", (65536,), 0, 262144, slices=False),
]


# ---- The arrays ----


def random_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    array = aligned(shape, dtype)
    array.flat = np.resize(rng.integers(-64, 64, 1 << 16) / 16, array.size)
    return array


class Arrays:
    """kvmill's arrays; XLA's begin as copies of them."""

    def __init__(self, problem: Problem) -> None:
        rng = np.random.default_rng(24)
        dtype = jnp.dtype(problem.dtype)
        self.input = random_array(rng, problem.input, dtype)
        self.updates = random_array(rng, problem.updates, dtype)
        self.result = aligned(problem.input, dtype)
        dim = problem.input[problem.axis]
        side = round(dim**0.5)
        rows, columns = np.tril_indices(side)
        any_order = rng.integers(0, dim, problem.count)
        self.indices = (rows * side + columns if problem.slices else any_order).astype(np.int32)


# ---- XLA ----


def xla_function(problem: Problem, donate: bool) -> Callable[..., jax.Array]:
    place = (slice(None),) * problem.axis

    def add(x: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
        return x.at[(*place, indices)].add(updates, mode="promise_in_bounds")

    return jax.jit(add, donate_argnums=(0,) if donate else ())


class Xla:
    def __init__(self, problem: Problem, arrays: Arrays, in_place: bool) -> None:
        self.function = xla_function(problem, in_place)
        self.input = jnp.array(arrays.input)
        self.others = jnp.array(arrays.indices), jnp.array(arrays.updates)
        self.in_place = in_place

    def run(self) -> jax.Array:
        result = self.function(self.input, *self.others).block_until_ready()
        if self.in_place:
            self.input = result
        return result


# ---- kvmill ----


def plan_of(
    problem: Problem, arrays: Arrays, packs: Sequence[kvmill.Pack], threads: int
) -> kvmill.Scatter:
    rank = len(problem.input)
    return kvmill.Scatter(
        arrays.input,
        arrays.indices[:, np.newaxis],
        arrays.updates,
        update_window_dims=[d for d in range(rank) if d != problem.axis],
        inserted_window_dims=[problem.axis],
        scatter_dims_to_operand_dims=[problem.axis],
        index_vector_dim=1,
        window_out_of_bounds="skip_window",
        update_computation="add",
        packs=packs,
        threads=threads,
    )


# ---- Measuring ----


def require_alike(problem: Problem, arrays: Arrays, call: kvmill.Call) -> None:
    theirs = np.asarray(Xla(problem, arrays, in_place=False).run())
    call.run()
    meets = len(np.unique(arrays.indices)) < len(arrays.indices)
    ours = arrays.result.astype(np.float64)
    if not (np.allclose(ours, theirs.astype(np.float64), 0.02) if meets else np.array_equal(arrays.result, theirs)):
        sys.exit(f"{problem.name}: kvmill and XLA differ: nothing to compare")


def seconds_of(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def measure(
    problem: Problem, packs: Sequence[kvmill.Pack], rounds: int
) -> list[Row]:
    arrays = Arrays(problem)
    plan, shared = (plan_of(problem, arrays, packs, threads) for threads in (1, 2))
    kernel = plan.describe().partition("apply with ")[2].partition(" ")[0]
    indices = arrays.indices[:, np.newaxis]
    require_alike(problem, arrays, plan.prepare(arrays.input, indices, arrays.updates, arrays.result))
    rows = []
    for in_place in (False, True):
        result = arrays.input if in_place else arrays.result
        operands = arrays.input, indices, arrays.updates, result
        xla = Xla(problem, arrays, in_place)
        sides = [plan.prepare(*operands).run, shared.prepare(*operands).run, xla.run]
        for run in sides:
            run()
        times = [[seconds_of(run) for run in sides] for _ in range(rounds)]
        one, two, theirs = (statistics.median(side) for side in zip(*times, strict=True))
        how = "in place" if in_place else "functional"
        rows += [Row(problem.name, how, n, kernel, t, theirs) for n, t in ((1, one), (2, two))]
    return rows


# ---- Reporting ----


def print_table(rows: Sequence[Row]) -> None:
    columns = "{:12} {:12} {:>7} {:>12} {:>12} {:>7}  {}"
    print(columns.format("problem", "how", "threads", "kvmill ms", "xla ms", "ratio", "kernel"))
    for row in rows:
        ours, theirs = f"{row.kvmill * 1e3:.2f}", f"{row.xla * 1e3:.2f}"
        print(columns.format(row.problem, row.how, row.threads, ours, theirs, f"{row.ratio:.1f}", row.kernel))


def main() -> None:
    arguments = parse_arguments(__doc__.splitlines()[0], rounds=15, least=5)
    packs = packs_of(arguments)
    rows = [row for problem in PROBLEMS for row in measure(problem, packs, arguments.rounds)]
    print_table(rows)
    write_results(arguments.json, rows, jax=jax.__version__)


if __name__ == "__main__":
    main()
