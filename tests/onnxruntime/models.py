"""Models for the tests, and the three ways to run them in ONNX Runtime.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

NAME = "KvmillExecutionProvider"
FLOAT, FLOAT16, INT64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64
Arrays = Mapping[str, np.ndarray]


def value(name: str, kind: int = FLOAT, shape: Sequence[int | str] | None = None):
    return helper.make_tensor_value_info(name, kind, shape)


def make_model(nodes: Sequence, inputs: Sequence, outputs: Sequence, opset: int = 24):
    graph = helper.make_graph(nodes, "test", inputs, outputs)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=11)


def step_nodes(layer: str = "", mode: str = "linear", **attributes) -> list:
    """Return TensorScatter of K and of V, then Attention; all names end with that of the layer."""
    scatters = [
        helper.make_node(
            "TensorScatter",
            [f"past_{x}{layer}", f"{x}{layer}", "write_indices"],
            [f"present_{x}{layer}"],
            f"store_{x}{layer}",
            mode=mode,
        )
        for x in "KV"
    ]
    inputs = [f"Q{layer}", f"present_K{layer}", f"present_V{layer}", "", "", "", "nonpad"]
    attend = helper.make_node(
        "Attention", inputs, [f"Y{layer}"], f"attend{layer}", is_causal=1, **attributes
    )
    return [*scatters, attend]


def decoder(layers: int = 2, kind: int = FLOAT, heads: int = 8, kv_heads: int = 2, dim: int = 64):
    """Return a model with caches: hidden -> Q, K, V by MatMul, a step, MatMul, added to hidden.

    All rows are [batch, tokens, heads * dim]."""
    widths = {"Q": heads * dim, "K": kv_heads * dim, "V": kv_heads * dim}
    rows, cache = ["batch", "tokens"], ["batch", "capacity", kv_heads * dim]
    nodes, inputs, outputs, hidden = [], [], [], "hidden"
    for layer in map(str, range(layers)):
        nodes += [
            helper.make_node("MatMul", [hidden, f"W{x}{layer}"], [f"{x}{layer}"]) for x in "QKV"
        ]
        nodes += step_nodes(layer, q_num_heads=heads, kv_num_heads=kv_heads)
        nodes += [
            helper.make_node("MatMul", [f"Y{layer}", f"WO{layer}"], [f"O{layer}"]),
            helper.make_node("Add", [hidden, f"O{layer}"], [f"hidden{layer}"]),
        ]
        hidden = f"hidden{layer}"
        inputs += [value(f"W{x}{layer}", kind, [widths["Q"], w]) for x, w in widths.items()]
        inputs += [value(f"WO{layer}", kind, [widths["Q"], widths["Q"]])]
        inputs += [value(f"past_{x}{layer}", kind, cache) for x in "KV"]
        outputs += [value(f"present_{x}{layer}", kind, cache) for x in "KV"]
    inputs += [value("hidden", kind, [*rows, widths["Q"]])]
    inputs += [value(name, INT64, ["batch"]) for name in ("write_indices", "nonpad")]
    return make_model(nodes, inputs, [value(hidden, kind, [*rows, widths["Q"]]), *outputs])


def decoder_arrays(rng: np.random.Generator, batch: int, capacity: int, dtype: str = "float32"):
    """Draw weights and caches for that decoder."""
    arrays = {}
    for layer in "01":
        for x, width in (("Q", 512), ("K", 128), ("V", 128), ("O", 512)):
            arrays[f"W{x}{layer}"] = rng.standard_normal((512, width)) / 23
        for x in "KV":
            arrays[f"past_{x}{layer}"] = rng.standard_normal((batch, capacity, 128))
    return {name: array.astype(dtype) for name, array in arrays.items()}


# ---- Three ways ----


def rewritten(model: onnx.ModelProto) -> bytes:
    """Rewrite a model with `kvmill rewrite`, which moves every node that kvmill knows to its
    domain."""
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder, "model.onnx"), Path(folder, "new.onnx")
        before.write_bytes(model.SerializeToString())
        command = [os.environ["KVMILL_COMMAND"], "rewrite", str(before), "-o", str(after)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        new = onnx.load(after)
    kept = {"TensorScatter", "Attention"}
    left = [n.op_type for n in new.graph.node if n.domain == "" and n.op_type in kept]
    assert not left, f"{left} left alone: {done.stderr}"
    return new.SerializeToString()


def options_of(threads: int = 1, **entries: str) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    for name, entry in entries.items():
        options.add_session_config_entry(f"kvmill.{name}", entry)
    return options


def plain_session(model: onnx.ModelProto, threads: int = 1, **_: str):
    """Open a session of ONNX Runtime alone."""
    providers = ["CPUExecutionProvider"]
    options = options_of(threads)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers)


def domain_session(model: onnx.ModelProto, threads: int = 1, **entries: str):
    """Open a session with kvmill's custom ops."""
    options = options_of(threads, **entries)
    options.register_custom_ops_library(os.environ["KVMILL_ORT"])
    providers = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(rewritten(model), options, providers=providers)


