"""Steps of attention of kvmill and of ONNX Runtime (CPU), side by side in one run.

    python onnxruntime_attention.py --packs PACK[:PACK...] [--ort LIBRARY] [--only WORD[,WORD...]]
        [--threads N] [--rounds N] [--clock thread] [--json FILE]

decode   one new token on 4096 positions, with the head configurations of 20 models
prefill  512 tokens at once into an empty cache

ONNX Runtime's ops, if it has them for the problem:

attention  Attention-24 on caches that contain the new rows, valid up to nonpad_kv_seqlen
step       TensorScatter of K and of V in place, then this Attention
gqa        com.microsoft.GroupQueryAttention, which appends to its caches in place; with an int8
           cache, which has one scale per tensor, activations are float32

With --ort, LIBRARY is libkvmill_ort.so with kernels for the problems, and there is one more:

provider   the nodes of "step" and of "gqa" in ONNX Runtime, run by kvmill's provider

With one thread there is also "reading": NumPy's largest integer of both caches, which reads each of
them once.

kvmill's ops are Attention and the fused step TensorScatterAttention; for an int8 cache
MultiHeadCacheAttention, which has one scale per row, with float32 and ("fast") integer arithmetic.
The ratio is the time of ONNX Runtime's fastest op / that of kvmill's step, even if that op stores
nothing: above 1, kvmill is faster.  With the provider there are two more ratios, of the nodes of
"step" and of GroupQueryAttention, without the provider / with it.

All contenders use the same caches, which are full, and arrays that are bound in advance.  They take
turns, and each run uses the next set of caches; all sets together have WALK bytes, more than the
processor's caches hold.  A turn begins when the threads of the last turn are asleep, with a run
that is not timed.  A turn that other processes disturbed is repeated a few times; if that does not
help, its row has a star.  Before the timing, all contenders must store the same rows and give the
same result, within the tolerance of the type.

configs/onnx_attention.json contains the problems; a pack for them is made from it.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import kvmill
import numpy as np
import onnxruntime
from attention_graphs import graphs_of, onnxruntime_runs, register
from attention_problems import INT8_SCALE, SPECS, Arrays, Problem, problems_of, sets_of
from sides import packs_of, parse_arguments, write_results
from turns import Contender, Run, times_of

THREADS = (1, 2)
TOLERANCE = {"float32": 1e-4, "float16": 4e-3, "int8": 2e-2}  # of the largest output


@dataclass(frozen=True)
class Row:
    """Results for one problem: seconds per run by contender, medians of the rounds."""

    problem: str
    threads: int
    sets: int
    kernels: str
    kvmill: dict[str, float]
    onnxruntime: dict[str, float]
    disturbed: float  # share of the turns in which other processes took the processor
    memory: dict[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        return min(self.onnxruntime.values()) / self.kvmill["step"]

    def ratio_of(self, nodes: str) -> float | None:
        """Time of these nodes without the provider / with it."""
        ours = self.kvmill.get(f"provider {nodes}")
        return self.onnxruntime[nodes] / ours if ours is not None else None


# ---- kvmill ----


@dataclass(frozen=True)
class Side:
    """A plan, and a function that binds arrays to it."""

    plan: kvmill.Attention | kvmill.TensorScatterAttention | kvmill.MultiHeadCacheAttention
    bind: Callable[[Arrays], kvmill.Call]


def options_of(problem: Problem, packs: Sequence[kvmill.Pack], threads: int) -> dict:
    return {"packs": packs, "threads": threads, "softcap": problem.softcap}


def attention_side(arrays: Arrays, options: dict) -> Side:
    def tensors(arrays: Arrays) -> dict[str, np.ndarray]:
        return {
            "Q": arrays["Q"],
            "K": arrays["past_key"],
            "V": arrays["past_value"],
            "nonpad_kv_seqlen": arrays["nonpad_kv_seqlen"],
        }

    plan = kvmill.Attention(**tensors(arrays), opset=24, is_causal=1, **options)
    return Side(plan, lambda arrays: plan.prepare(**tensors(arrays), Y=arrays["Y"]))


def step_side(arrays: Arrays, options: dict) -> Side:
    names = ("Q", "K", "V", "past_key", "past_value", "write_indices")

    def tensors(arrays: Arrays) -> dict[str, np.ndarray]:
        return {name: arrays[name] for name in names}

    plan = kvmill.TensorScatterAttention(**tensors(arrays), opset=24, is_causal=1, **options)
    return Side(
        plan,
        lambda arrays: plan.prepare(
            **tensors(arrays),
            Y=arrays["Y"],
            present_key=arrays["past_key"],
            present_value=arrays["past_value"],
        ),
    )


def int8_side(arrays: Arrays, options: dict) -> Side:
    problem = arrays.problem
    plan = kvmill.MultiHeadCacheAttention(
        T1="float32",
        num_heads=problem.heads,
        num_kv_heads=problem.kv_heads,
        head_dim=problem.key_dim,
        quant_bit=8,
        quant_group=problem.key_dim,
        value_head_dim=problem.value_dim,
        cache_layout=1,
        math=problem.math,
        **options,
    )

    def bind_side(arrays: Arrays) -> kvmill.Call:
        def by_head(name: str, heads: int) -> np.ndarray:
            return arrays[name].reshape(1, problem.queries, heads, -1)

        return plan.prepare(
            query=by_head("query", problem.heads),
            current_key=by_head("key", problem.kv_heads),
            current_value=by_head("value", problem.kv_heads),
            start_pos=problem.past,
            cache=arrays["past_key"][None, :, None],
            scale=arrays["past_key_scale"][None, :, None],
            value_cache=arrays["past_value"][None, :, None],
            value_scale=arrays["past_value_scale"][None, :, None],
            attn_output=by_head("output", problem.heads),
        )

    return Side(plan, bind_side)


def kvmill_sides(problem: Problem, arrays: Arrays, options: dict) -> dict[str, Side]:
    if problem.cache == "int8":
        return {"step": int8_side(arrays, options)}
    return {"attention": attention_side(arrays, options), "step": step_side(arrays, options)}


def require_kernels(problem: Problem, side: Side) -> str:
    """The plan's description.  Kernels for masks may be missing, because there are no masks."""
    words = side.plan.describe()
    phases = [words for words in words.split("; ") if not words.startswith("with a mask")]
    if any("portable" in phase for phase in phases):
        sys.exit(f"{problem.name}: {words}\naccepted: packs made from {SPECS.name}")
    return words


