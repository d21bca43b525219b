"""GroupQueryAttention with caches that `kvmill rewrite --cache` has turned into blocks of llama.cpp: run by the
provider and by custom ops, compared with the CPU provider over the numbers in the blocks.

Rows whose numbers come from blocks are stored as the same blocks again.  So the CPU provider stores and reads the
same numbers, except for keys that are rotated first.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import group_query
import numpy as np
import onnx
import pmx_nodes
from cache_step import ENCODE, decoded, rewrite
from group_query import HEADS, KV_HEADS, Case, group_query_model, in_place_of, results
from models import claims, plain_session, provider_session
from onnx import helper
from tap import Tap, refused

CASES = 16
KINDS = "q8_0", "q4_0"
SIDES = ("key", "value")
EXACT, ROUNDED, NEAR = 3e-5, 3e-2, 3e-3  # rounded: keys are quantised once more, or numbers are rounded to float16


# ---- Cases ----


def lossless(rows: np.ndarray, kind: str, dim: int) -> np.ndarray:
    """Return rows whose numbers come from blocks; heads are adjacent."""
    apart = rows.reshape(*rows.shape[:-1], -1, dim)
    return decoded(ENCODE[kind](apart), kind).reshape(rows.shape).astype(rows.dtype)


def make_lossless(case: Case, dim: int) -> None:
    arrays, width = case.arrays, KV_HEADS * dim
    for i, (side, kind) in enumerate(zip(SIDES, KINDS, strict=True)):
        arrays[f"past_{side}"] = lossless(arrays[f"past_{side}"], kind, dim)
        if side in arrays:
            arrays[side] = lossless(arrays[side], kind, dim)
        else:
            start = HEADS * dim + i * width
            rows = arrays["query"][..., start : start + width]
            rows[...] = lossless(rows, kind, dim)


def blocks_case(rng: np.random.Generator, dtype: str, dim: int) -> Case:
    while True:
        case = group_query.random_case(rng, dtype, 8 * np.dtype(dtype).itemsize, dim)
        if "past_key" in case.arrays:
            make_lossless(case, dim)
            return case


def in_blocks(case: Case) -> Case:
    past = {f"past_{s}": ENCODE[k](case.arrays[f"past_{s}"]) for s, k in zip(SIDES, KINDS, strict=True)}
    return Case({n: a.copy() for n, a in (case.arrays | past).items()}, case.attributes)


def numbers_of(got: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return present caches as numbers."""
    present = {f"present_{s}": decoded(got[f"present_{s}"], k) for s, k in zip(SIDES, KINDS, strict=True)}
    return got | present


def tolerance_of(case: Case, exact: float) -> float:
    rounds = "cos_cache" in case.arrays or case.arrays["query"].dtype == np.float16
    return max(exact, ROUNDED) if rounds else exact


def require_alike(case: Case, got: dict[str, np.ndarray], want: dict, exact: float = EXACT) -> None:
    dtype = case.arrays["query"].dtype
    have = {n: a.astype(dtype) for n, a in numbers_of(got).items()}
    group_query.require_alike(case, have, want, tolerance_of(case, exact))


def rewrite_case(case: Case) -> onnx.ModelProto:
    return rewrite(group_query_model(case), ",".join(KINDS))


def check_case(open_session: Callable, case: Case) -> None:
    session, want = open_session(rewrite_case(case)), results(plain_session(group_query_model(case)), case)
    require_alike(case, results(session, in_blocks(case)), want)
    if case.arrays["past_key"].shape[2] == want["present_key"].shape[2]:
        got, before = in_place_of(session, in_blocks(case)), in_blocks(case).arrays
        for b, length in enumerate(case.lengths):
            for side in SIDES:
                same = got[f"present_{side}"][b, :, length:] == before[f"past_{side}"][b, :, length:]
                assert same.all(), f"{side}[{b}]: rows are written that no entry has"
        require_alike(case, got, want)


def check_all(open_session: Callable, seed: int, dtype: str) -> None:
    rng = np.random.default_rng([seed, 41, len(dtype)])
    for _ in range(CASES):
        check_case(open_session, blocks_case(rng, dtype, int(rng.choice((32, 64)))))


# ---- By kernels ----


def step_case(rng: np.random.Generator, batch: int = 2) -> Case:
    """One token for each entry, with rotary embedding.  The tests' library has kernels for its
    blocks."""
    case = group_query.step_case(rng, batch)
    dim, numbers = 32, rng.standard_normal
    kept = {n: a for n, a in case.arrays.items() if not n.endswith("_scale")}
    past = {f"past_{side}": numbers((batch, KV_HEADS, 40, dim)).astype("f4") for side in SIDES}
    case = Case(kept | past, {"do_rotary": 1})
    make_lossless(case, dim)
    return case


def node_model() -> onnx.ModelProto:
    return rewrite_case(step_case(np.random.default_rng(4)))


def check_kernels(open_session: Callable, seed: int) -> None:
    """Append tokens one after the other to caches in place."""
    rng = np.random.default_rng([seed, 42])
    case = step_case(rng)
    session, plain = open_session(rewrite_case(case)), plain_session(group_query_model(case))
    require_alike(case, in_place_of(session, in_blocks(case)), results(plain, case), NEAR)


