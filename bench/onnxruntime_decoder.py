"""Decoders in ONNX Runtime (CPU), alone and with kvmill's provider, side by side in one run.

    python onnxruntime_decoder.py --ort LIBRARY [--only WORD[,WORD...]] [--type float16]
        [--threads N] [--rounds N] [--clock thread] [--json FILE]

Decodes one new token on 4096 positions with two layers of five models, with random weights and
caches in place.  Times the whole layers, and separately their attention.

step   TensorScatter of K and of V, and Attention-24, on token-major caches
gqa    com.microsoft.GroupQueryAttention, on head-major caches

LIBRARY is libkvmill_ort.so.  Kernels that no pack has are generated when a session starts, with
KVMILL_COMMAND or the kvmill in PATH.  Contenders take turns, as in onnxruntime_attention.py, and
must give the same result before the timing.  The session that is created first reads its weights up
to a fifth more slowly, so everything is measured twice, with each side first.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnxruntime
from attention_graphs import Graph, onnxruntime_runs, register
from decoder_graphs import INNER, Decoder, arrays_of, attention_graph, decoder_of, weights_of, whole_graph
from sides import parse_arguments, write_results
from turns import Contender, times_of

LENGTH, SETS = 4096, 2
TOLERANCE = {"float32": 1e-3, "float16": 3e-2}  # of the largest output
FORMS = ("step", "gqa")


@dataclass(frozen=True)
class Row:
    """Seconds per run by form, medians of the rounds."""

    model: str
    part: str
    form: str
    provider: float
    alone: float
    disturbed: float

    @property
    def ratio(self) -> float:
        return self.alone / self.provider


def require_equal(name: str, contenders: Sequence[Contender], arrays: dict, kind: str) -> None:
    results = []
    for contender in contenders:
        array = arrays[contender.result]
        array.fill(np.nan)
        contender.runs[0]()
        results.append(array.astype(np.float64))
    error = np.abs(results[0] - results[1]).max() / np.abs(results[1]).max()
    if not error <= TOLERANCE[kind]:
        sys.exit(f"{name}: results differ by {error:.2g} of the largest: nothing to compare")


SIDES = {"provider": {"make_kernels": "1"}, "alone": None}


def times_with(
    first: str, name: str, graph: Graph, result: str, sets: list[dict], given: argparse.Namespace
) -> tuple[dict[str, float], int]:
    """Times of both sides, after the session of `first` was created first; and the number of
    disturbed turns."""
    whole = bool(graph.constants)
    sides = sorted(SIDES.items(), key=lambda side: side[0] != first)
    contenders = [
        Contender(
            whose,
            "run",
            onnxruntime_runs(graph, sets, given.threads, provider=options, others=whole),
            result,
        )
        for whose, options in sides
    ]
    require_equal(name, contenders, sets[0], given.type)
    medians, disturbed = times_of(contenders, given.rounds, given.clock)
    return {whose: medians[whose]["run"] for whose in SIDES}, disturbed


def measure(
    name: tuple[str, str, str], graph: Graph, result: str, sets: list[dict], given: argparse.Namespace
) -> Row:
    runs = [times_with(first, " ".join(name), graph, result, sets, given) for first in SIDES]
    times = {whose: sum(of[whose] for of, _ in runs) / len(runs) for whose in SIDES}
    disturbed = sum(count for _, count in runs)
    return Row(*name, **times, disturbed=disturbed / (4 * given.rounds))


def rows_of(decoder: Decoder, given: argparse.Namespace, report: Callable[[Row], None]) -> None:
    sets = [arrays_of(decoder, given.type, seed) for seed in range(SETS)]
    weights = weights_of(decoder, given.type)
    for form in FORMS:
        parts = {
            "attention": (attention_graph(decoder, form), "Y1"),
            "all": (whole_graph(decoder, form, weights), "output"),
        }
        for part, (graph, result) in parts.items():
            report(measure((decoder.model, part, form), graph, result, sets, given))


COLUMNS = "{:14} {:10} {:5} {:>12} {:>12} {:>7}"


def print_row(row: Row) -> None:
    times = [f"{seconds * 1e6:.0f}" for seconds in (row.provider, row.alone)]
    ratio = f"{row.ratio:.2f}" + ("*" if row.disturbed > 0.25 else " ")
    print(COLUMNS.format(row.model, row.part, row.form, *times, ratio), flush=True)


def main() -> None:
    given = parse_arguments(
        __doc__.splitlines()[0],
        rounds=15,
        least=5,
        only="models with one of these words in their names",
        threads="of both (default 1)",
        type="float32 (default) or float16",
        ort="libkvmill_ort.so (required)",
        clock='"thread": processor time of the calling thread, for one thread on a busy machine',
    )
    if not given.ort:
        sys.exit("no provider; accepted: --ort libkvmill_ort.so")
    register(given.ort)
    given.clock = time.thread_time if given.clock == "thread" else time.perf_counter
    given.threads, given.type = int(given.threads or 1), given.type or "float32"
    rows: list[Row] = []

    def report(row: Row) -> None:
        rows.append(row)
        print_row(row)

    print(COLUMNS.format("model", "part", "nodes", "provider us", "alone us", "ratio"))
    for model in INNER:
        if any(word in model for word in given.only.split(",")):
            rows_of(decoder_of(model, LENGTH), given, report)
    write_results(given.json, rows, onnxruntime=onnxruntime.__version__)


if __name__ == "__main__":
    main()
