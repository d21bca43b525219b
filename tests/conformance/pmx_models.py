"""Nodes of PMX's own domains in ONNX models, run by `kvmill run`: random configurations, compared
with the NumPy version of the PyTorch reference, like the Python calls in pmx.py.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import onnx
import pmx
import pmx_reference as reference
from onnx import TensorProto, helper
from onnx_models import IR_VERSION, run_model
from pmx_reference import Attributes, Tensors
from tap import Tap

CASES = 48
TYPES = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "float8e4m3fn": TensorProto.FLOAT8E4M3FN,
    "float8e5m2": TensorProto.FLOAT8E5M2,
    "int8": TensorProto.INT8,
    "int4": TensorProto.INT4,
}

# What PMX's exporter writes: inputs in order, and attributes.
PLACES = ("seqstarts", "kvstarts", "cachestarts", "start_pos")
LENGTHS = ("seqstarts", "kvstarts", "decoding_batches", "max_seqlen", "max_kvlen")
INPUTS = {
    "KeyValueCache": ("current_key", "current_value", "start_pos", "cache", "scale"),
    "MultiHeadAttention": ("query", "key", "value", "attn_mask"),
    "MultiHeadCacheAttention": (
        *("query", "current_key", "current_value", "start_pos", "cache", "scale", "attn_mask"),
    ),
}
DYNAMIC_INPUTS = {
    "KeyValueCache": (
        *("current_key", "current_value", *PLACES, "max_seqlen", "max_kvlen", "cache", "scale"),
    ),
    "MultiHeadAttention": ("query", "key", "value", *LENGTHS, "attn_mask"),
    "MultiHeadCacheAttention": (
        *("query", "current_key", "current_value", *PLACES, *LENGTHS[2:]),
        *("cache", "scale", "attn_mask"),
    ),
}
SCORES = {"num_heads": None, "head_dim": None, "is_causal": 1, "is_alibi": 0, "num_kv_heads": 0}
STORE = {"num_layer": 1, "layer_idx": 0, "quant_bit": 0, "quant_group": 8, "cache_layout": 0}
PAGES = {"cache_mode": 0, "page_size": 128}
ATTRIBUTES = {
    "KeyValueCache": STORE | {"num_repeat": 1},
    "MultiHeadAttention": SCORES,
    "MultiHeadCacheAttention": SCORES | STORE,
}


def random_attributes(rng: np.random.Generator) -> Attributes:
    """Draw attributes; PMX has no blocks."""
    attributes = pmx.random_attributes(rng)
    while attributes.cache_format is not None:
        attributes = pmx.random_attributes(rng)
    return replace(attributes, num_repeat=1)


def attributes_of(rng: np.random.Generator, attributes: Attributes, op: str) -> dict[str, int]:
    """Return a node's attributes; defaults may be left out."""
    paged = attributes.dynamic_batching and op != "MultiHeadAttention"
    known = ATTRIBUTES[op] | (PAGES if paged else {})
    given = {name: int(getattr(attributes, name)) for name in known}
    return {n: v for n, v in given.items() if v != known[n] or rng.random() < 0.5}


def make_node(
    rng: np.random.Generator,
    attributes: Attributes,
    op: str,
    names: dict[str, str],
    outputs: Sequence[str],
) -> onnx.NodeProto:
    """Make a node, in the domain `opmx` or `pmx`.  Absent inputs at the end may be left out."""
    dynamic = attributes.dynamic_batching
    wanted = [names.get(name, "") for name in (DYNAMIC_INPUTS if dynamic else INPUTS)[op]]
    while wanted[-1] == "" and rng.random() < 0.7:
        wanted.pop()
    return helper.make_node(
        op,
        wanted,
        outputs,
        domain=str(rng.choice(["opmx", "pmx"])) + (".dynamic_batching" if dynamic else ""),
        **attributes_of(rng, attributes, op),
    )


def arrays_of(attributes: Attributes, tensors: Tensors) -> dict[str, np.ndarray]:
    """Return the inputs that are present, by name, with a cache for each of two nodes."""
    names = ("start_pos",)
    if attributes.dynamic_batching:
        names = (*PLACES, *LENGTHS[2:])
    numbers = pmx.numbers_of(attributes, tensors, names)
    rows = pmx.inputs(tensors, "query", "current_key", "current_value", "attn_mask")
    caches = pmx.cache_copies(tensors)
    again = {f"{name}_2": array for name, array in caches.items()}
    arrays = rows | caches | again | {n: np.asarray(v, np.int64) for n, v in numbers.items()}
    return {name: array for name, array in arrays.items() if array is not None}