# ---- Refusals ----


def check_run_refusals(open_session: Callable, seed: int) -> None:
    """Runs are in place, so that a refused run would show what it had written."""
    case = step_case(np.random.default_rng([seed, 43]))
    model = rewrite_case(case)
    for info in model.graph.input:
        if info.name == "past_value":  # otherwise the runtime refuses the different number of rows
            info.type.tensor_type.shape.dim[3].dim_param = "bytes"
    session, right = open_session(model), in_blocks(case)
    short = right.arrays["past_value"][..., :16].copy()
    for words, changed in (
        ("kvmill: cache", {"past_value": short}),
        ("kvmill: seqlens_k[1] is 39; accepted: 0 to total_sequence_length - 1, 8",
         {"seqlens_k": np.array([3, 39], np.int32), "total_sequence_length": np.array(9, np.int32)}),
        ("kvmill: key has another shape", {"key": right.arrays["key"][:1]}),
    ):  # fmt: skip
        wrong = Case(right.arrays | changed, case.attributes)
        before = {n: a.copy() for n, a in wrong.arrays.items()}
        refused(words, partial(in_place_of, session, wrong), Exception)
        assert all(np.array_equal(before[n], wrong.arrays[n]) for n in before), f"{words}: written"


def with_reader(name: str) -> onnx.ModelProto:
    model = group_query_model(step_case(np.random.default_rng(4)))
    model.graph.node.append(helper.make_node("Identity", [name], ["copy"], "copy"))
    model.graph.output.append(helper.make_tensor_value_info("copy", 1, None))
    return model


def without_past() -> onnx.ModelProto:
    case = step_case(np.random.default_rng(4))
    for side in SIDES:
        del case.arrays[f"past_{side}"]
    return group_query_model(case)


def rewrite_tests(tap: Tap) -> None:
    def kept() -> None:
        old = group_query_model(step_case(np.random.default_rng(4)))
        new = rewrite_case(step_case(np.random.default_rng(4)))
        node, was = new.graph.node[0], old.graph.node[0]
        assert (node.domain, node.op_type) == ("kvmill", "GroupQueryAttention")
        assert list(node.input) == list(was.input) and list(node.output) == list(was.output)
        found = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        formats = {"key_cache_format": b"q8_0", "value_cache_format": b"q4_0"}
        assert found == {a.name: helper.get_attribute_value(a) for a in was.attribute} | formats
        types = {i.name: i.type.tensor_type for i in (*new.graph.input, *new.graph.output)}
        for side, last in (("key", 34), ("value", 18)):
            assert types[f"past_{side}"].elem_type == types[f"present_{side}"].elem_type == 2
            assert types[f"past_{side}"].shape.dim[3].dim_value == last

    tap.run("kvmill rewrite --cache: GroupQueryAttention and its caches change", kept)
    quantised = group_query_model(group_query.step_case(np.random.default_rng(4)))
    norms = step_case(np.random.default_rng(4))
    norms.arrays |= {f"{x}_norm_weight": np.ones(norms.arrays["past_key"].shape[3], np.float32) for x in "qk"}
    for words, model in (
        ("q_norm_weight or k_norm_weight is there; accepted: neither", group_query_model(norms)),
        ('the cache "present_key" is read by another node', with_reader("present_key")),
        ("not an input of the model that only this node reads", with_reader("past_value")),
        ("accepted with --cache: past_key, past_value, present_key, present_value", without_past()),
        ("k_quant_type or v_quant_type; accepted with --cache: NONE", quantised),
    ):
        tap.run(
            f"kvmill rewrite --cache refuses: {words}",
            partial(refused, words, partial(rewrite, model, "q8_0"), ValueError),
        )


def claim_tests(tap: Tap) -> None:
    def check() -> None:
        got = claims(node_model(), math="near")
        assert got == ['takes node "attend" (GroupQueryAttention) as GroupQueryAttention'], got

    tap.run("provider: the log says that it takes a GroupQueryAttention over blocks", check)


# ---- All of them ----


def library_session(model: onnx.ModelProto):
    return pmx_nodes.library_session(os.environ["KVMILL_ORT"], model)


def run_all(tap: Tap, seed: int, *, quick: bool = False) -> None:
    """quick: only the tests that notice planted faults."""
    near = partial(provider_session, math="near")
    for name, open_session in (("domain", library_session), ("provider", provider_session)):
        for dtype in ("float32", "float16"):
            what = f"{name}: {CASES} random GroupQueryAttention nodes over blocks, {dtype}"
            tap.run(what, partial(check_all, open_session, seed, dtype))
        tap.run(f"{name}: GroupQueryAttention over blocks is refused, and nothing written",
                partial(check_run_refusals, open_session, seed))
    tap.run("provider: GroupQueryAttention over blocks by kernels", partial(check_kernels, near, seed))
    if not quick:
        rewrite_tests(tap)
        claim_tests(tap)
