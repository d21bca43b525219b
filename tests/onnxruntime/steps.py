"""Decoder steps in ONNX Runtime: growing caches, rings, a model with two layers, threads.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import ml_dtypes
import numpy as np
import onnx_attention
from models import (
    FLOAT16,
    INT64,
    decode,
    decoder,
    decoder_arrays,
    make_model,
    plain_session,
    require_close,
    run,
    step_nodes,
    value,
)
from onnx import helper
from tap import Tap

CASES = 24


# ---- A step ----


def step_model(heads: int, kv_heads: int, dim: int, kind: int = 1, mode: str = "linear"):
    inputs = [value("Q", kind, ["batch", heads, "rows", dim])]
    inputs += [value(x, kind, ["batch", kv_heads, "rows", dim]) for x in "KV"]
    cache = ["batch", kv_heads, "capacity", dim]
    inputs += [value(f"past_{x}", kind, cache) for x in "KV"]
    inputs += [value(x, INT64, ["batch"]) for x in ("write_indices", "nonpad")]
    outputs = [value("Y", kind), *(value(f"present_{x}", kind) for x in "KV")]
    return make_model(step_nodes(mode=mode), inputs, outputs)


def step_arrays(rng: np.random.Generator, batch: int, rows: int, capacity: int, dtype="float32"):
    def rows_of(heads: int, count: int) -> np.ndarray:
        return rng.standard_normal((batch, heads, count, 64)).astype(dtype)

    starts = rng.integers(0, capacity - rows + 1, batch)
    caches = {f"past_{x}": rows_of(2, capacity) for x in "KV"}
    new = {"Q": rows_of(8, rows), "K": rows_of(2, rows), "V": rows_of(2, rows)}
    return {**caches, **new, "write_indices": starts, "nonpad": starts + rows}


def bfloat16_of(array: np.ndarray) -> np.ndarray:
    """Round to numbers that bfloat16 has."""
    return array.astype(ml_dtypes.bfloat16).astype(np.float32)


def check_step(session, arrays, tolerance: float = 2e-5) -> None:
    """Compare with the ONNX project's evaluator on the three nodes."""
    names = {"past_K": "past_K", "past_V": "past_V", "nonpad": "nonpad_kv_seqlen"}
    given = {names.get(name, name): array for name, array in arrays.items()}
    wide = {n: a.astype(np.float32) if a.dtype == np.float16 else a for n, a in given.items()}
    results = onnx_attention.composition(wide, {"is_causal": 1})
    want = dict(zip(("Y", "present_K", "present_V"), results, strict=True))
    require_close(run(session, arrays), want, tolerance)


def check_dynamic(open_session: Callable, rng: np.random.Generator) -> None:
    session = open_session(step_model(8, 2, 64))
    for _ in range(CASES):
        batch, rows, spare = (int(n) for n in rng.integers(1, 6, 3))
        check_step(session, step_arrays(rng, batch, rows, rows + 9 * spare))


def check_half(open_session: Callable, rng: np.random.Generator) -> None:
    session = open_session(step_model(8, 2, 64, FLOAT16))
    for rows in (1, 1, 7):
        check_step(session, step_arrays(rng, 2, rows, 40, "float16"), 3e-3)


def check_bfloat16(open_session: Callable, rng: np.random.Generator) -> None:
    """The model casts, because NumPy has no bfloat16 arrays that ONNX Runtime accepts."""
    model = step_model(8, 2, 64)
    for name in ("Q", "K", "V", "past_K", "past_V"):
        model.graph.node.insert(0, helper.make_node("Cast", [f"{name}32"], [name], to=16))
        next(i for i in model.graph.input if i.name == name).name += "32"
    for output in model.graph.output:
        cast = helper.make_node("Cast", [output.name], [f"{output.name}32"], to=1)
        model.graph.node.append(cast)
        output.name += "32"
    arrays = step_arrays(rng, 2, 3, 40)
    given = {n: a if a.ndim == 1 else bfloat16_of(a) for n, a in arrays.items()}
    want = run(plain_session(step_model(8, 2, 64)), given)
    inputs = {n if a.ndim == 1 else f"{n}32": a for n, a in given.items()}
    require_close(run(open_session(model), inputs), {f"{n}32": a for n, a in want.items()}, 2e-2)


def check_other_lengths(open_session: Callable, rng: np.random.Generator) -> None:
    """If the queries are not at the stored rows, the result is that of the three nodes."""
    session = open_session(step_model(8, 2, 64))
    for _ in range(CASES):
        arrays = step_arrays(rng, 3, 2, 30)
        arrays["nonpad"] = rng.integers(0, 31, 3)
        check_step(session, arrays)


