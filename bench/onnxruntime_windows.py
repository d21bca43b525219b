"""Gathers and scatters around a cache in ONNX Runtime (CPU), alone and with kvmill's provider, side
by side in one run.

    python onnxruntime_windows.py --ort LIBRARY [--only WORD[,WORD...]] [--threads N] [--rounds N]
        [--clock thread] [--json FILE]

LIBRARY is libkvmill_ort.so.  A pack for all problems is generated first, with KVMILL_COMMAND or the
kvmill in PATH.  "in place": data and result are one buffer.  Contenders take turns, as in
onnxruntime_attention.py, with SETS sets of arrays, and must give the same bytes before the timing.
The provider also takes nodes here that it normally leaves to ONNX Runtime because it is not faster
(its option `portable`).

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx.compose
import onnxruntime
from attention_graphs import Graph, make_model, onnxruntime_runs, register
from onnx import helper
from sides import aligned, parse_arguments, write_results
from turns import Contender, times_of

SETS = 4
CACHE = (1, 8, 4096, 128)
TABLE = (32000, 2048)


@dataclass(frozen=True)
class Problem:
    """indices: numbers below the dim of the axis, or index vectors."""

    name: str
    op: str
    data: tuple[int, ...]
    indices: np.ndarray
    attributes: dict[str, int]
    in_place: bool = False

    @property
    def scatters(self) -> bool:
        return self.op.startswith("Scatter")


@dataclass(frozen=True)
class Row:
    """Seconds per run, medians of the rounds."""

    problem: str
    op: str
    in_place: bool
    provider: float
    alone: float

    @property
    def ratio(self) -> float:
        return self.alone / self.provider


def kept(rng: np.random.Generator, rows: int, of: int, heads: int = 1) -> np.ndarray:
    """Indices of `rows` of a cache's `of` rows, in ascending order, for each head."""
    chosen = [np.sort(rng.permutation(of)[:rows]) for _ in range(heads)]
    return np.array(chosen, np.int64).reshape(1, heads, rows)


def wide(indices: np.ndarray, dim: int = 128) -> np.ndarray:
    """The index of a row repeated for each of its elements."""
    return np.ascontiguousarray(np.broadcast_to(indices[..., None], (*indices.shape, dim)))


