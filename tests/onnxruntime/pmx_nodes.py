"""Nodes of PMX's domains: models as they are, compared with PMX's reference; caches in place.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import onnx
import onnxruntime
import pmx_models
from models import claims, devices, log_of, options_of, provider_session
from onnx import TensorProto, helper
from pmx_models import TYPES, ModelCase
from tap import Tap, refused

CASES = 32


def alone_session(model: onnx.ModelProto, threads: int = 1):
    """Open a session with kvmill's provider only."""
    options = options_of(threads)
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices(devices(), {})
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def library_session(library: str, model: onnx.ModelProto, threads: int = 1):
    """Open a session with the CPU provider and the library's custom ops."""
    options = options_of(threads)
    options.register_custom_ops_library(library)
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


# ---- Random models ----


def run_in_place(session: onnxruntime.InferenceSession, made: ModelCase) -> list[np.ndarray]:
    """Run with caches that are only inputs, and are updated in place.  Returns the outputs.

    Everything is bound by address, because NumPy lacks most of the types."""
    attributes, arrays = made.case.attributes, made.arrays
    binding = session.io_binding()
    for name in (graph_input.name for graph_input in session.get_inputs()):
        array, kind = arrays[name], pmx_models.type_of(attributes, name)
        shape = list(array.shape)
        shape[-1:] = [2 * shape[-1]] if kind == TensorProto.INT4 else shape[-1:]
        binding.bind_input(name, "cpu", 0, kind, shape, array.ctypes.data)
    query = np.zeros_like(arrays["query"])
    outputs = {"fused": query, "apart": query.copy(), "key": np.zeros_like(made.keys)}
    for name, array in outputs.items():
        binding.bind_output(name, "cpu", 0, TYPES[attributes.T1], array.shape, array.ctypes.data)
    session.run_with_iobinding(binding)
    return list(outputs.values())


def check_case(open_session: Callable, rng: np.random.Generator) -> None:
    made = pmx_models.make_case(rng)
    session = open_session(made.model, threads=int(rng.integers(1, 4)))
    outputs = run_in_place(session, made)
    made.check(outputs, [made.arrays[name] for name in made.caches])


def check_all(open_session: Callable, seed: int) -> None:
    for number in range(CASES):
        try:
            check_case(open_session, np.random.default_rng([seed, 11, number]))
        except Exception as error:
            raise AssertionError(f"case {number}") from error


# ---- One node ----

HEADS, KV_HEADS, DIM, SLOTS = 8, 2, 32, 16
CACHE = [1, 1, 2, SLOTS, KV_HEADS]


def node_model(op: str = "MultiHeadCacheAttention", domain: str = "opmx", **attributes: object):
    """Return a model with one node whose cache is int8, with one scale per row.  The tests' library
    has kernels for it with "near" arithmetic.

    attributes: further attributes; None: left out."""
    score = {"num_heads": HEADS, "head_dim": DIM, "num_kv_heads": KV_HEADS}
    given = {"quant_bit": 8, "quant_group": DIM, **attributes}
    given |= {n: v for n, v in score.items() if n not in given and op != "KeyValueCache"}
    rows = [("query", HEADS)] if op == "MultiHeadCacheAttention" else []
    rows += [("current_key", KV_HEADS), ("current_value", KV_HEADS)]
    outputs = ["key", "value"] if op == "KeyValueCache" else ["attn_output"]
    node = helper.make_node(
        op,
        [*(name for name, _ in rows), "start_pos", "cache", "scale"],
        outputs,
        "node",
        domain=domain,
        **{name: value for name, value in given.items() if value is not None},
    )
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, heads, DIM])
        for name, heads in rows
    ]
    inputs += [
        helper.make_tensor_value_info("start_pos", TensorProto.INT64, [1]),
        helper.make_tensor_value_info("cache", TensorProto.INT8, [*CACHE, DIM]),
        helper.make_tensor_value_info("scale", TensorProto.FLOAT, [*CACHE, 1]),
    ]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    opsets = [helper.make_opsetid(domain, 1)]
    graph = helper.make_graph([node], "pmx", inputs, results)
    return helper.make_model(graph, opset_imports=opsets, ir_version=11)


