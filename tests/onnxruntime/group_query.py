"""GroupQueryAttention of com.microsoft: random nodes, run by kvmill's provider and by the CPU
provider.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import onnx
from models import claims, plain_session, provider_session, value
from onnx import helper
from tap import Tap, refused

INPUTS = (
    "query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length",
    "cos_cache", "sin_cache", "position_ids", "attention_bias", "head_sink", "k_scale", "v_scale",
    "q_norm_weight", "k_norm_weight", "query_seqlens",
)  # fmt: skip
OUTPUTS = ("output", "present_key", "present_value")
HEADS, KV_HEADS = 8, 2
SCALE_TYPES = ("PER_TENSOR", "PER_CHANNEL")
# The CPU provider rounds weights and sums to float16.
TOLERANCES = {"float32": 2e-5, "float16": 8e-3}
NEAR = 3e-3
CASES = 24
SLIDING = {"local_window_size": 8, "sliding_window_cache": 1}


@dataclass
class Case:
    """A call.  New rows of an entry are followed by padding."""

    arrays: dict[str, np.ndarray]
    attributes: dict[str, int | float | str] = field(default_factory=dict)

    @property
    def lengths(self) -> np.ndarray:
        return self.arrays["seqlens_k"].astype(np.int64) + 1

    @property
    def new(self) -> np.ndarray:
        rows = self.arrays["query"].shape[1]
        return self.arrays.get("query_seqlens", np.minimum(self.lengths, rows))


def shape_in_model(name: str, array: np.ndarray) -> list[int | str]:
    """Return the shape in the model, which leaves open batch, tokens, and rows of caches and
    tables."""
    opened = {"query": 2, "key": 2, "value": 2, "past_key": 1, "past_value": 1, "cos_cache": 1}
    dims: list[int | str] = list(array.shape)
    if name in ("query", "key", "value", "position_ids"):
        dims[:2] = ["batch", "tokens"]
    elif name in ("seqlens_k", "query_seqlens"):
        dims = ["entries"]
    elif name in opened:
        dims[0] = "batch" if name.startswith("past") else "places"
        dims[2:3] = ["capacity"] if len(dims) == 4 else []
    return dims


def group_query_model(case: Case) -> onnx.ModelProto:
    given = [name for name in INPUTS if name in case.arrays]
    last = INPUTS.index(given[-1]) + 1
    node = helper.make_node(
        "GroupQueryAttention",
        [name if name in given else "" for name in INPUTS[:last]],
        OUTPUTS,
        "attend",
        domain="com.microsoft",
        **{"num_heads": HEADS, "kv_num_heads": KV_HEADS, **case.attributes},
    )
    kinds = {n: helper.np_dtype_to_tensor_dtype(a.dtype) for n, a in case.arrays.items()}
    cache = kinds.get("past_key", kinds["query"])
    inputs = [value(n, kinds[n], shape_in_model(n, case.arrays[n])) for n in given]
    outputs = [value(n, cache if n != "output" else kinds["query"]) for n in OUTPUTS]
    graph = helper.make_graph([node], "test", inputs, outputs)
    opsets = [helper.make_opsetid("", 24), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=11)


# ---- Random calls ----


def add_lengths(rng: np.random.Generator, case: Case, batch: int, rows: int, past: int) -> None:
    """Add lengths.  The runtime accepts several new rows in several entries only in a first prompt,
    or if the call gives their numbers."""
    arrays, kind = case.arrays, rng.choice(("first", "later", "counted"))
    if kind == "counted" and past > rows:
        counts = rng.integers(0, rows + 1, batch)
        lengths = rng.integers(np.maximum(counts, 1), past - rows + counts + 1)
        arrays["query_seqlens"] = counts.astype(np.int32)
    elif kind == "later" and past > rows and (rows == 1 or batch == 1):
        lengths = rng.integers(rows + 1, past + 1, batch)
    else:
        lengths = rng.integers(1, rows + 1, batch)
        lengths[0] = rows
    arrays["seqlens_k"] = (lengths - 1).astype(np.int32)
    total = past if kind == "counted" and past > rows else lengths.max()
    arrays["total_sequence_length"] = np.array(total, np.int32)


def add_rotary(rng: np.random.Generator, case: Case, dim: int, places: int) -> None:
    dtype, tokens = case.arrays["query"].dtype, case.arrays["query"].shape[:2]
    pairs = dim // 2 if rng.random() < 0.7 or dim < 32 else 8
    angles = rng.random((places, pairs)) * 6
    case.arrays |= {"cos_cache": np.cos(angles).astype(dtype), "sin_cache": np.sin(angles).astype(dtype)}
    case.attributes |= {"do_rotary": 1, "rotary_interleaved": int(rng.integers(2))}
    if rng.random() < 0.3:
        ids = rng.integers(0, places - tokens[1] + 1, tokens)
        case.arrays["position_ids"] = ids.astype(np.int64)


def quantise(rng: np.random.Generator, case: Case, dim: int, bits: int) -> None:
    dtype, width = (np.int8, dim) if bits == 8 else (np.uint8, dim // 2)
    limits = np.iinfo(dtype)
    kind = SCALE_TYPES[int(rng.integers(2))]
    case.attributes["kv_cache_bit_width"] = bits
    for side, letter in (("key", "k"), ("value", "v")):
        shape = (*case.arrays[f"past_{side}"].shape[:3], width)
        codes = rng.integers(limits.min, limits.max + 1, shape)
        case.arrays[f"past_{side}"] = codes.astype(dtype)
        scale = rng.random((1, KV_HEADS, 1, dim) if kind == "PER_CHANNEL" else (1,))
        case.arrays[f"{letter}_scale"] = ((scale + 0.5) * 0.02 * 16 ** (bits == 4)).astype(np.float32)
        case.attributes[f"{letter}_quant_type"] = kind


def random_case(rng: np.random.Generator, dtype: str, bits: int, dim: int) -> Case:
    batch, rows = int(rng.integers(1, 4)), int(rng.choice((1, 1, 2, 7)))
    past = int(rng.choice((0, 8, 40))) if bits >= 16 else 40

    def numbers(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(dtype)

    case = Case({"query": numbers(batch, rows, HEADS * dim)})
    if rng.random() < 0.3:
        case.arrays["query"] = numbers(batch, rows, (HEADS + 2 * KV_HEADS) * dim)
    else:
        case.arrays |= {side: numbers(batch, rows, KV_HEADS * dim) for side in ("key", "value")}
    caches = {f"past_{side}": numbers(batch, KV_HEADS, past, dim) for side in ("key", "value")}
    case.arrays |= caches if past else {}
    add_lengths(rng, case, batch, rows, past)
    total = int(case.arrays["total_sequence_length"])
    if rng.random() < 0.5:
        add_rotary(rng, case, dim, total + 60)
    if rng.random() < 0.3:
        case.attributes["local_window_size"] = int(rng.integers(1, 12))
    elif rng.random() < 0.2 and "query_seqlens" not in case.arrays:
        case.attributes["causal"] = 0
    if rng.random() < 0.3:
        case.attributes["softcap"] = 3.0
    if rng.random() < 0.3:
        case.attributes["scale"] = 0.2
    if rng.random() < 0.3:
        shape = int(rng.choice((1, batch))), int(rng.choice((1, HEADS))), rows, total
        case.arrays["attention_bias"] = numbers(*shape)
    if rng.random() < 0.2:
        case.attributes["smooth_softmax"] = 1
    elif rng.random() < 0.2:
        case.arrays["head_sink"] = numbers(HEADS)
    if bits < 16:
        quantise(rng, case, dim, bits)
    return case


# ---- Both providers ----


def results(session, case: Case) -> dict[str, np.ndarray]:
    inputs = {i.name: case.arrays[i.name] for i in session.get_inputs()}
    return dict(zip(OUTPUTS, session.run(OUTPUTS, inputs), strict=True))


def in_place(session, case: Case) -> dict[str, np.ndarray]:
    """Run in place, on copies of the caches."""
    return in_place_of(session, Case({n: a.copy() for n, a in case.arrays.items()}))


def in_place_of(session, case: Case) -> dict[str, np.ndarray]:
    """Run with each cache as input and output, which needs room for all rows."""
    arrays = dict(case.arrays)
    query = arrays["query"]
    width = query.shape[2] if "key" in arrays else query.shape[2] * HEADS // (HEADS + 2 * KV_HEADS)
    arrays["output"] = np.full((*query.shape[:2], width), np.nan, query.dtype)
    arrays |= {f"present_{side}": arrays[f"past_{side}"] for side in ("key", "value")}
    binding = session.io_binding()
    for name, bind in (
        *((i.name, binding.bind_input) for i in session.get_inputs()),
        *((o, binding.bind_output) for o in OUTPUTS),
    ):
        bind(name, "cpu", 0, arrays[name].dtype, arrays[name].shape, arrays[name].ctypes.data)
    session.run_with_iobinding(binding)
    return {name: arrays[name] for name in OUTPUTS}


def require_alike(case: Case, got: Mapping, want: Mapping, tolerance: float) -> None:
    """Compare results, except those of padding and of rows that no entry has."""
    for b, (length, new) in enumerate(zip(case.lengths, case.new, strict=True)):
        for name in OUTPUTS:
            assert got[name].shape == want[name].shape and got[name].dtype == want[name].dtype, name
            part = np.s_[b, :new] if name == "output" else np.s_[b, :, :length]
            have, wanted = got[name][part], want[name][part]
            if have.dtype == np.uint8:  # one code may be rounded the other way
                have, wanted = (np.stack([a & 15, a >> 4]) for a in (have, wanted))
            codes = have.dtype.kind in "iu"
            off = np.abs(have.astype(np.float64) - wanted.astype(np.float64)).max(initial=0)
            assert off <= (1 if codes else tolerance), f"{name}[{b}] is off by {off}: {case_words(case)}"


def case_words(case: Case) -> str:
    shapes = {n: f"{a.dtype}{list(a.shape)}" for n, a in case.arrays.items()}
    lengths = {n: case.arrays[n].tolist() for n in ("seqlens_k", "total_sequence_length")}
    return f"{case.attributes} {shapes} {lengths}"


def group_query_tests(tap: Tap, seed: int, open_session: Callable) -> None:
    def check(rng: np.random.Generator, dtype: str, bits: int) -> None:
        case = random_case(rng, dtype, bits, int(rng.choice((16, 64))))
        model = group_query_model(case)
        want = results(plain_session(model), case)
        session = open_session(model)
        require_alike(case, results(session, case), want, TOLERANCES[dtype])
        past = case.arrays.get("past_key")
        if past is not None and past.shape[2] == want["present_key"].shape[2]:
            require_alike(case, in_place(session, case), want, TOLERANCES[dtype])

    def check_all(dtype: str, bits: int) -> None:
        rng = np.random.default_rng([seed, bits, len(dtype)])
        for _ in range(CASES):
            check(rng, dtype, bits)

    for dtype, bits, what in (
        ("float32", 32, "float32"),
        ("float16", 16, "float16"),
        ("float32", 8, "float32, cache int8"),
        ("float16", 8, "float16, cache int8"),
        ("float32", 4, "float32, cache int4"),
        ("float16", 4, "float16, cache int4"),
    ):
        tap.run(
            f"provider: {CASES} random GroupQueryAttention nodes, {what}",
            partial(check_all, dtype, bits),
        )
    tap.run("provider: GroupQueryAttention without entries", partial(empty, open_session))
    tap.run("provider: GroupQueryAttention in threads", partial(in_threads, open_session, seed))
    run_refusal_tests(tap, seed, open_session)


# ---- Edges ----


def step_case(rng: np.random.Generator, batch: int = 2, dim: int = 32, bits: int = 8) -> Case:
    """One token for each entry, with rotary embedding and a cache of int8, or of these bits.  The tests' library has
    kernels for it with "near" arithmetic."""
    case = Case({"query": rng.standard_normal((batch, 1, HEADS * dim)).astype(np.float32)})
    for side in ("key", "value"):
        case.arrays[side] = rng.standard_normal((batch, 1, KV_HEADS * dim)).astype(np.float32)
        past = rng.standard_normal((batch, KV_HEADS, 40, dim)).astype(np.float32)
        case.arrays[f"past_{side}"] = past
    lengths = rng.integers(2, 41, batch)
    case.arrays["seqlens_k"] = (lengths - 1).astype(np.int32)
    case.arrays["total_sequence_length"] = np.array(lengths.max(initial=2), np.int32)
    add_rotary(np.random.default_rng(3), case, dim, 40)
    if bits < 16:
        quantise(rng, case, dim, bits)
    return case


def empty(open_session: Callable) -> None:
    case = step_case(np.random.default_rng(1))
    session = open_session(group_query_model(case))
    none = Case(
        {n: a[:0] if a.shape[:1] == (2,) else a for n, a in case.arrays.items()}, case.attributes
    )
    got = results(session, none)
    assert got["output"].shape == (0, 1, HEADS * 32), got["output"].shape
    assert got["present_key"].shape == (0, KV_HEADS, 40, 32), got["present_key"].shape
    require_alike(case, results(session, case), results(plain_session(group_query_model(case)), case), 2e-5)


def in_threads(open_session: Callable, seed: int) -> None:
    """Several threads run one session with different numbers of entries, on the library's
    kernels."""
    rng = np.random.default_rng([seed, 10])
    cases = [step_case(rng, batch) for batch in (1, 2, 3, 5)]
    for case in cases[1:]:
        case.attributes = cases[0].attributes
        case.arrays |= {name: cases[0].arrays[name] for name in ("k_scale", "v_scale")}
    model, failures = group_query_model(cases[0]), []
    session, plain = open_session(model, threads=2, math="near"), plain_session(model)
    wanted = [results(plain, case) for case in cases]

    def work(case: Case, want: Mapping) -> None:
        try:
            for _ in range(20):
                require_alike(case, results(session, case), want, NEAR)
        except Exception as error:  # passed on to the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(cases, wanted, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def run_refusal_tests(tap: Tap, seed: int, open_session: Callable) -> None:
    case = step_case(np.random.default_rng([seed, 11]))
    arrays = case.arrays
    arrays["position_ids"] = np.zeros((2, 1), np.int64)
    session = open_session(group_query_model(case))

    def check(words: str, **changed: np.ndarray) -> None:
        wrong = Case({**arrays, **changed}, case.attributes)
        before = {n: a.copy() for n, a in wrong.arrays.items()}
        refused(f"kvmill: {words}", lambda: in_place_of(session, wrong), Exception)
        assert all(np.array_equal(before[n], wrong.arrays[n]) for n in before), "written"

    far = np.array([1, 40], np.int64).reshape(2, 1)
    for what, words, changed in (
        ("too long", "seqlens_k[1] is 39; accepted: 0 to total_sequence_length - 1, 8",
         {"seqlens_k": np.array([3, 39], np.int32), "total_sequence_length": np.array(9, np.int32)}),
        ("negative", "seqlens_k[0] is -2; accepted: 0 to",
         {"seqlens_k": np.array([-2, 3], np.int32)}),
        ("no such row of the tables", "position 40 of entry 1 is not in cos_cache; accepted: 0 to 39",
         {"position_ids": far}),
        ("another batch", "seqlens_k has another shape; accepted: (batch)",
         {"seqlens_k": np.array([3], np.int32)}),
    ):  # fmt: skip
        tap.run(f"provider: GroupQueryAttention refused in a run: {what}", partial(check, words, **changed))


# ---- Caches that hold a window ----


def step_of(case: Case, rng: np.random.Generator, tokens: int, length: int) -> Case:
    """Return a call with the next tokens of one entry."""
    arrays = dict(case.arrays)
    for name in ("query", "key", "value"):
        arrays[name] = rng.standard_normal((1, tokens, arrays[name].shape[2])).astype(np.float32)
    arrays["seqlens_k"] = np.array([length - 1], np.int32)
    arrays["total_sequence_length"] = np.array(length, np.int32)
    return Case(arrays, case.attributes)


def resident(length: int, capacity: int, window: int) -> int:
    """Return the rows that such a cache holds."""
    step = capacity - window + 1
    return length - max(-(-(length - capacity) // step), 0) * step


def window_steps(open_session: Callable, seed: int, bits: int, capacity: int) -> None:
    """Decode in place, through several losses of rows, each provider with its own cache."""
    rng = np.random.default_rng([seed, 13, bits, capacity])
    case = step_case(rng, 1) if bits == 8 else step_case(rng, 1, bits=bits)
    case.arrays |= {name: case.arrays[name][:, :, :capacity].copy() for name in ("past_key", "past_value")}
    add_rotary(rng, case, 32, 60)
    case.arrays.pop("position_ids", None)
    case.attributes |= SLIDING
    model = group_query_model(case)
    ours, plain = open_session(model, math="near"), plain_session(model)
    mine, theirs, length = case.arrays, {n: a.copy() for n, a in case.arrays.items()}, 0
    for tokens in (5, 1, 1, 3, *[1] * 14, 9, 1, 1):
        length += tokens
        call = step_of(case, rng, tokens, length)
        got = in_place_of(ours, Case(call.arrays | {n: mine[n] for n in ("past_key", "past_value")}))
        want = in_place_of(plain, Case(call.arrays | {n: theirs[n] for n in ("past_key", "past_value")}))
        rows = resident(length, capacity, SLIDING["local_window_size"])
        for name, have in got.items():
            part = np.s_[:] if name == "output" else np.s_[:, :, :rows]
            off = np.abs(have[part].astype(float) - want[name][part].astype(float)).max()
            assert off <= (NEAR if name == "output" or bits == 32 else 1), f"{name} is off by {off} at {length}"
        mine |= {f"past_{side}": got[f"present_{side}"] for side in ("key", "value")}
        theirs |= {f"past_{side}": want[f"present_{side}"] for side in ("key", "value")}


def window_tests(tap: Tap, seed: int, open_session: Callable) -> None:
    for bits, capacity in ((8, 8), (8, 12), (32, 9)):
        what = f"provider: a cache of a window of 8 in place, {capacity} rows, {bits} bits"
        tap.run(what, partial(window_steps, open_session, seed, bits, capacity))


# ---- What is taken ----


def group_query_claim_tests(tap: Tap) -> None:
    case = step_case(np.random.default_rng(2))
    takes = 'takes node "attend" (GroupQueryAttention) as GroupQueryAttention'
    leaves = 'left to ONNX Runtime: node "attend" (GroupQueryAttention): {}'.format
    weight = {"q_norm_weight": np.ones(32, np.float32), "k_norm_weight": np.ones(32, np.float32)}
    bias = {"attention_bias": np.zeros((1, 1, 1, 40), np.float32)}
    other = step_case(np.random.default_rng(2), dim=16)
    near = {"math": "near"}

    def check(arrays: Mapping, attributes: Mapping, wanted: str, entries: Mapping = near) -> None:
        got = claims(group_query_model(Case(arrays, case.attributes | attributes)), **entries)
        assert len(got) == 1 and got[0].startswith(wanted), f"{got}, not {wanted}"

    for what, arrays, attributes, wanted in (
        ("kernels of the model", case.arrays, {}, takes),
        ("no kernels", other.arrays, {}, leaves("no pack has fast kernels of its shape")),
        ("a cache of a window", case.arrays, SLIDING, takes),
        ("a cache of a window, with a bias", case.arrays | bias, SLIDING,
         leaves("sliding_window_cache with attention_bias; accepted: one of them")),
        ("norms", case.arrays | weight, {}, leaves("q_norm_weight or k_norm_weight is there")),
        ("scores", case.arrays, {"qk_output": 1}, leaves("qk_output is 1; accepted: 0")),
    ):  # fmt: skip
        tap.run(
            f"provider: the log says what is taken: GroupQueryAttention, {what}",
            partial(check, arrays, attributes, wanted),
        )
    fast = leaves("no pack has fast kernels of its shape")
    tap.run(
        "provider: the log says what is taken: GroupQueryAttention, other arithmetic",
        partial(check, case.arrays, {}, fast, {"math": "f32"}),
    )
    model = group_query_model(case)
    wrong = 'math is "quick"; accepted: f32, near or fast'
    tap.run(
        "the session stops: another math",
        lambda: refused(wrong, lambda: provider_session(model, math="quick"), Exception),
    )
