"""What `kvmill plan --ort` says that ONNX Runtime hands over, compared with what the provider takes, for all models of
these tests, and for nodes in branches, loops and functions.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import cache_group_query
import cache_step
import numpy as np
import onnx
import pmx_nodes
import windows
from group_query import SLIDING, Case, group_query_model, random_case
from models import FLOAT, INT64, claims, decoder, make_model, plain_session, provider_session, run, value
from onnx import TensorProto, helper
from shape_models import all_shapes, attention_model
from steps import step_model
from tap import Tap

NO_KERNELS = ("no pack has fast kernels of its shape", "there are no kernels")
BOOL, INT32 = TensorProto.BOOL, TensorProto.INT32


@dataclass
class Served:
    """Numbers of nodes by their op: that are taken (or would be, with kernels), and left for a
    reason."""

    taken: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)

    def add(self, op: str, reason: str, count: int = 1) -> None:
        if reason.startswith(NO_KERNELS):
            self.taken[op] += count
        else:
            self.left[f"{op}: {reason}"] += count


def by_provider(model: onnx.ModelProto) -> Served:
    served = Served()
    for line in claims(model):
        if found := re.fullmatch(r'takes node ".*" \((\w+)\) as (\w+).*', line):
            served.taken[found[1]] += 1
            served.taken["TensorScatter"] += 2 * (found[2] == "TensorScatterAttention")
        elif found := re.fullmatch(r'(?:left to ONNX Runtime:|leaves) node ".*?" \((\w+)\): (.*)', line):
            served.add(found[1], found[2])
        else:
            raise AssertionError(f"{line!r} is not understood")
    return served


def by_plan(model: onnx.ModelProto) -> Served:
    served = Served()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        path.write_bytes(onnx.shape_inference.infer_shapes(model).SerializeToString())
        command = [os.environ["KVMILL_COMMAND"], "plan", "--model", str(path), "--ort", "--isa", "scalar"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode in (0, 1), done
    assert "too little" not in done.stderr, done.stderr
    for line in done.stderr.splitlines():
        if found := re.search(r"ONNX Runtime hands over: (.*)", line):
            for count, op in re.findall(r"(\d+) ([\w.]+)", found[1]):
                served.taken[op.split(".")[-1]] += int(count)
        elif found := re.search(r"left to ONNX Runtime: node \S+ \(([\w.]+)\).*?(?: and (\d+) more)?: (.*)", line):
            served.add(found[1].split(".")[-1], found[3], 1 + int(found[2] or 0))
    return served


def check(model: onnx.ModelProto) -> None:
    provider, plan = by_provider(model), by_plan(model)
    assert provider == plan, f"the provider: {provider}\nplan: {plan}"


# ---- Nodes inside other nodes ----


def group_query(suffix: str = "") -> onnx.NodeProto:
    return helper.make_node(
        "GroupQueryAttention",
        ["q", "k", "v", "past_key", "past_value", "lengths", "total"],
        [f"{name}{suffix}" for name in ("o", "present_key", "present_value")],
        f"attend{suffix}", domain="com.microsoft", num_heads=8, kv_num_heads=2,
    )  # fmt: skip


def group_query_values(suffix: str = "") -> tuple[list, list]:
    cache = ["batch", 2, "capacity", 64]
    rows = [value("q", FLOAT, ["batch", "tokens", 512])]
    rows += [value(name, FLOAT, ["batch", "tokens", 128]) for name in "kv"]
    inputs = [*rows, value("past_key", FLOAT, cache), value("past_value", FLOAT, cache)]
    inputs += [value("lengths", INT32, ["batch"]), value("total", INT32, [])]
    outputs = [value(f"o{suffix}", FLOAT, ["batch", "tokens", 512])]
    return inputs, [*outputs, *(value(f"present_{x}{suffix}", FLOAT, cache) for x in ("key", "value"))]


def with_microsoft(model: onnx.ModelProto) -> onnx.ModelProto:
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


def branches() -> onnx.ModelProto:
    inputs, outputs = group_query_values()
    bodies = {
        f"{kind}_branch": helper.make_graph([group_query(kind)], kind, [], group_query_values(kind)[1])
        for kind in ("then", "else")
    }
    node = helper.make_node("If", ["use"], [output.name for output in outputs], "choose", **bodies)
    return with_microsoft(make_model([node], [*inputs, value("use", BOOL, [])], outputs))


def loop() -> onnx.ModelProto:
    """Attend again and again, with the caches of the last time."""
    inputs, outputs = group_query_values()
    body_inputs = [value("turn", INT64, []), value("on", BOOL, []), *(i for i in inputs if i.name.startswith("past"))]
    nodes = [group_query("1"), helper.make_node("Identity", ["on"], ["still"])]
    results = group_query_values("1")[1]
    body = helper.make_graph(nodes, "body", body_inputs, [value("still", BOOL, []), *results[1:], results[0]])
    final = [value(f"final_{x}", FLOAT, ["batch", 2, "capacity", 64]) for x in ("key", "value")]
    scanned = value("scanned", FLOAT, ["turns", "batch", "tokens", 512])
    names = [output.name for output in (*final, scanned)]
    node = helper.make_node("Loop", ["turns", "", "past_key", "past_value"], names, "again", body=body)
    return with_microsoft(make_model([node], [*inputs, value("turns", INT64, [])], [*final, scanned]))


def scan() -> onnx.ModelProto:
    """Attend for each of several queries."""
    rows = [value(name, FLOAT, ["batch", heads, "keys", 64]) for name, heads in (("K", 2), ("V", 2))]
    node = helper.make_node("Attention", ["one", "K", "V"], ["y"], "attend")
    shape = ["batch", 8, "tokens", 64]
    body = helper.make_graph([node], "body", [value("one", FLOAT, shape)], [value("y", FLOAT, shape)])
    outer = helper.make_node("Scan", ["Q"], ["Y"], "each", body=body, num_scan_inputs=1)
    many = ["steps", *shape]
    return make_model([outer], [value("Q", FLOAT, many), *rows], [value("Y", FLOAT, many)])


def function() -> onnx.ModelProto:
    """Two layers that are calls of one function, whose attributes the calls set."""
    heads = helper.make_node("Attention", ["Q", "K", "V"], ["X"], "attend", q_num_heads=8, kv_num_heads=2)
    heads.attribute.append(onnx.AttributeProto(name="softcap", type=onnx.AttributeProto.FLOAT, ref_attr_name="cap"))
    nodes = [heads, helper.make_node("Relu", ["X"], ["Y"])]
    opsets = [helper.make_opsetid("", 24)]
    layer = helper.make_function("local", "Layer", ["Q", "K", "V"], ["Y"], nodes, opsets, ["cap"])
    calls = [
        helper.make_node("Layer", [q, "K", "V"], [y], f"layer{y}", domain="local", cap=cap)
        for q, y, cap in (("Q", "Y", 2.0), ("Q2", "Y2", 3.0))
    ]
    inputs = [value(name, FLOAT, ["batch", "tokens", 512]) for name in ("Q", "Q2")]
    inputs += [value(name, FLOAT, ["batch", "keys", 128]) for name in "KV"]
    outputs = [value(name, FLOAT, ["batch", "tokens", 512]) for name in ("Y", "Y2")]
    model = make_model(calls, inputs, outputs)
    model.opset_import.append(helper.make_opsetid("local", 1))
    model.functions.append(layer)
    return model


INSIDE = {"branches": branches, "a loop": loop, "a scan": scan, "a function": function}


def inside_arrays(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    sizes = {"batch": 1, "tokens": 1, "capacity": 6, "keys": 5, "steps": 3}
    given = {"lengths": np.array([4], np.int32), "total": np.array(6, np.int32)}
    given |= {"turns": np.array(2), "use": np.array(True)}
    rng = np.random.default_rng(5)
    for graph_input in model.graph.input:
        dims = graph_input.type.tensor_type.shape.dim
        shape = [sizes[d.dim_param] if d.dim_param else d.dim_value for d in dims]
        given.setdefault(graph_input.name, rng.standard_normal(shape).astype(np.float32))
    return given


def check_inside(model: onnx.ModelProto) -> None:
    """The provider takes the nodes, and they run."""
    check(model)
    assert by_plan(model).taken, "no node is taken"
    arrays = inside_arrays(model)
    want, got = run(plain_session(model), arrays), run(provider_session(model), arrays)
    for name, right in want.items():
        assert np.abs(got[name] - right).max() < 1e-5, name


# ---- All models ----


def refused_nodes() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Nodes that ONNX Runtime takes and kvmill does not, or not always."""
    rng = np.random.default_rng(8)
    case = random_case(rng, "float32", 32, 64)
    norms = {f"{x}_norm_weight": np.ones(64, np.float32) for x in "qk"}
    past = {f"past_{x}": np.zeros((1, 2, 12, 64), np.float32) for x in ("key", "value")}
    bias = {"attention_bias": np.zeros((1, 1, 1, 12), np.float32)}
    one = {
        "query": np.zeros((1, 1, 512), np.float32), "key": np.zeros((1, 1, 128), np.float32),
        "value": np.zeros((1, 1, 128), np.float32), "seqlens_k": np.zeros(1, np.int32),
        "total_sequence_length": np.array(1, np.int32),
    }  # fmt: skip
    yield "norms", group_query_model(Case(one | norms))
    yield "scores", group_query_model(Case(one, {"qk_output": 1}))
    yield "a cache of a window", group_query_model(Case(one | past, SLIDING))
    yield "a cache of a window, with a bias", group_query_model(Case(one | past | bias, SLIDING))
    yield "a random node", group_query_model(case)
    double = attention_model(24)
    for one_value in (*double.graph.input, *double.graph.output):
        one_value.type.tensor_type.elem_type = TensorProto.DOUBLE
    yield "float64", double
    yield "softmax_precision 11", attention_model(24, softmax_precision=11)
    scores = attention_model(24, past=True)
    scores.graph.node[0].output.append("scores")
    scores.graph.output.append(value("scores"))
    yield "scores of Attention", scores