def node_arrays(model: onnx.ModelProto, start: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    arrays = {
        i.name: rng.standard_normal([d.dim_value for d in i.type.tensor_type.shape.dim]).astype("f4")
        for i in model.graph.input
    }
    codes = rng.integers(-127, 128, (*CACHE, DIM)).astype(np.int8)
    return arrays | {"start_pos": np.array([start]), "cache": codes}


def refused_in_a_run(library: str, op: str, start: int, words: str) -> None:
    """A run is refused by both entrances, and the cache keeps its bytes."""
    model = node_model(op)
    for session in (provider_session(model), library_session(library, model)):
        arrays = node_arrays(model, start)
        before = arrays["cache"].copy()
        refused(words, lambda s=session, a=arrays: s.run(None, a), Exception)
        assert np.array_equal(arrays["cache"], before), "the cache was written"
        session.run(None, node_arrays(model, 3))


def repeated(library: str, domain: str) -> None:
    model = node_model("KeyValueCache", domain, num_repeat=3)
    for session in (alone_session(model), library_session(library, model)):
        arrays = node_arrays(model, 4)
        for number, got in enumerate(session.run(None, arrays)):
            rows = (arrays["cache"] * arrays["scale"])[:, 0, number, :5]
            new = arrays["current_value" if number else "current_key"]
            assert np.array_equal(got, np.repeat(rows, 3, axis=2)), got
            assert np.abs(rows[:, 4:] - new).max() < 0.02, "the new row is not there"


def constant_cache() -> onnx.ModelProto:
    model = node_model()
    cache = np.zeros((*CACHE, DIM), np.int8)
    model.graph.initializer.append(onnx.numpy_helper.from_array(cache, "cache"))
    model.graph.input.remove(next(i for i in model.graph.input if i.name == "cache"))
    return model


def fewer_inputs() -> onnx.ModelProto:
    model = node_model(domain="pmx")
    model.graph.node[0].input[4] = ""
    return model


def left(model: onnx.ModelProto, words: str) -> None:
    """No other provider has the node, so the session fails, and the log says why."""

    def open_session() -> None:
        options = options_of()
        options.log_severity_level = 2
        options.add_provider_for_devices(devices(), {})
        refused(
            "kvmill: the provider has left a MultiHeadCacheAttention node",
            lambda: onnxruntime.InferenceSession(model.SerializeToString(), options),
            Exception,
        )

    log = log_of(open_session)
    assert words in log, f"{words}\nis not in\n{log}"


def both_doors(library: str) -> None:
    """A session in which the ops are registered twice."""
    model = node_model()
    options = options_of()
    options.register_custom_ops_library(library)
    options.add_provider_for_devices(devices(), {})
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    arrays = node_arrays(model, 2)
    want = provider_session(model).run(None, {n: a.copy() for n, a in arrays.items()})[0]
    assert np.array_equal(session.run(None, arrays)[0], want)


# ---- All of them ----


def run(tap: Tap, seed: int, library: str, *, quick: bool = False) -> None:
    """quick: only the tests that notice planted faults."""
    doors = {"provider": alone_session, "library": partial(library_session, library)}
    for name, open_session in doors.items():
        what = f"{name}: {CASES} models of PMX's three ops are as PMX's reference, caches in place"
        tap.run(what, partial(check_all, open_session, seed))
    if quick:
        return
    claim_tests(tap)
    for op in ("MultiHeadCacheAttention", "KeyValueCache"):
        for start in (SLOTS, -1, 1 << 40):
            tap.run(
                f"both: {op} refuses start_pos {start}",
                partial(refused_in_a_run, library, op, start, f"kvmill: start_pos is {start}"),
            )
    tap.run("both doors in one session", partial(both_doors, library))
    for domain in ("opmx", "opmx.dynamic_batching"):
        what = f"both: KeyValueCache of {domain} repeats heads"
        tap.run(what, partial(repeated, library, domain))
    for model, words in (
        (constant_cache(), "input 4 is a constant; accepted: what a run may write to"),
        (fewer_inputs(), "input 4 is not there; accepted: one"),
        (node_model(page_size=3), "attribute page_size; accepted: the op's attributes"),
        (node_model(is_causal=1.0), "attribute is_causal; accepted: the op's attributes"),
        (node_model(num_heads=7), "accepted: 0, or a divisor of num_heads, 7"),
        (node_model(head_dim=None), "head_dim is 0; accepted: 1 to"),
    ):
        tap.run(f"no session: {words}", partial(left, model, words))


def claim_tests(tap: Tap) -> None:
    """The provider takes all nodes, and has kernels for those that have any.  A node of a static
    batch is recognised by its inputs in the domain of dynamic batching, too, where PMX's exporter
    puts it."""

    def check(model: onnx.ModelProto, math: str, remark: str) -> None:
        op, got = model.graph.node[0].op_type, claims(model, math=math)
        assert got == [f'takes node "node" ({op}) as {op}{remark}'], got

    slow = ", in portable code: no pack has fast kernels of its shape: kvmill generate makes them"
    for domain in ("opmx", "pmx", "opmx.dynamic_batching"):
        tap.run(
            f"provider: the log says what is taken: {domain}",
            partial(check, node_model(domain=domain), "near", ""),
        )
    tap.run(
        "provider: the log says what is in portable code, because there are no kernels of another arithmetic",
        partial(check, node_model(), "f32", slow),
    )