def problems() -> list[Problem]:
    rng = np.random.default_rng(24)
    heads, capacity = CACHE[1:3]
    found = [
        Problem(f"{count} rows of an embedding", "Gather", TABLE,
                rng.integers(0, TABLE[0], (1, count)), {"axis": 0})
        for count in (1, 64, 512, 2048)
    ]  # fmt: skip
    found += [
        Problem(f"{count} pages of 16 rows", "Gather", (2048, 16, 8, 128),
                rng.integers(0, 2048, count), {"axis": 0})
        for count in (64, 256)
    ]  # fmt: skip
    found += [Problem("beams in another order", "Gather", (4, *CACHE[1:]), np.array([1, 1, 0, 3]), {"axis": 0})]
    for length in (512, 2048, capacity):
        what, cache = f"half of {length} rows", (*CACHE[:2], length, CACHE[3])
        found += [
            Problem(what, "Gather", cache, kept(rng, length // 2, length)[0, 0], {"axis": 2}),
            Problem(f"{what} of each head", "GatherND", cache,
                    kept(rng, length // 2, length, heads)[..., None], {"batch_dims": 2}),
        ]  # fmt: skip
    for rows in (1, 64):
        slots = wide(np.broadcast_to(np.arange(700, 700 + rows), (1, heads, rows)))
        found += [
            Problem(f"{rows} new rows", "ScatterElements", CACHE, slots, {"axis": 2}, in_place)
            for in_place in (True, False)
        ]
    return found


# ---- Kernels ----


def model_of(problems: list[Problem]) -> onnx.ModelProto:
    """A model with a node for each problem; in place problems use the same kernels."""
    whole = onnx.ModelProto()
    for number, problem in enumerate(p for p in problems if not p.in_place):
        one = onnx.load_from_string(make_model(graph_of(problem), arrays_of(problem, 0)))
        one = onnx.compose.add_prefix(one, f"{number}_")
        if number == 0:
            whole.CopyFrom(one)
        else:
            for field in ("node", "input", "output"):
                getattr(whole.graph, field).extend(getattr(one.graph, field))
    return whole


def make_pack(problems: list[Problem], folder: Path) -> str:
    command = os.environ.get("KVMILL_COMMAND", "kvmill")
    onnx.save(model_of(problems), folder / "model.onnx")
    words = ["generate", "--model", "model.onnx", "-o", "windows", "--build"]
    subprocess.run([command, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return str(folder / "windows" / "libwindows.so")


# ---- One problem ----


def graph_of(problem: Problem) -> Graph:
    names = ["data", "indices", "updates"][: 3 if problem.scatters else 2]
    node = helper.make_node(problem.op, names, ["result"], **problem.attributes)
    return Graph([node], {"result": "data" if problem.in_place else "result"})


def result_shape(problem: Problem) -> tuple[int, ...]:
    data, indices = problem.data, problem.indices.shape
    if problem.scatters:
        return data
    if problem.op == "GatherND":
        return (*indices[:-1], *data[problem.attributes["batch_dims"] + indices[-1] :])
    axis = problem.attributes["axis"]
    return (*data[:axis], *indices, *data[axis + 1 :])


def arrays_of(problem: Problem, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    arrays = {"data": aligned(problem.data, "float16"), "indices": problem.indices}
    arrays["data"].view(np.uint16).flat = np.resize(rng.integers(0, 1 << 16, 1 << 16), arrays["data"].size)
    if problem.scatters:
        arrays["updates"] = rng.standard_normal(problem.indices.shape).astype("float16")
    arrays["result"] = arrays["data"] if problem.in_place else aligned(result_shape(problem), "float16")
    return arrays


def require_equal(problem: Problem, contenders: list[Contender], arrays: dict) -> None:
    results, before = [], arrays["data"].copy()
    for contender in contenders:
        arrays["result"].fill(0)
        arrays["data"][...] = before
        contender.runs[0]()
        results.append(arrays["result"].tobytes())
    if results[0] != results[1]:
        sys.exit(f"{problem.name}: results differ: nothing to compare")


def measure(problem: Problem, pack: str, given: argparse.Namespace, clock: Callable[[], float]) -> Row:
    sets = [arrays_of(problem, seed) for seed in range(SETS)]
    sides = {"provider": {"packs": pack, "portable": "1"}, "alone": None}
    contenders = [
        Contender(
            whose,
            "run",
            onnxruntime_runs(graph_of(problem), sets, int(given.threads or 1), provider=options),
            "result",
        )
        for whose, options in sides.items()
    ]
    require_equal(problem, contenders, sets[0])
    medians, _ = times_of(contenders, given.rounds, clock)
    times = {whose: medians[whose]["run"] for whose in sides}
    return Row(problem.name, problem.op, problem.in_place, **times)


COLUMNS = "{:16} {:32} {:9} {:>12} {:>10} {:>6}"


def print_row(row: Row) -> None:
    times = [f"{seconds * 1e6:.1f}" for seconds in (row.provider, row.alone)]
    place = "in place" if row.in_place else ""
    print(COLUMNS.format(row.op, row.problem, place, *times, f"{row.ratio:.2f}"), flush=True)


def main() -> None:
    given = parse_arguments(
        __doc__.splitlines()[0],
        rounds=15,
        least=5,
        only="problems with one of these words in their names, or ops",
        threads="of both (default 1)",
        ort="libkvmill_ort.so (required)",
        clock='"thread": processor time of the calling thread, for one thread on a busy machine',
    )
    if not given.ort:
        sys.exit("no provider; accepted: --ort libkvmill_ort.so")
    register(given.ort)
    clock = time.thread_time if given.clock == "thread" else time.perf_counter
    chosen = [
        problem
        for problem in problems()
        if any(word in f"{problem.op} {problem.name}" for word in given.only.split(","))
    ]
    rows: list[Row] = []
    print(COLUMNS.format("op", "what", "", "provider us", "alone us", "ratio"))
    with tempfile.TemporaryDirectory() as folder:
        pack = make_pack(chosen, Path(folder))
        for problem in chosen:
            rows.append(measure(problem, pack, given, clock))
            print_row(rows[-1])
    write_results(given.json, rows, onnxruntime=onnxruntime.__version__)


if __name__ == "__main__":
    main()
