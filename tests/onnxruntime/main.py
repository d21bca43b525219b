"""bindings/onnxruntime in ONNX Runtime: kvmill's ops, and its execution provider.  Prints TAP.

    python main.py [--model FILE]     write a model, and nothing else

Environment:

    KVMILL_ORT      libkvmill_ort.so, with kernels of that model
    KVMILL_COMMAND  the command `kvmill`
    KVMILL_LIBRARY  libkvmill.so: the binding's, whose tests lend their cases
    KVMILL_BAD_PACK libold.so, a pack of another version
    KVMILL_ORT_FAULT  set: the quick ones, which notice planted faults; "group_query": those of
                    GroupQueryAttention; "shapes": that all legal shapes run; "pmx": those of PMX's domains; "cache_step": of caches in
                    blocks; "cache_group_query": of GroupQueryAttention over such; "windows": of gathers and scatters
    KVMILL_SEED     seed of the random cases; default 24

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import cache_group_query
import cache_step
import making
import numpy as np
import onnx
import onnx.compose
import onnx_attention
import onnx_backend
import onnxruntime
import pmx_nodes
import served
import shape_models
import shapes
import windows
from group_query import (
    group_query_claim_tests,
    group_query_model,
    group_query_tests,
    step_case,
    window_tests,
)
from kvmill.onnx_attention import ATTENTION_INPUTS
from models import (
    FLOAT16,
    NAME,
    SIDES,
    claims,
    decoder,
    domain_session,
    make_model,
    provider_session,
    require_close,
    rewritten,
    run,
    run_in_place,
    value,
)
from onnx import helper
from onnx.backend.test.case import node as node_cases
from steps import check_step, model_tests, same_bits_tests, step_arrays, step_model, step_tests
from tap import Tap, refused

CASES = 24
LEAST = {"TensorScatter": 3, "Attention": 80}  # numbers of node tests when onnx was pinned
NATIVE = ("bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8")


# ---- The ONNX project's node tests ----


@cache
def published() -> list:
    """Return the node tests with one node.  bfloat16 is left out, because NumPy arrays of it cannot
    be passed to ONNX Runtime.  The project's own function would first create the tests of all other
    ops."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for op in LEAST:
            importlib.import_module(f"{node_cases.__name__}.{op.lower()}")
        cases = node_cases._NodeTestCases
    return [
        case
        for case in cases
        if [node.op_type for node in case.model.graph.node][1:] == []
        and case.model.graph.node[0].op_type in LEAST
        and "bf16" not in case.name
    ]


def node_tests(tap: Tap, op: str, name: str, open_session: Callable) -> None:
    def check(case) -> None:
        session = open_session(case.model)
        names = [graph_input.name for graph_input in session.get_inputs()]
        for inputs, outputs in case.data_sets:
            got = session.run(None, dict(zip(names, inputs, strict=True)))
            for have, want in zip(got, outputs, strict=True):
                assert have.dtype == want.dtype and have.shape == want.shape, case.name
                np.testing.assert_allclose(have, want, case.rtol, case.atol, err_msg=case.name)

    def check_all() -> None:
        cases = [case for case in published() if case.model.graph.node[0].op_type == op]
        assert len(cases) >= LEAST[op], f"{len(cases)} tests, once {LEAST[op]}"
        for case in cases:
            check(case)

    tap.run(f"{name}: the published node tests of {op}", check_all)


# ---- Random nodes ----


def open_shape(array: np.ndarray, name: str) -> list[int | str]:
    """Return the shape in the model, which leaves open batch, rows, and all dims of a mask."""
    if name in ("attn_mask", "nonpad_kv_seqlen"):
        return [f"{name}_{d}" for d in range(array.ndim)]
    shape: list[int | str] = list(array.shape)
    shape[0], shape[-2] = "batch", f"{name}_rows"
    return shape


def attention_model(case: onnx_attention.Case, is_open: bool) -> onnx.ModelProto:
    """ONNX Runtime requires both present tensors if there is one."""
    names = list(ATTENTION_INPUTS)
    given = dict(zip(names, case.inputs, strict=True))
    node_inputs = [name if given[name] is not None else "" for name in names]
    wanted = {*case.outputs}
    wanted |= {"present_key", "present_value"} if wanted & {"present_key", "present_value"} else set()
    results = [name if name in wanted else "" for name in onnx_attention.OUTPUTS]
    while not node_inputs[-1]:
        node_inputs.pop()
    while not results[-1]:
        results.pop()
    inputs = [
        value(
            name,
            helper.np_dtype_to_tensor_dtype(array.dtype),
            open_shape(array, name) if is_open else array.shape,
        )
        for name, array in given.items()
        if array is not None
    ]
    kind = helper.np_dtype_to_tensor_dtype(case.inputs[0].dtype)
    node = helper.make_node("Attention", node_inputs, results, "attention", **case.attributes)
    outputs = [value(name, kind) for name in results if name]
    return make_model([node], inputs, outputs, case.opset)