def check_empty(open_session: Callable, rng: np.random.Generator) -> None:
    session = open_session(step_model(8, 2, 64))
    got = run(session, step_arrays(rng, 0, 1, 8))
    assert got["Y"].shape == (0, 8, 1, 64) and got["present_K"].shape == (0, 2, 8, 64), got
    check_step(session, step_arrays(rng, 1, 1, 8))


def check_rings(open_session: Callable, rng: np.random.Generator) -> None:
    model = step_model(8, 2, 64, mode="circular")
    arrays = step_arrays(rng, 2, 1, 16)
    arrays["write_indices"] += 32
    require_close(run(open_session(model), arrays), run(plain_session(model), arrays), 2e-5)


STEPS = (
    (f"a step of {CASES} shapes in one session", check_dynamic),
    ("float16", check_half),
    ("bfloat16", check_bfloat16),
    ("lengths that are not those of a step", check_other_lengths),
    ("an empty batch, then another", check_empty),
    ("rings", check_rings),
)


def step_tests(tap: Tap, seed: int, name: str, open_session: Callable) -> None:
    rng = np.random.default_rng([seed, 5])
    for what, test in STEPS:
        tap.run(f"{name}: {what}", partial(test, open_session, rng))


# ---- A model ----


def bind(session, arrays: dict[str, np.ndarray], hidden: np.ndarray):
    """Bind all arrays; the caches are both input and output."""
    binding = session.io_binding()
    for name, array in arrays.items():
        binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        if name.startswith("past_"):
            present = name.replace("past", "present")
            binding.bind_output(present, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    binding.bind_output("hidden1", "cpu", 0, hidden.dtype, hidden.shape, hidden.ctypes.data)
    return binding


def decode_in_place(open_session: Callable, seed: int, threads: int) -> None:
    """Decode a prompt of 5 tokens, then 6 tokens, with caches in place, and compare each step with
    double precision."""
    rng = np.random.default_rng([seed, 6])
    session = open_session(decoder(), threads=threads)
    arrays = decoder_arrays(rng, 3, 900)
    starts = np.array([0, 3, 870])
    for tokens in (5, 1, 1, 1, 1, 1, 1):
        arrays["hidden"] = rng.standard_normal((3, tokens, 512)).astype(np.float32)
        arrays |= {"write_indices": starts, "nonpad": starts + tokens}
        want = decode(arrays)
        hidden = np.full_like(arrays["hidden"], np.nan)
        session.run_with_iobinding(bind(session, arrays, hidden))
        got = {n.replace("past", "present"): arrays[n] for n in arrays if n.startswith("past")}
        require_close({**got, "hidden1": hidden}, want, 1e-4)
        starts = starts + tokens


def same_bits_tests(tap: Tap, seed: int, name: str, open_session: Callable) -> None:
    """Results have the same bits with threads, for caches that are split among them and for one
    that is not."""

    def check() -> None:
        rng = np.random.default_rng([seed, 9])
        sessions = [open_session(step_model(8, 2, 64), threads=threads) for threads in (1, 2, 3)]
        for capacity in (40, 900, 3000):
            arrays = step_arrays(rng, 2, 1, capacity)
            results = {run(session, arrays)["Y"].tobytes() for session in sessions}
            assert len(results) == 1, f"capacity {capacity}: other bits"

    tap.run(f"{name}: the same bits by any number of threads", check)


def many_at_once(open_session: Callable, seed: int) -> None:
    """Eight threads run one session while others are opened and closed."""
    rng = np.random.default_rng([seed, 7])
    model, failures = step_model(8, 2, 64), []
    session = open_session(model, threads=2)
    problems = [step_arrays(rng, 1 + n % 3, 1 + n % 4, 600 + n) for n in range(8)]
    wanted = [run(plain_session(model), arrays) for arrays in problems]

    def work(number: int) -> None:
        try:
            for turn in range(12):
                used = open_session(model) if number == 0 and turn % 4 == 0 else session
                require_close(run(used, problems[number]), wanted[number], 2e-5)
        except Exception as error:  # passed on to the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def model_tests(tap: Tap, seed: int, name: str, open_session: Callable) -> None:
    for threads in (1, 2):
        what = f"{name}: a decoder of two layers, in place, threads: {threads}"
        tap.run(what, partial(decode_in_place, open_session, seed, threads))
    tap.run(f"{name}: threads and sessions at once", partial(many_at_once, open_session, seed))