# ---- Verifying ----


def by_token(output: np.ndarray) -> np.ndarray:
    """The result as numbers by token, head and channel, for each layout."""
    if output.ndim == 4:
        output = output.transpose(0, 2, 1, 3)
    return output.astype(np.float64).reshape(-1)


def result_from_scratch(contender: Contender, arrays: Arrays) -> np.ndarray:
    arrays[contender.result].fill(np.nan)
    if contender.stores:
        for rows in arrays.new_rows():
            rows.fill(0)
    contender.runs[0]()
    return by_token(arrays[contender.result])


def are_stored(contender: Contender, arrays: Arrays) -> bool:
    """Whether the new rows are stored: floats exactly; codes within one step of the larger scale of
    both sides."""
    problem = arrays.problem
    for name, rows, given in zip("key value".split(), arrays.new_rows(), "KV", strict=True):
        scale, slack = 1.0, 0.0
        if problem.cache == "int8":
            of_tensor = contender.name.endswith("gqa")
            scale = INT8_SCALE if of_tensor else arrays[f"past_{name}_scale"][:, :, problem.past :]
            slack = INT8_SCALE
        if np.abs(rows * scale - arrays[given]).max() > slack:
            return False
    return True


def require_equal(problem: Problem, contenders: Sequence[Contender], arrays: Arrays) -> None:
    """Compares all contenders with the first one that stores."""
    expected = None
    for contender in sorted(contenders, key=lambda c: not c.stores):
        result = result_from_scratch(contender, arrays)
        expected = result if expected is None else expected
        error = np.abs(result - expected).max() / np.abs(expected).max()
        if not error <= TOLERANCE[problem.cache] or not are_stored(contender, arrays):
            sys.exit(
                f"{problem.name}: {contender.whose}'s {contender.name} differs by {error:.2g} of "
                "the largest output, or has stored other rows: nothing to compare"
            )


# ---- Measuring ----


def reading(sets: Sequence[Arrays]) -> Contender:
    """Reads both caches on one thread."""

    def reader(arrays: Arrays) -> Run:
        caches = [arrays[name].reshape(-1).view(np.int64) for name in ("past_key", "past_value")]
        return lambda: [cache.max() for cache in caches]

    return Contender("memory", "reading", [reader(arrays) for arrays in sets], "")