def attention_tests(tap: Tap, seed: int, name: str, open_session: Callable) -> None:
    def check(case: onnx_attention.Case, is_open: bool) -> None:
        names = ATTENTION_INPUTS
        arrays = dict(zip(names, case.inputs, strict=True))
        wanted = dict(zip(case.outputs, onnx_attention.reference(case), strict=True))
        got = run(open_session(attention_model(case, is_open)), arrays)
        tolerance = onnx_attention.TOLERANCES[case.inputs[0].dtype.name]
        for output, want in wanted.items():
            have = got[output]
            assert have.dtype == want.dtype, f"{case}: {output} is {have.dtype}"
            assert np.array_equal(np.isneginf(have), np.isneginf(want)), f"{case}: {output}"
            pair = [np.where(np.isneginf(a), 0, a.astype(np.float64)) for a in (have, want)]
            require_close({output: pair[0]}, {output: pair[1]}, tolerance, str(case))

    def check_all(dtype: str) -> None:
        rng = np.random.default_rng([seed, len(dtype), 3])
        for number in range(CASES):
            check(onnx_attention.random_case(rng, np.dtype(dtype)), number % 2 == 1)

    for dtype in onnx_attention.TOLERANCES:
        tap.run(f"{name}: {CASES} random Attention nodes, {dtype}", partial(check_all, dtype))


def scatter_model(case: onnx_backend.Case) -> onnx.ModelProto:
    arrays = {"past": case.past, "update": case.update, "write_indices": case.write_indices}
    given = {n: a for n, a in arrays.items() if a is not None}
    attributes = {"axis": case.axis, "mode": case.mode}
    node = helper.make_node(
        "TensorScatter",
        list(given),
        ["present"],
        "scatter",
        **{n: a for n, a in attributes.items() if a is not None},
    )
    kinds = {n: helper.np_dtype_to_tensor_dtype(a.dtype) for n, a in given.items()}
    inputs = [value(n, kinds[n], a.shape) for n, a in given.items()]
    return make_model([node], inputs, [value("present", kinds["past"])])


def scatter_tests(tap: Tap, seed: int, name: str, open_session: Callable) -> None:
    def check_all() -> None:
        rng = np.random.default_rng([seed, 4])
        for number in range(CASES):
            case = onnx_backend.random_case(rng, np.dtype(NATIVE[number % len(NATIVE)]))
            if case.write_indices is not None:
                case.write_indices[:] = np.abs(case.write_indices)
            want = onnx_backend.scatter_elements(case)
            arrays = {"past": case.past, "update": case.update, "write_indices": case.write_indices}
            got = run(open_session(scatter_model(case)), arrays)["present"]
            onnx_backend.assert_same_bits(got, want, str(case))

    tap.run(f"{name}: {CASES} random TensorScatter nodes", check_all)


# ---- Refusals ----


def run_refusal_tests(tap: Tap, seed: int, name: str, open_session: Callable) -> None:
    session = open_session(step_model(8, 2, 64))
    good = step_arrays(np.random.default_rng([seed, 8]), 2, 1, 16)

    def at_run(words: str, **changed: np.ndarray) -> None:
        """In place, so that a refused run would show what it had written."""
        given = {**good, **changed}
        caches = {n: given.pop(n).copy() for n in ("past_K", "past_V")}
        before = {n: a.copy() for n, a in caches.items()}
        out = np.zeros_like(given["Q"])
        refused(words, lambda: run_in_place(session, given, caches, out), Exception)
        assert all(np.array_equal(caches[n], before[n]) for n in caches), "a cache was written"
        check_step(session, good)

    past_end = np.array([3, 16])
    for what, words, changed in (
        ("a row after the last", "kvmill: write_indices[1] is 16; accepted: 0 to 15",
         {"write_indices": past_end, "nonpad": past_end + 1}),
        ("too many valid rows", "kvmill: nonpad_kv_seqlen[1] is 17; accepted:",
         {"nonpad": np.array([1, 17])}),
        ("batches that differ", "KVMILL_E_SHAPE", {"V": good["V"][:1]}),
        ("rows of V that do not fit", "kvmill: past_value has shape [2, 2, 15, 64]; accepted: [2, 2, 16, 64]",
         {"past_V": good["past_V"][:, :, :15]}),
        ("the same, where a step is three nodes", "kvmill: V has shape [2, 2, 15, 64]; accepted: [2, 2, 16, 64]",
         {"past_V": good["past_V"][:, :, :15], "nonpad": np.array([1, 15])}),
    ):
        tap.run(f"{name}: refused in a run, and nothing written: {what}", partial(at_run, words, **changed))


