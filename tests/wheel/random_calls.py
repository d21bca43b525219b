"""Random calls of the binding: valid calls in which some arguments are replaced by anything.  Each call must return a
result or raise an exception that the package documents; none may end the process.

    random_calls.py LOG      the last line of LOG is the current call

KVMILL_PYTHON_CALLS: the number of calls; KVMILL_SEED: the seed of the random numbers; KVMILL_PACKS: packs, separated by
colons; KVMILL_PYTHON_LOG: arguments are logged, too.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import faulthandler
import inspect
import json
import os
import random
import re
import reprlib
import resource
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import kvmill
import numpy as np
from kvmill import tables

# Python's own messages about a function's arguments.
OF_SIGNATURES = re.compile(r"unexpected keyword argument|missing \d+ required|takes \d+ positional|multiple values for")
DOCUMENTED = (kvmill.KvmillError, TypeError, ValueError, OverflowError, MemoryError, OSError)
PLANS = (kvmill.TensorScatter, kvmill.CacheAttend, kvmill.MultiHeadCacheAttention, kvmill.MultiHeadAttention,
         kvmill.Attention, kvmill.TensorScatterAttention, kvmill.Gather, kvmill.Scatter)  # fmt: skip
FUNCTIONS = (kvmill.Flow, kvmill.Flow.plan, kvmill.Flow.fields, kvmill.Pack, kvmill.pack_nibbles, kvmill.unpack_nibbles,
             kvmill.merge_partials, kvmill.Call.part, kvmill.Call.run_threads, kvmill.Call.run_parallel)  # fmt: skip
FLOWS = Path(__file__).parents[2] / "configs" / "flows"

Arguments = dict[str, Any]


# ---- Refusals ----


@cache
def argument_names() -> frozenset[str]:
    """Return the names of parameters, attributes and tensors of all calls."""
    functions = [*PLANS, *FUNCTIONS, *(method for plan in PLANS for method in (plan.run, plan.prepare))]
    names = {name for function in functions for name in inspect.signature(function).parameters}
    names |= {name for _, members in tables.STRUCTS.values() for name, *_ in members}
    return frozenset(names | {tensor.name for tensors in tables.TENSORS.values() for tensor in tensors})


# The status; the argument; its value; what is accepted.
REFUSAL = re.compile(
    r"(?:KVMILL_E_\w+: )?(?:no kernel to [^;]*; )?(?P<named>.+?)(?: (?:is|are|has|have|and|of|overlaps)\b|: )(?P<value>.*?\S.*?)"
    r"(?:; accepted\b.*: ?.|; accepted: .|; a tensor is required|; did you mean|; the plan was made with it|; plan with)"
)
# A place in a flow or a region, whose messages the readers' tests check.
IN_A_TEXT = re.compile(r"KVMILL_E_\w+: (?:flow|region|element type)(?::\d+:\d+| ?: /\w*|: C\d+|: capture)")


def names_what_was_wrong(error: Exception, given: set[str]) -> bool:
    """Whether a message has the argument, its value and what is accepted, on one line.  Messages of
    the system have a file or a size."""
    message = str(error)
    if isinstance(error, (MemoryError, OSError)) or OF_SIGNATURES.search(message):
        return True
    if "\n" in message or message.startswith("KVMILL_E_MEMORY: "):
        return "\n" not in message
    if IN_A_TEXT.match(message):
        return True
    refusal = REFUSAL.match(message)
    if refusal is None:
        return False
    named = refusal["named"] + " " + refusal["value"]
    return not (argument_names() | given).isdisjoint(re.findall(r"\w+", named))


# ---- Anything ----


class Liar:
    """Claims to be an array, and is not one."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.given

    def __dlpack__(self, **_: Any) -> Any:
        return self.given

    def __dlpack_device__(self) -> Any:
        return (1, 0) if self.given else self.given


def frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


