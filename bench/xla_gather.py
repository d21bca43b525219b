"""stablehlo.gather of kvmill and of XLA (CPU), side by side in one run.

    python xla_gather.py --packs PACK[:PACK...] [--rounds N] [--json FILE]

embedding   1 to 512 rows of a table of 128256 x 4096 bfloat16
pages       the pages of 8 sequences from a pool of a key/value cache, by a block table
batch       the same, but each sequence has its own pool: a batching dim

XLA runs lax.gather, jitted and run once before, with as many threads as it chooses; kvmill runs a
prepared call (kvmill.Call) with one thread and with two.  Each run has other indices.  XLA creates
a new result in each run, as in a program; kvmill writes to one array.  A call costs XLA more than
kvmill: the row "floor", with one element, shows how much.  Rounds alternate.  Before the timing,
both must give the same bytes.  A ratio above 1 means that kvmill is faster.  configs/gathers.json
contains the specs for a pack.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import kvmill  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from sides import (  # noqa: E402
    aligned,
    packs_of,
    parse_arguments,
    write_results,
)

ROUND_SECONDS = 0.002
SETS = 64  # of indices, that calls take turns with
THREADS = (1, 2)


@dataclass(frozen=True)
class Problem:
    """A gather along one axis of the operand."""

    name: str
    dtype: type
    operand: tuple[int, ...]
    indices: tuple[int, ...]
    numbers: dict[str, list[int]]
    limit: int
    vector: int
    more: dict = field(default_factory=dict)


def embedding(count: int) -> Problem:
    numbers = {
        "offset_dims": [1],
        "collapsed_slice_dims": [0],
        "start_index_map": [0],
        "slice_sizes": [1, 4096],
    }
    shape = 128256, 4096
    return Problem(f"embedding, {count}", ml_dtypes.bfloat16, shape, (count, 1), numbers, 128256, 1)


PAGES = Problem(
    "pages",
    np.float16,
    (16384, 16, 8, 128),
    (8, 64, 1),
    {
        "offset_dims": [2, 3, 4],
        "collapsed_slice_dims": [0],
        "start_index_map": [0],
        "slice_sizes": [1, 16, 8, 128],
    },
    16384,
    2,
)
BATCH = Problem(
    "batch",
    np.float16,
    (8, 8, 512, 16, 128),
    (8, 64, 1),
    {
        "offset_dims": [1, 3, 4],
        "collapsed_slice_dims": [2],
        "operand_batching_dims": [0],
        "start_indices_batching_dims": [0],
        "start_index_map": [2],
        "slice_sizes": [1, 8, 1, 16, 128],
    },
    512,
    2,
)
FLOOR = Problem(
    "floor",
    np.float32,
    (1,),
    (1, 1),
    {"collapsed_slice_dims": [0], "start_index_map": [0], "slice_sizes": [1]},
    1,
    1,
)
PROBLEMS = [*map(embedding, (1, 8, 64, 512)), PAGES, BATCH, FLOOR]


@dataclass(frozen=True)
class Row:
    """Results for one problem: seconds per run, medians of the rounds."""

    problem: str
    threads: int
    kernel: str
    kvmill: float
    xla: float

    @property
    def ratio(self) -> float:
        return self.xla / self.kvmill


# ---- The two sides ----


def xla_gather(problem: Problem) -> Callable:
    numbers = dict(problem.numbers)
    sizes = tuple(numbers.pop("slice_sizes"))
    fields = {name: tuple(value) for name, value in numbers.items()}
    dimensions = lax.GatherDimensionNumbers(**{"offset_dims": (), **fields})
    return jax.jit(
        lambda operand, indices: lax.gather(
            operand, indices, dimensions, sizes, mode=lax.GatherScatterMode.CLIP
        )
    )


def plan_of(
    problem: Problem,
    operand: np.ndarray,
    indices: np.ndarray,
    packs: Sequence[kvmill.Pack],
    threads: int,
) -> kvmill.Gather:
    options = {"index_vector_dim": problem.vector, "packs": packs, "threads": threads}
    return kvmill.Gather(operand, indices, **options, **problem.numbers)


def sides_of(
    problem: Problem, packs: Sequence[kvmill.Pack]
) -> tuple[list[list[Callable[[], object]]], str]:
    """Runs for each set of indices: of kvmill with each number of threads, then of XLA."""
    rng = np.random.default_rng(5)
    operand = aligned(problem.operand, problem.dtype)
    operand.view(np.uint8).reshape(-1)[:] = np.resize(
        rng.integers(0, 64, 1 << 16, np.uint8), operand.nbytes
    )
    sets = [rng.integers(0, problem.limit, problem.indices, np.int32) for _ in range(SETS)]
    gather, table = xla_gather(problem), jax.numpy.asarray(operand)
    theirs = [gather(table, jax.numpy.asarray(indices)) for indices in sets[:1]]
    plans = [plan_of(problem, operand, sets[0], packs, threads) for threads in THREADS]
    result = aligned(theirs[0].shape, problem.dtype)
    calls = [[plan.prepare(operand, indices, result) for indices in sets] for plan in plans]
    calls[0][0].run()
    if np.asarray(theirs[0]).tobytes() != result.tobytes():
        sys.exit(f"{problem.name}: kvmill and XLA differ: nothing to compare")
    device = [jax.device_put(indices) for indices in sets]
    runs: list[list[Callable[[], object]]] = [[call.run for call in side] for side in calls]
    runs.append([lambda i=i: gather(table, i).block_until_ready() for i in device])
    return runs, plans[0].describe().partition(": with ")[2].partition(" ")[0]


# ---- Measuring ----


def seconds_per_run(runs: Sequence[Callable[[], object]], count: int) -> float:
    begin = time.perf_counter()
    for k in range(count):
        runs[k % SETS]()
    return (time.perf_counter() - begin) / count


def measure(problem: Problem, packs: Sequence[kvmill.Pack], rounds: int) -> list[Row]:
    sides, kernel = sides_of(problem, packs)
    counts = [max(1, round(ROUND_SECONDS / seconds_per_run(side, SETS))) for side in sides]
    times = [[seconds_per_run(s, n) for s, n in zip(sides, counts, strict=True)] for _ in range(rounds)]
    *ours, theirs = (statistics.median(side) for side in zip(*times, strict=True))
    return [
        Row(problem.name, threads, kernel, seconds, theirs)
        for threads, seconds in zip(THREADS, ours, strict=True)
    ]


def print_table(rows: Sequence[Row]) -> None:
    columns = "{:16} {:>7} {:>12} {:>12} {:>6}  {}"
    print(columns.format("problem", "threads", "kvmill us", "XLA us", "ratio", "kernel"))
    for row in rows:
        ours, theirs = f"{row.kvmill * 1e6:.1f}", f"{row.xla * 1e6:.1f}"
        ratio = f"{row.ratio:.2f}"
        print(columns.format(row.problem, row.threads, ours, theirs, ratio, row.kernel))


def main() -> None:
    arguments = parse_arguments(__doc__.splitlines()[0])
    packs = packs_of(arguments)
    rows = [
        row
        for problem in PROBLEMS
        for row in measure(problem, packs, arguments.rounds)
    ]
    print_table(rows)
    write_results(arguments.json, rows, jax=jax.__version__)


if __name__ == "__main__":
    main()