def session_refusal_tests(tap: Tap, name: str, open_session: Callable) -> None:
    model = step_model(8, 2, 64)
    for what, words, entries in (
        ("a pack that is not there", "libnone.so: cannot open", {"packs": "/dev/null/absent/libnone.so"}),
        ("no pack", 'packs: "pack.c"; accepted: paths of the form', {"packs": "pack.c"}),
        ("a pack of another version", "pack old has kernel ABI 1; accepted:",
         {"packs": os.environ["KVMILL_BAD_PACK"]}),
        ("an option that there is not", '"pack" is no option; accepted: packs, math', {"pack": "libnone.so"}),
    ):
        make = partial(open_session, model, **entries)
        tap.run(f"{name}: the session stops: {what}", partial(refused, words, make, Exception))
    if name == "provider":
        wrong = partial(open_session, model, portable="yes")
        tap.run("the session stops: another flag",
                partial(refused, 'portable is "yes"; accepted: 0 or 1', wrong, Exception))


# ---- What is taken ----


def claim_tests(tap: Tap) -> None:
    shared = step_model(8, 2, 64)
    shared.graph.node.append(helper.make_node("Identity", ["present_K"], ["copy"], "copy"))
    shared.graph.output.append(value("copy"))
    unknown = attention_model(
        onnx_attention.Case(24, [np.zeros((1, 8, 1, 64), "f4")] * 3 + [None] * 4, ("Y",)), False
    )
    unknown.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "heads"
    takes, leaves = 'takes node "{}" ({}) as {}', 'left to ONNX Runtime: node "{}" ({}): {}'
    three = [
        takes.format("attend", "Attention", "Attention"),
        takes.format("store_K", "TensorScatter", "TensorScatter"),
        takes.format("store_V", "TensorScatter", "TensorScatter"),
    ]
    fast = "no pack has fast kernels of its shape: kvmill generate makes them"
    for what, model, entries, wanted in (
        ("a step", step_model(8, 2, 64), {},
         [takes.format("attend", "Attention", "TensorScatterAttention")]),
        ("three nodes whose caches others read, too", shared, {}, three),
        ("rings", step_model(8, 2, 64, mode="circular"), {}, three),
        ("no kernels", step_model(5, 1, 17), {},
         [leaves.format("attend", "Attention", fast), *three[1:]]),
        ("no kernels, but allowed", step_model(5, 1, 17), {"portable": "1"},
         [takes.format("attend", "Attention", "TensorScatterAttention")]),
        ("unknown numbers of heads", unknown, {},
         [leaves.format("attention", "Attention", "")]),
    ):
        def check(model=model, entries=entries, wanted=wanted) -> None:
            got = claims(model, **entries)
            alike = [line.startswith(want) for line, want in zip(got, wanted, strict=False)]
            assert len(got) == len(wanted) and all(alike), f"{got}\nnot\n{wanted}"

        tap.run(f"provider: the log says what is taken: {what}", check)


def shape_tests(tap: Tap) -> None:
    """The shapes of outputs that the runtime is told before a run; None: a name of its own."""

    def known(model: onnx.ModelProto) -> dict[str, tuple]:
        outputs = domain_session(model).get_outputs()
        return {
            o.name: (o.type, *(dim if isinstance(dim, int) else None for dim in o.shape))
            for o in outputs
        }

    def check() -> None:
        half, cache = "tensor(float16)", ("tensor(float16)", None, 2, None, 64)
        wanted = {"Y": (half, None, 8, None, 64), "present_K": cache, "present_V": cache}
        assert known(step_model(8, 2, 64, FLOAT16)) == wanted
        rows = [np.zeros((2, n, width), "f4") for n, width in ((5, 96), (7, 32), (7, 64))]
        heads, past = {"q_num_heads": 6, "kv_num_heads": 2}, np.zeros((2, 2, 3, 16), "f4")
        inputs = [*rows, None, past, np.zeros((2, 2, 3, 32), "f4"), None]
        case = onnx_attention.Case(23, inputs, onnx_attention.OUTPUTS, heads)
        assert [shape[1:] for shape in known(attention_model(case, False)).values()] == [
            (2, 5, 192), (2, 2, 10, 16), (2, 2, 10, 32), (2, 6, 5, 10)
        ]  # fmt: skip

    tap.run("domain: types and shapes of outputs are known beforehand", check)