NUMBERS = (0, 1, -1, 2, 3, 7, 64, 255, 2**31 - 1, 2**31, -(2**31), 2**62, 2**63 - 1, 2**63, -(2**63), 2**80)
OTHERS = (
    None, True, False, ..., 0.0, -1.5, float("nan"), float("inf"), 1j, "", "float16", "int8", "int4", "q8_0", "tiles",
    "circular", "f32", "fast", "a\0b", "\udc80", "x" * 5000, b"", b"float16", (), [], {}, set(), [[]], [None], {"a": 1},
    "warn", "refuse", "only", object(), int, range(5), slice(1), lambda *_: 1, memoryview(b"abc"), np.float16, np.dtype("V3"),
)  # fmt: skip
TYPES = "?bBhHiIlLeefffdFDO"
SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (2,), (3, 0), (1, 1, 1, 1), (2, 3, 9, 7), (1, 2, 8, 64), (1,) * 9)


def any_array(dice: random.Random) -> Any:
    kind = dice.choice(TYPES)
    array = np.zeros(dice.choice(SHAPES), kind)
    if dice.random() < 0.2 and kind not in "?O":
        array[...] = dice.choice((1, 100))
    twist: Callable[[np.ndarray], Any] = dice.choice((
        lambda a: a, lambda a: a, lambda a: a.T, lambda a: a[..., ::-1] if a.ndim else a, frozen,
        lambda a: a[::2] if a.ndim else a, lambda a: np.broadcast_to(a, (2, *a.shape)),
        lambda a: np.broadcast_to(a.ravel()[:1], (1, 2**50)) if a.size else a,
        lambda a: a.astype(a.dtype.newbyteorder()), lambda a: a.tolist(), Liar, lambda a: np.asmatrix(a) if a.ndim < 3 else a,
        lambda a: np.ma.masked_array(a), lambda a: memoryview(a.ravel()) if a.dtype.kind in "iu" else a,
        lambda a: np.frombuffer(b"\1" * 4096, a.dtype if a.dtype != object else None)[1:],
    ))  # fmt: skip
    return twist(array)


def anything(dice: random.Random) -> Any:
    which = dice.random()
    if which < 0.3:
        return dice.choice(NUMBERS)
    return any_array(dice) if which < 0.65 else dice.choice(OTHERS)


def bent(dice: random.Random, good: Any) -> Any:
    """Return something similar to `good`, or anything."""
    if isinstance(good, np.ndarray) and dice.random() < 0.6:
        ways: tuple[Callable[[], Any], ...] = (
            lambda: good[:-1], lambda: good[..., :-1], lambda: good[..., ::-1], lambda: good.T, lambda: good[None], lambda: good.ravel(),
            lambda: good.astype(dice.choice("bhHeefdD")), lambda: frozen(good.copy()), lambda: good.tolist(),
            lambda: np.full_like(good, dice.choice((-1, 1, 100))), lambda: good + np.array(2**62, np.int64), lambda: good[..., :0],
        )  # fmt: skip
        try:
            return dice.choice(ways)()
        except (TypeError, ValueError, IndexError, OverflowError):
            return None
    if isinstance(good, dict) and good and dice.random() < 0.9:
        return bend(dice, good)
    if isinstance(good, list) and good and dice.random() < 0.9:
        at = dice.randrange(len(good))
        return [*good[:at], bent(dice, good[at]), *good[at + dice.randrange(2) :]]
    if type(good) is int and dice.random() < 0.4:
        return good + dice.choice((-1, 1, 2, -good))
    return anything(dice)


def bend(dice: random.Random, arguments: Arguments) -> Arguments:
    changed = dict(arguments)
    for name in dice.sample(sorted(changed), min(len(changed), dice.choice((0, 1, 1, 1, 2, 3)))):
        if dice.random() < 0.1:
            del changed[name]
        else:
            changed[name] = bent(dice, changed[name])
    if dice.random() < 0.05:
        changed[dice.choice(("x", "T2", "threads", "packs", "isa", "portable", "executor", "lse", "attn_mask", "sinks"))] = anything(dice)
    return changed


# ---- Good calls ----


@cache
def noise(*shape: int, kind: str) -> np.ndarray:
    return np.random.default_rng(24).standard_normal(shape).astype(kind)


def random_array(dice: random.Random, *shape: int, kind: str = "e") -> np.ndarray:
    array = noise(*shape, kind=kind)
    return array if dice.random() < 0.5 else array.copy()