@dataclass(frozen=True)
class Setup:
    """The settings of all measurements."""

    packs: Sequence[kvmill.Pack]
    threads: int
    rounds: int
    has_provider: bool
    clock: Callable[[], float]


def by_runtime(problem: Problem, sets: Sequence[Arrays], setup: Setup) -> list[Contender]:
    """The nodes in ONNX Runtime, with the provider and without it."""

    def contender(whose: str, name: str, nodes: str, **options: dict) -> Contender:
        runs = onnxruntime_runs(graphs[nodes], sets, setup.threads, **options)
        return Contender(whose, name, runs, "output" if nodes == "gqa" else "Y")

    graphs = graphs_of(problem)
    with_provider = [name for name in ("step", "gqa") if name in graphs and setup.has_provider]
    return [
        contender("kvmill", f"provider {name}", name, provider={"math": problem.math})
        for name in with_provider
    ] + [contender("onnxruntime", name, name) for name in graphs]


def measure(problem: Problem, sets: Sequence[Arrays], setup: Setup) -> Row:
    threads = setup.threads
    sides = kvmill_sides(problem, sets[0], options_of(problem, setup.packs, threads))
    kernels = {name: require_kernels(problem, side) for name, side in sides.items()}
    contenders = [
        Contender(
            "kvmill",
            name,
            [side.bind(arrays).run for arrays in sets],
            "output" if problem.cache == "int8" else "Y",
        )
        for name, side in sides.items()
    ] + by_runtime(problem, sets, setup)
    require_equal(problem, contenders, sets[0])
    if threads == 1:
        contenders.append(reading(sets))
    medians, disturbed = times_of(contenders, setup.rounds, setup.clock)
    turns = setup.rounds * len(contenders)
    return Row(
        problem.name, threads, len(sets), kernels["step"], **medians, disturbed=disturbed / turns
    )


# ---- Reporting ----


COLUMNS = "{:36} {:>7}" + " {:>10}" * 7 + " {:>7}" * 3 + " {:>10}"
OURS = "attention", "step", "provider step", "provider gqa"
THEIRS = "attention", "step", "gqa"


def print_head() -> None:
    ours = ["kvmill us", "", "provider", "provider"]
    whose = [*ours, "onnxruntime us", "", "", *3 * ["ratio"], "memory us"]
    print(COLUMNS.format("", "", *whose))
    names = [name.removeprefix("provider ") for name in OURS + THEIRS]
    print(COLUMNS.format("problem", "threads", *names, "kvmill", "step", "gqa", "reading"))


def print_row(row: Row) -> None:
    def microseconds(times: dict[str, float], name: str) -> str:
        return f"{times[name] * 1e6:.0f}" if name in times else "-"

    ours = [microseconds(row.kvmill, name) for name in OURS]
    theirs = [microseconds(row.onnxruntime, name) for name in THEIRS]
    ratio = f"{row.ratio:.2f}" + ("*" if row.disturbed > 0.25 else " ")
    nodes = [row.ratio_of(name) for name in ("step", "gqa")]
    words = ["-" if of is None else f"{of:.2f}" for of in nodes]
    last = microseconds(row.memory, "reading")
    print(COLUMNS.format(row.problem, row.threads, *ours, *theirs, ratio, *words, last), flush=True)


def main() -> None:
    arguments = parse_arguments(
        __doc__.splitlines()[0],
        rounds=15,
        least=5,
        only="problems with all these words in their names",
        threads="1 or 2 (default: one after the other)",
        ort="libkvmill_ort.so: the provider takes part",
        clock='"thread": processor time of the calling thread, for one thread on a busy machine',
    )
    clock = time.thread_time if arguments.clock == "thread" else time.perf_counter
    if arguments.ort:
        register(arguments.ort)
    packs = packs_of(arguments)
    rows = []
    print_head()
    for problem in problems_of(arguments.only):
        sets = sets_of(problem)
        for threads in [int(arguments.threads)] if arguments.threads else THREADS:
            setup = Setup(packs, threads, arguments.rounds, bool(arguments.ort), clock)
            row = measure(problem, sets, setup)
            rows.append(row)
            print_row(row)
    write_results(arguments.json, rows, onnxruntime=onnxruntime.__version__)


if __name__ == "__main__":
    main()