def type_of(attributes: Attributes, name: str) -> int:
    if name.startswith("cache") and name != "cachestarts":
        return TYPES[attributes.T2]
    if name.startswith("scale"):
        return TYPES[attributes.T3]
    rows = ("query", "current_key", "current_value", "attn_mask")
    return TYPES[attributes.T1] if name in rows else TensorProto.INT64


def info_of(
    rng: np.random.Generator, attributes: Attributes, name: str, array: np.ndarray
) -> onnx.ValueInfoProto:
    """Describe an input with all of its extents, some or none."""
    shape: list[Any] = list(array.shape)
    kind = type_of(attributes, name)
    if kind == TensorProto.INT4:
        shape[-1] *= 2
    if rng.random() < 0.5:
        shape = [n if rng.random() < 0.5 else f"{name}{d}" for d, n in enumerate(shape)]
    return helper.make_tensor_value_info(name, kind, None if rng.random() < 0.2 else shape)


def empty_for_none(
    rng: np.random.Generator, attributes: Attributes, arrays: dict[str, np.ndarray]
) -> None:
    """Replace absent inputs by tensors without elements, as exporters write them."""
    types = {"attn_mask": attributes.T1, "scale": attributes.T3}
    for name, dtype in types.items():
        if name not in arrays and rng.random() < 0.5:
            arrays[name] = np.zeros(0, reference.STORAGE[dtype])


DOMAINS = ("opmx", "pmx", "opmx.dynamic_batching", "pmx.dynamic_batching")


class ModelCase(NamedTuple):
    """A model of the three ops, with its inputs and the right results."""

    case: pmx.Answer
    arrays: dict[str, np.ndarray]
    model: onnx.ModelProto

    @property
    def caches(self) -> list[str]:
        """The inputs that are updated."""
        quantised = self.case.attributes.quant_bit != 0
        return ["cache", "cache_2"] + (["scale", "scale_2"] if quantised else [])

    def check(self, outputs: Sequence[np.ndarray], caches: Sequence[np.ndarray]) -> None:
        attributes, after = self.case.attributes, self.case.after
        storage = reference.STORAGE[attributes.T1]
        fused, apart, key = (array.view(storage) for array in outputs)
        pmx.check_outputs(self.case, fused)
        pmx.check_outputs(self.case, apart)
        pmx.same_bits(key, self.keys, "key")
        for name, array in zip(self.caches, caches, strict=True):
            pmx.same_bits(array, getattr(after, name.removesuffix("_2")), name)

    @property
    def keys(self) -> np.ndarray:
        """Return what KeyValueCache reads back."""
        attributes = self.case.attributes
        return reference.encode(attributes.T1, pmx.joined(attributes, self.case.after.keys))


def make_case(rng: np.random.Generator) -> ModelCase:
    attributes = random_attributes(rng)
    case = pmx.answer(attributes, pmx.random_tensors(rng, attributes))
    arrays = arrays_of(attributes, case.tensors)
    empty_for_none(rng, attributes, arrays)
    names = {name: name for name in arrays}
    second = {name.removesuffix("_2"): name for name in arrays if name.endswith("_2")}
    nodes = [
        make_node(rng, attributes, "MultiHeadCacheAttention", names, ["fused"]),
        make_node(rng, attributes, "KeyValueCache", names | second, ["key", "value"]),
        make_node(
            *(rng, attributes, "MultiHeadAttention"),
            *(names | {"key": "key", "value": "value"}, ["apart"]),
        ),
    ]
    T1 = TYPES[attributes.T1]
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "pmx",
            [info_of(rng, attributes, name, array) for name, array in arrays.items()],
            [helper.make_tensor_value_info(n, T1, None) for n in ("fused", "apart", "key")],
        ),
        opset_imports=[helper.make_opsetid(domain, 1) for domain in DOMAINS],
        ir_version=IR_VERSION,
    )
    return ModelCase(case, arrays, model)


def check_case(command: str, rng: np.random.Generator) -> None:
    made = make_case(rng)
    results = run_model(command, ("--portable",), made.model, made.arrays, made.caches)
    made.check(results[:3], results[3:])


def check_all(command: str, seed: int) -> None:
    for number in range(CASES):
        try:
            check_case(command, np.random.default_rng([seed, 1, number]))
        except Exception as error:
            raise AssertionError(f"case {number}") from error


def run(tap: Tap, command: str, seed: int) -> None:
    """All tests of this file."""
    tap.run(
        f"{CASES} models of PMX's three ops are as PMX's reference (the command, portable)",
        partial(check_all, command, seed),
    )
