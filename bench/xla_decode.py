"""Decode steps in a jax.lax.scan: kvmill.jax and jax.nn.dot_product_attention, in one run.

    python xla_decode.py --packs PACK [--rounds N] [--json FILE]

Each step stores a row of K and of V and attends to all rows in the cache, at the last 16 of 4096
positions in order.  A scan carries the caches, which are donated, so both sides update them in
place.  The plain side stores with lax.dynamic_update_slice and attends with
jax.nn.dot_product_attention and key_value_seq_lengths, jitted.  Both sides may use all threads of
XLA.  Runs use three sets of caches in turn, so that rows come from memory.  Rounds alternate.
Before the timing, both sides must give the same result.  A ratio above 1 means that kvmill is
faster. configs/decode.json contains the specs for a pack.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import kvmill.jax  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from sides import packs_of, parse_arguments, write_results  # noqa: E402

CAPACITY, STEPS = 4096, 16
SETS = 3  # of caches, that calls take turns with
CLOSE = {"float32": 1e-4, "bfloat16": 2e-2}


@dataclass(frozen=True)
class Problem:
    heads: int
    kv_heads: int
    dim: int
    dtype: str
    batch: int = 1

    @property
    def name(self) -> str:
        return f"{self.batch} x {self.heads} on {self.kv_heads} of {self.dim}, {self.dtype}"


PROBLEMS = [
    Problem(32, 8, 128, "float32"),
    Problem(32, 8, 128, "bfloat16"),
]


@dataclass(frozen=True)
class Row:
    """Results for one problem: seconds per step, medians of the rounds."""

    problem: str
    kernel: str
    kvmill: float
    xla: float

    @property
    def ratio(self) -> float:
        return self.xla / self.kvmill


# ---- The two sides ----


def plain_step(query, key, value, keys, values, position):
    keys = lax.dynamic_update_slice_in_dim(keys, key, position, 1)
    values = lax.dynamic_update_slice_in_dim(values, value, position, 1)
    lengths = jnp.full(query.shape[0], position + 1, jnp.int32)
    output = jax.nn.dot_product_attention(query, keys, values, key_value_seq_lengths=lengths)
    return output, keys, values


def decode(step: Callable) -> Callable:
    """A jitted scan of steps at the end of the caches, which returns (keys, values), outputs."""

    def one(carry, new):
        keys, values, position = carry
        output, keys, values = step(*new, keys, values, position)
        return (keys, values, position + 1), output

    def scan(keys, values, rows):
        start = jnp.int32(CAPACITY - STEPS)
        (keys, values, _), outputs = lax.scan(one, (keys, values, start), rows)
        return (keys, values), outputs

    return jax.jit(scan, donate_argnums=(0, 1))


def arrays_of(problem: Problem, rng: np.random.Generator) -> tuple:
    """New rows, and sets of caches."""

    def normal(*shape):
        return jnp.asarray(rng.standard_normal(shape, np.float32), problem.dtype)

    counts = problem.heads, problem.kv_heads, problem.kv_heads
    rows = tuple(normal(STEPS, problem.batch, 1, count, problem.dim) for count in counts)
    shape = problem.batch, CAPACITY, problem.kv_heads, problem.dim
    return rows, [(normal(*shape), normal(*shape)) for _ in range(SETS)]


class Side:
    """A program, and sets of caches that it updates in turn."""

    def __init__(self, step: Callable, rows: tuple, caches: list[tuple]) -> None:
        self.program = decode(step)
        self.rows, self.turn = rows, 0
        self.caches = [tuple(jnp.array(cache) for cache in both) for both in caches]

    def run(self) -> jax.Array:
        at = self.turn % SETS
        self.turn += 1
        self.caches[at], outputs = self.program(*self.caches[at], self.rows)
        return outputs.block_until_ready()

    def seconds_per_step(self) -> float:
        begin = time.perf_counter()
        self.run()
        return (time.perf_counter() - begin) / STEPS


# ---- Measuring ----


def kernel_of(side: Side) -> str:
    """The kernel that attends, from the plan's description."""
    words = kvmill.jax.explain(side.program, *side.caches[0], side.rows)
    return words.partition("attend with ")[2].partition(" ")[0].rstrip(";,")


def measure(problem: Problem, rounds: int) -> Row:
    rows, caches = arrays_of(problem, np.random.default_rng(5))
    sides = [Side(step, rows, caches) for step in (kvmill.jax.decode_step, plain_step)]
    ours, theirs = (np.asarray(side.run(), np.float32) for side in sides)
    if np.abs(ours - theirs).max() > CLOSE[problem.dtype]:
        sys.exit(f"{problem.name}: kvmill and jax.nn differ: nothing to compare")
    times = [[side.seconds_per_step() for side in sides] for _ in range(rounds)]
    seconds = (statistics.median(side) for side in zip(*times, strict=True))
    return Row(problem.name, kernel_of(sides[0]), *seconds)


def main() -> None:
    arguments = parse_arguments(__doc__.splitlines()[0])
    for pack in packs_of(arguments)[:1]:
        kvmill.jax.use(pack)
    rows = [measure(problem, arguments.rounds) for problem in PROBLEMS]
    columns = "{:32} {:>10} {:>10} {:>6}  {}"
    print(columns.format("problem", "kvmill us", "jax.nn us", "ratio", "kernel"))
    for row in rows:
        ours, theirs = f"{row.kvmill * 1e6:.0f}", f"{row.xla * 1e6:.0f}"
        print(columns.format(row.problem, ours, theirs, f"{row.ratio:.2f}", row.kernel))
    write_results(arguments.json, rows, jax=jax.__version__)


if __name__ == "__main__":
    main()