def scatter_rows(dice: random.Random) -> tuple[Any, Arguments, Arguments]:
    kind = dice.choice("eBO")
    past, update = np.zeros((2, 3, 9, 7), kind), np.ones((2, 3, 2, 7), kind)
    types = {"dtype": "int4"} if kind == "B" and dice.random() < 0.3 else {}
    arrays = {"past": past, "update": update, "write_indices": np.array([1, 5])}
    given = {"mode": dice.choice(("linear", "circular")), "axis": -2, "dynamic": ["batch"], "negative_indices": "refused"}
    run = {**arrays, "present": dice.choice((past, past.copy()))}
    return kvmill.TensorScatter, {**arrays, **given, **types}, run


def attend_anywhere(dice: random.Random) -> tuple[Any, Arguments, Arguments]:
    plan = {"num_heads": 8, "num_kv_heads": 2, "key_head_dim": 64, "T1": "float16", "page_size": 4, "threads": 2}
    rows = {"key": random_array(dice, 2, 12, 2, 64), "value": random_array(dice, 2, 12, 2, 64)}
    where: Arguments = dice.choice(
        ({"lengths": [3, 12]}, {"slots": np.arange(9), "slot_starts": [0, 4, 9]}, {"ranges": np.array([[1, 5]] * 4), "lengths": [12, 12]})
    )
    if "slots" in where:
        rows = {name: array.reshape(24, 2, 64) for name, array in rows.items()}
    return kvmill.CacheAttend, plan, {"query": random_array(dice, 2, 2, 8, 64), **rows, **where}


def attend_cache(dice: random.Random) -> tuple[Any, Arguments, Arguments]:
    plan = {"num_heads": 6, "num_kv_heads": 2, "head_dim": 64, "T1": "float16", "cache_layout": 0, "num_layer": 1, "mode": "linear"}
    new = {"current_key": random_array(dice, 2, 3, 2, 64), "current_value": random_array(dice, 2, 3, 2, 64)}
    run = {**new, "start_pos": np.array(4), "cache": np.zeros((2, 1, 2, 9, 2, 64), np.float16)}
    if dice.random() < 0.3:
        del plan["num_heads"]
        return kvmill.KeyValueCache, plan, run
    return kvmill.MultiHeadCacheAttention, {**plan, "partial": False}, {**run, "query": random_array(dice, 2, 3, 6, 64)}


def attend_given(dice: random.Random) -> tuple[Any, Arguments, Arguments]:
    plan = {"num_heads": 6, "num_kv_heads": 2, "head_dim": 64, "T1": "float16", "is_causal": True, "softcap": 0.0}
    rows = {"key": random_array(dice, 1, 5, 2, 64), "value": random_array(dice, 1, 5, 2, 64)}
    return kvmill.MultiHeadAttention, plan, {"query": random_array(dice, 1, 5, 6, 64), **rows, "attn_mask": np.zeros((5, 5), np.float16)}


def onnx(dice: random.Random) -> tuple[Any, Arguments, Arguments]:
    arrays = {"Q": random_array(dice, 2, 6, 3, 64), "K": random_array(dice, 2, 2, 5, 64), "V": random_array(dice, 2, 2, 5, 64)}
    return kvmill.Attention, {**arrays, "opset": 24, "is_causal": 0, "scale": 0.1, "dynamic": []}, {**arrays, "Y": np.empty((2, 6, 3, 64), np.float16)}


def onnx_step(dice: random.Random) -> tuple[Any, Arguments, Arguments]:
    arrays = {"Q": random_array(dice, 2, 6, 1, 64), "K": random_array(dice, 2, 2, 1, 64), "V": random_array(dice, 2, 2, 1, 64),
              "past_key": random_array(dice, 2, 2, 9, 64), "past_value": random_array(dice, 2, 2, 9, 64),
              "write_indices": np.array([3, 4]), "nonpad_kv_seqlen": np.array([4, 5])}  # fmt: skip
    return kvmill.TensorScatterAttention, {**arrays, "opset": 24, "mode": "linear"}, arrays


