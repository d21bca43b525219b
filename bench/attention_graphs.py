"""ONNX Runtime's side of onnxruntime_attention.py: graphs, and runs bound to arrays.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnxruntime
from attention_problems import Arrays, Problem
from onnx import TensorProto, helper
from turns import Run


@dataclass(frozen=True)
class Graph:
    """Nodes, and the arrays that are bound to their outputs.  Other names are bound to arrays of
    the same name."""

    nodes: list
    outputs: dict[str, str]
    inputs: dict[str, str] = field(default_factory=dict)
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)  # weights


def attention_node(problem: Problem, key: str, value: str):
    return helper.make_node(
        "Attention",
        ["Q", key, value, "", "", "", "nonpad_kv_seqlen"],
        ["Y"],
        is_causal=1,
        softcap=float(problem.softcap),
    )


def attention_graph(problem: Problem) -> Graph:
    return Graph([attention_node(problem, "past_key", "past_value")], {"Y": "Y"})


def step_graph(problem: Problem) -> Graph:
    scatters = [
        helper.make_node(
            "TensorScatter", [f"past_{side}", new, "write_indices"], [f"present_{side}"]
        )
        for side, new in (("key", "K"), ("value", "V"))
    ]
    attention = attention_node(problem, "present_key", "present_value")
    outputs = {"Y": "Y", "present_key": "past_key", "present_value": "past_value"}
    return Graph([*scatters, attention], outputs)


def gqa_graph(problem: Problem) -> Graph:
    names = ["query", "key", "value", "past_key", "past_value"]
    names += ["seqlens_k", "total_sequence_length"]
    more = {"softcap": float(problem.softcap)} if problem.softcap else {}
    if problem.cache == "int8":
        names += [""] * 5 + ["k_scale", "v_scale"]
        more |= {"kv_cache_bit_width": 8}
        more |= {f"{side}_quant_type": "PER_TENSOR" for side in "kv"}
    node = helper.make_node(
        "GroupQueryAttention",
        names,
        ["output", "present_key", "present_value"],
        domain="com.microsoft",
        num_heads=problem.heads,
        kv_num_heads=problem.kv_heads,
        **more,
    )
    outputs = {"output": "output", "present_key": "past_key", "present_value": "past_value"}
    return Graph([node], outputs, {"k_scale": "int8_scale", "v_scale": "int8_scale"})


def graphs_of(problem: Problem) -> dict[str, Graph]:
    """GroupQueryAttention requires K and V of one size; Attention does not take int8."""
    graphs = {}
    if problem.cache != "int8":
        graphs |= {"attention": attention_graph(problem), "step": step_graph(problem)}
    if problem.key_dim == problem.value_dim:
        graphs["gqa"] = gqa_graph(problem)
    return graphs


def inputs_of(graph: Graph) -> dict[str, str]:
    """Inputs of the graph, with the names of their arrays."""
    made = {name for node in graph.nodes for name in node.output} | set(graph.constants)
    used = [name for node in graph.nodes for name in node.input if name and name not in made]
    return {name: graph.inputs.get(name, name) for name in used}


def constant(name: str, array: np.ndarray) -> TensorProto:
    """An initialiser without elements: a message has at most 2 GiB, so the session gets them
    separately."""
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    tensor = TensorProto(name=name, data_type=kind, dims=array.shape)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="memory")
    return tensor


def make_model(graph: Graph, arrays: Arrays) -> bytes:
    def info(names: dict[str, str]) -> list:
        return [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(arrays[a].dtype), arrays[a].shape
            )
            for name, a in names.items()
        ]

    made = helper.make_graph(
        graph.nodes,
        "step",
        info(inputs_of(graph)),
        info(graph.outputs),
        [constant(name, array) for name, array in graph.constants.items()],
    )
    opsets = [helper.make_opsetid("", 24), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(made, opset_imports=opsets, ir_version=11).SerializeToString()


def bind(session: onnxruntime.InferenceSession, graph: Graph, arrays: Arrays) -> Run:
    binding = session.io_binding()
    for names, bind_one in (
        (inputs_of(graph), binding.bind_input),
        (graph.outputs, binding.bind_output),
    ):
        for name, a in names.items():
            array = arrays[a]
            bind_one(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    return lambda: session.run_with_iobinding(binding)


def devices() -> list:
    """The devices of bindings/onnxruntime, after its library is registered."""
    name = "KvmillExecutionProvider"
    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == name]


def register(library: str) -> None:
    """Registers libkvmill_ort.so, once per process."""
    onnxruntime.register_execution_provider_library("kvmill", str(Path(library).resolve()))


def onnxruntime_runs(
    graph: Graph,
    sets: Sequence[Arrays],
    threads: int,
    *,
    provider: dict[str, str] | None = None,
    others: bool = False,
) -> list[Run]:
    """provider: options of kvmill's provider.  It must take all nodes, unless `others` is true."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    weights = [
        onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in graph.constants.values()
    ]
    if weights:
        options.add_external_initializers(list(graph.constants), weights)
    model = make_model(graph, sets[0])
    if provider is not None:
        options.add_session_config_entry(
            "session.disable_cpu_ep_fallback", "0" if others else "1"
        )
        options.add_provider_for_devices(devices(), provider)
        session = onnxruntime.InferenceSession(model, options)
    else:
        providers = ["CPUExecutionProvider"]
        session = onnxruntime.InferenceSession(model, options, providers=providers)
    return [bind(session, graph, arrays) for arrays in sets]