def rewrite_tests(tap: Tap) -> None:
    def ops_of(model: onnx.ModelProto) -> list[str]:
        new = onnx.load_from_string(rewritten(model))
        return [f"{node.domain}.{node.op_type}" for node in new.graph.node]

    def check() -> None:
        step, copy = "kvmill.TensorScatterAttention", helper.make_node("Identity", ["V"], ["W"])
        assert ops_of(step_model(8, 2, 64)) == [step]
        assert ops_of(decoder()).count(step) == 2
        apart = ["kvmill.TensorScatter"] * 2 + ["kvmill.Attention"]
        assert ops_of(step_model(8, 2, 64, mode="circular")) == apart
        shared = step_model(8, 2, 64)
        copy.input[0] = "present_V"
        shared.graph.node.append(copy)
        assert ops_of(shared) == [*apart, ".Identity"]
        kept = decoder()
        kept.metadata_props.add(key="made by", value="a test")
        new = onnx.load_from_string(rewritten(kept))
        assert new.metadata_props == kept.metadata_props and new.graph.input == kept.graph.input
        assert new.graph.output == kept.graph.output and new.ir_version == kept.ir_version
        assert [n for n in new.graph.node if not n.domain] == [
            n for n in kept.graph.node if n.op_type in ("MatMul", "Add")
        ]

    tap.run("kvmill rewrite: which nodes become which, and all else stays", check)


def all_models(heads: int = 8, kv_heads: int = 2, dim: int = 64) -> onnx.ModelProto:
    """Return the models: a step with such heads, a node of ONNX Runtime's own, one of PMX's, and
    two over blocks."""
    step, rng = step_model(heads, kv_heads, dim), np.random.default_rng(0)
    blocks = cache_step.node_model(), cache_group_query.node_model()
    others = [group_query_model(step_case(rng)), pmx_nodes.node_model(), *blocks]
    for number, model in enumerate(others):
        model = onnx.compose.add_prefix(model, f"{model.graph.node[0].op_type}{number}_")
        for field in ("node", "input", "output"):
            getattr(step.graph, field).extend(getattr(model.graph, field))
    for domain in {model.graph.node[0].domain for model in others}:
        step.opset_import.append(helper.make_opsetid(domain, 1))
    return step


def quick_tests(tap: Tap, seed: int, fault: str) -> None:
    if fault == "group_query":
        group_query_tests(tap, seed, provider_session)
        window_tests(tap, seed, provider_session)
        return
    if fault == "shapes":
        shapes.run_all(tap, shape_models.group_query_shapes())
        return
    if fault == "pmx":
        pmx_nodes.run(tap, seed, os.environ["KVMILL_ORT"], quick=True)
        return
    if fault == "cache_step":
        cache_step.run_all(tap, seed, quick=True)
        return
    if fault == "cache_group_query":
        cache_group_query.run_all(tap, seed, quick=True)
        return
    if fault == "windows":
        windows.run_all(tap, quick=True)
        return
    claim_tests(tap)
    shape_tests(tap)
    for name, open_session in SIDES.items():
        step_tests(tap, seed, name, open_session)
        same_bits_tests(tap, seed, name, open_session)
        run_refusal_tests(tap, seed, name, open_session)


def all_tests(tap: Tap, seed: int) -> None:
    for name, open_session in SIDES.items():
        for op in LEAST:
            node_tests(tap, op, name, open_session)
        attention_tests(tap, seed, name, open_session)
        scatter_tests(tap, seed, name, open_session)
        step_tests(tap, seed, name, open_session)
        model_tests(tap, seed, name, open_session)
        same_bits_tests(tap, seed, name, open_session)
        run_refusal_tests(tap, seed, name, open_session)
        session_refusal_tests(tap, name, open_session)
    group_query_tests(tap, seed, provider_session)
    group_query_claim_tests(tap)
    window_tests(tap, seed, provider_session)
    shapes.run_all(tap, shape_models.all_shapes())
    served.run_all(tap)
    pmx_nodes.run(tap, seed, os.environ["KVMILL_ORT"])
    cache_step.run_all(tap, seed)
    cache_group_query.run_all(tap, seed)
    windows.run_all(tap)
    making.run(tap, all_models(5, 1, 24))
    claim_tests(tap)
    shape_tests(tap)
    rewrite_tests(tap)


def main() -> int:
    if sys.argv[1:2] == ["--model"]:
        Path(sys.argv[2]).write_bytes(all_models().SerializeToString())
        return 0
    tap, seed = Tap(), int(os.environ.get("KVMILL_SEED", "24"))
    tap.comment(f"ONNX Runtime {onnxruntime.__version__}, onnx {onnx.__version__}, seed {seed}")
    onnxruntime.set_default_logger_severity(4)
    onnxruntime.register_execution_provider_library(NAME, os.environ["KVMILL_ORT"])
    if fault := os.environ.get("KVMILL_ORT_FAULT"):
        quick_tests(tap, seed, fault)
    else:
        all_tests(tap, seed)
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