def gather(dice: random.Random) -> tuple[Any, Arguments, Arguments]:
    arrays = {"operand": random_array(dice, 9, 5), "start_indices": np.array([[3], [8]], np.int32)}
    numbers = {"offset_dims": [1], "collapsed_slice_dims": [0], "start_index_map": [0], "index_vector_dim": 1, "slice_sizes": [1, 5], "mode": "fill", "fill_value": 1.0}
    return kvmill.Gather, {**arrays, **numbers}, arrays


def scatter(dice: random.Random) -> tuple[Any, Arguments, Arguments]:
    inputs = random_array(dice, 9, 5, kind="f")
    arrays = {"inputs": inputs, "scatter_indices": np.array([[3], [8]], np.int32), "updates": random_array(dice, 2, 5, kind="f")}
    numbers = {"update_window_dims": [1], "inserted_window_dims": [0], "scatter_dims_to_operand_dims": [0], "index_vector_dim": 1}
    region = """^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %0 = stablehlo.multiply %b, %capture0 : tensor<f32>
      stablehlo.return %0 : tensor<f32>"""
    cut = region[: dice.randrange(len(region))] if dice.random() < 0.3 else region
    said, given = dice.choice(
        (({"update_computation": "add"}, {}), ({"region": cut, "captures": ["tensor<f32>"]}, {"captures": [np.float32(2)]}), ({"elements": [None]}, {}))
    )
    run = {**arrays, "results": dice.choice((inputs, inputs.copy())), **given}
    return kvmill.Scatter, {**arrays, **numbers, **said}, run


CALLS = (scatter_rows, attend_anywhere, attend_cache, attend_given, onnx, onnx_step, gather, scatter)


# ---- Calling ----