def devices() -> list:
    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == NAME]


def session_with(
    model: onnx.ModelProto, options: onnxruntime.SessionOptions, entries: dict[str, str]
):
    """Open a session with kvmill's provider and its options."""
    options.add_provider_for_devices(devices(), entries)
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def provider_session(model: onnx.ModelProto, threads: int = 1, **entries: str):
    """Open a session with kvmill's provider, which also takes nodes that no pack has kernels
    for."""
    return session_with(model, options_of(threads), {"portable": "1", **entries})


SIDES: dict[str, Callable] = {"domain": domain_session, "provider": provider_session}


def run(session: onnxruntime.InferenceSession, arrays: Arrays) -> dict[str, np.ndarray]:
    names = [output.name for output in session.get_outputs()]
    inputs = {i.name: arrays[i.name] for i in session.get_inputs()}
    return dict(zip(names, session.run(names, inputs), strict=True))


def run_in_place(
    session: onnxruntime.InferenceSession, new: Arrays, caches: Arrays, out: np.ndarray
) -> None:
    """A step whose pasts and presents are the same memory; Y is written to `out`."""
    binding = session.io_binding()
    for name, array in {**new, **caches}.items():
        binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    for name, array in caches.items():
        present = name.replace("past", "present")
        binding.bind_output(present, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    binding.bind_output("Y", "cpu", 0, out.dtype, out.shape, out.ctypes.data)
    session.run_with_iobinding(binding)


# ---- What is taken ----


def log_of(make: Callable[[], object]) -> str:
    """Return what the runtime writes to standard error during make()."""
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            make()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        return file.read().decode()


def claims(model: onnx.ModelProto, **entries: str) -> list[str]:
    """Return the log's lines about nodes, without their beginnings."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 1
    options.add_provider_for_devices(devices(), entries)
    text = model.SerializeToString()
    log = log_of(lambda: onnxruntime.InferenceSession(text, options))
    lines = [line.split("] kvmill: ")[1] for line in log.splitlines() if "] kvmill: " in line]
    return sorted({line.removesuffix("\x1b[m") for line in lines})


# ---- What is right ----


def attend(Q: np.ndarray, K: np.ndarray, V: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Causal attention to the first lengths[b] rows of caches, in double precision.  All tensors
    are [batch, heads, rows, dim], and the queries are at the last of these rows."""
    Q, K, V = (array.astype(np.float64) for array in (Q, K, V))
    Y = np.zeros((*Q.shape[:3], V.shape[3]))
    for b, h, s in np.ndindex(Q.shape[:3]):
        g = h // (Q.shape[1] // K.shape[1])
        seen = lengths[b] - Q.shape[2] + s + 1
        if seen > 0:
            scores = K[b, g, :seen] @ Q[b, h, s] / np.sqrt(Q.shape[3])
            weights = np.exp(scores - scores.max())
            Y[b, h, s] = weights / weights.sum() @ V[b, g, :seen]
    return Y


def decode(arrays: Arrays, heads: int = 8, dim: int = 64) -> dict[str, np.ndarray]:
    """Run the decoder's step in double precision."""

    def apart(rows: np.ndarray) -> np.ndarray:
        return rows.reshape(*rows.shape[:2], -1, dim).transpose(0, 2, 1, 3)

    hidden, results = arrays["hidden"].astype(np.float64), {}
    tokens, starts = hidden.shape[1], arrays["write_indices"]
    for layer in "01":
        Q, *new = (hidden @ arrays[f"W{x}{layer}"].astype(np.float64) for x in "QKV")
        for x, rows in zip("KV", new, strict=True):
            cache = arrays[f"past_{x}{layer}"].astype(np.float64)
            for b, start in enumerate(starts):
                cache[b, start : start + tokens] = rows[b]
            results[f"present_{x}{layer}"] = cache
        caches = (apart(results[f"present_{x}{layer}"]) for x in "KV")
        Y = attend(apart(Q), *caches, arrays["nonpad"])
        Y = Y.transpose(0, 2, 1, 3).reshape(*hidden.shape[:2], heads * dim)
        hidden = hidden + Y @ arrays[f"WO{layer}"].astype(np.float64)
    return {"hidden1": hidden, **results}


def require_close(got: Arrays, want: Arrays, tolerance: float, what: str = "") -> None:
    for name, expected in want.items():
        assert got[name].shape == expected.shape, f"{what} {name}: {got[name].shape}"
        off = np.max(np.abs(got[name].astype(np.float64) - expected), initial=0)
        assert off <= tolerance, f"{what} {name} is off by {off}"