def window_models() -> Iterator[tuple[str, onnx.ModelProto]]:
    large = windows.Case("Gather", np.zeros((1, 4, 600, 128), "f4"), np.zeros(512, "i8"), None, {"axis": 2})
    small = windows.Case("Gather", large.data, large.indices[:9], None, {"axis": 2})
    rows = windows.Case("Gather", np.zeros((600, 4096), "f4"), np.zeros(512, "i4"), None, {"axis": 0})
    new = windows.Case(
        "ScatterElements", np.zeros((1, 8, 64, 128), "f4"), np.zeros((1, 8, 2, 128), "i8"),
        np.ones((1, 8, 2, 128), "f4"), {"axis": 2},
    )  # fmt: skip
    few = windows.Case("ScatterElements", new.data, new.indices[:, :1], new.updates[:, :1], {"axis": 2})
    adds = windows.Case("ScatterElements", new.data, new.indices, new.updates, {"axis": 2, "reduction": "add"})
    elements = windows.Case("GatherElements", new.data, new.indices, None, {"axis": 2})
    named = {"large": large, "small": small, "rows": rows, "new rows": new, "few rows": few, "sums": adds}
    for name, case in (*named.items(), ("by element", elements)):
        yield f"a window: {name}", windows.windows_model(case)
    yield "a window: open dims", windows.windows_model(large, ["batch", 4, 600, 128])
    made = windows.windows_model(new)
    made.graph.node[0].input[0] = "copy"
    made.graph.node.insert(0, helper.make_node("Neg", ["data"], ["copy"]))
    yield "a window: data that a node makes", made


def all_models() -> dict[str, onnx.ModelProto]:
    """Return the models of all tests; one of each kind of random ones."""
    models = {name: shapes.model for name, shapes in all_shapes().items()}
    models |= {"float32 step without kernels": step_model(5, 1, 17), "decoder": decoder()}
    models |= {"CacheStep node": cache_step.node_model(), "blocks": cache_group_query.node_model()}
    models |= {f"PMX: {op}": pmx_nodes.node_model(op) for op in ("MultiHeadCacheAttention", "KeyValueCache")}
    return models | dict(refused_nodes()) | dict(window_models())


def run_all(tap: Tap) -> None:
    def check_all(models: Mapping[str, onnx.ModelProto]) -> None:
        for name, model in models.items():
            try:
                check(model)
            except Exception as error:
                raise AssertionError(name) from error

    tap.run("plan --ort and the provider serve the same nodes of all models", partial(check_all, all_models()))
    for name, make in INSIDE.items():
        tap.run(f"plan --ort and the provider: nodes inside {name}", partial(check_inside, make()))