class Caller:
    def __init__(self, log: str, seed: int) -> None:
        self.dice = random.Random(seed)
        self.log = open(log, "w", buffering=1)  # noqa: SIM115
        self.tells = "KVMILL_PYTHON_LOG" in os.environ
        self.number = 0
        self.results: Counter[str] = Counter()
        self.surprises: dict[str, str] = {}  # a call for each kind of unexpected result
        self.packs = [kvmill.Pack(path) for path in os.environ["KVMILL_PACKS"].split(":")]
        self.pool = ThreadPoolExecutor(2)

    def call(self, function: Callable[..., Any], *items: Any, **named: Any) -> Any:
        """Call a function.  Returns its result, or None."""
        name = getattr(function, "__qualname__", str(function))
        self.number += 1
        words = in_words(items, named) if self.tells else "..."
        self.log.write(f"{self.number}: {name}({words})\n")
        try:
            result = function(*items, **named)
        except DOCUMENTED as error:
            self.results[type(error).__name__] += 1
            if not names_what_was_wrong(error, set(named)):
                self.surprises.setdefault(f"{name}: {type(error).__name__}: {error}"[:200], in_words(items, named))
        except Exception as error:
            self.results["surprise"] += 1
            what = f"{name}: {type(error).__name__}: {error}"[:100]
            self.surprises.setdefault(what, in_words(items, named))
        else:
            self.results["good"] += 1
            return result
        return None

    def options(self) -> Arguments:
        return {"packs": self.dice.choice((self.packs, ())), "portable": self.dice.choice(("allow", "warn", "refuse", "only"))}

    def run_plan(self, plan: Any, good: Arguments) -> None:
        for _ in range(self.dice.randrange(1, 4)):
            run = bend(self.dice, good)
            if isinstance(plan, kvmill.Attention):
                run.pop("Y", None)
                self.call(plan.run, *run.values())
            else:
                if hasattr(plan, "_function") and self.dice.random() < 0.3:
                    run["executor"] = self.pool
                self.call(plan.run, **run)
        call = self.call(plan.prepare, **bend(self.dice, good))
        if isinstance(call, kvmill.Call):
            self.use_call(call)

    def use_call(self, call: kvmill.Call) -> None:
        """Use the functions of a prepared call in any order."""
        for _ in range(self.dice.randrange(1, 6)):
            functions: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...] = (
                (call.run, ()),
                (call.begin, ()),
                (call.next, ()),
                (call.part, (self.dice.choice((0, 1, -1, 10**6, anything(self.dice))),)),
                (call.run_threads, (self.dice.choice((self.pool, anything(self.dice))),)),
                (call.run_parallel, (anything(self.dice), anything(self.dice))),
            )
            function, items = self.dice.choice(functions)
            self.call(function, *items)

    def op(self) -> None:
        kind, plan_arguments, run_arguments = self.dice.choice(CALLS)(self.dice)
        plan = self.call(kind, **bend(self.dice, {**plan_arguments, **self.options()}))
        if plan is None:
            return
        self.call(plan.describe)
        self.run_plan(plan, run_arguments)

    def flow(self) -> None:
        file = self.dice.choice(sorted(FLOWS.glob("*.json")))
        spec = json.loads(file.read_text())
        attention = {"num_heads": 8, "num_kv_heads": 2, "head_dim": 64}
        flow = self.call(kvmill.Flow, bent(self.dice, spec) if self.dice.random() < 0.5 else spec, **bend(self.dice, attention))
        if flow is None:
            return
        self.call(flow.fields, self.dice.choice((3, 0, anything(self.dice))))
        limits = {"batch": 2, "pages": 4, "cache_pages": 8, "threads": 1}
        step = self.dice.choice(("append", "index", "attend", "decode", anything(self.dice)))
        plan = self.call(flow.plan, step, **bend(self.dice, {**limits, **self.options()}))
        fields = self.call(flow.fields, 8)
        if plan is None or fields is None:
            return
        arrays = {"query": random_array(self.dice, 2, 8, 64), "cache": np.zeros((8, 1, 2, 2, 16, 64), np.float16),
                  "seq_len": [20, 3], "page_indptr": [0, 2, 3], "page_ids": [4, 1, 0], "current_key": random_array(self.dice, 2, 2, 64),
                  "current_value": random_array(self.dice, 2, 2, 64), "slot_mapping": [0, 40], **fields}  # fmt: skip
        self.run_plan(plan, arrays)

    def function(self) -> None:
        some = (anything(self.dice), anything(self.dice), anything(self.dice))
        partial = [random_array(self.dice, 2, 4, kind="f"), random_array(self.dice, 2, 4, kind="f")]
        self.call(*self.dice.choice((
            (kvmill.pack_nibbles, some[0]),
            (kvmill.unpack_nibbles, *some),
            (kvmill.unpack_nibbles, np.zeros(9, np.uint8), (3, self.dice.choice((6, 7, -1, anything(self.dice)))), np.dtype("u1")),
            (kvmill.merge_partials, *some[:2]),
            (kvmill.merge_partials, bent(self.dice, partial), bent(self.dice, [partial[0][..., 0], partial[1][..., 0]])),
            (kvmill.Pack, some[0]),
            (kvmill.Pack, self.dice.choice(("/dev/null/absent/libx.so", __file__, "libx.so", "/", os.environ["KVMILL_LIBRARY"]))),
        )))  # fmt: skip


def shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}/{list(value.strides)}"
    return reprlib.repr(value)


def in_words(items: tuple[Any, ...], named: Arguments) -> str:
    return ", ".join([*map(shown, items), *(f"{key}={shown(value)}" for key, value in named.items())])


def main() -> int:
    faulthandler.enable()
    faulthandler.dump_traceback_later(300)  # prints where a call hangs
    resource.setrlimit(resource.RLIMIT_AS, (3 << 29, 3 << 29))
    warnings.simplefilter("ignore")
    seed, wanted = int(os.environ.get("KVMILL_SEED", "24")), int(os.environ.get("KVMILL_PYTHON_CALLS", "10000"))
    caller = Caller(sys.argv[1], seed)
    while caller.number < wanted:
        caller.dice.choices((caller.op, caller.flow, caller.function), (8, 1, 1))[0]()
    print(f"seed {seed}: {dict(caller.results)}")
    for what, words in caller.surprises.items():
        print(f"{what}\n    {words[:500]}")
    return 1 if caller.surprises or caller.results["good"] < wanted // 10 else 0


if __name__ == "__main__":
    sys.exit(main())
