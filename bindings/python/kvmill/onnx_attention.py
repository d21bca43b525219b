"""ONNX Attention, and TensorScatterAttention, which stores new rows first.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Sequence
from ctypes import byref, c_double, c_int64
from typing import Any

import numpy as np

from . import c
from .arguments import refuse_unknown, words
from .arrays import (
    array_tensor,
    as_array,
    dtype_of,
    make_tensor,
    prototype_tensor,
    reference,
    written_array,
)
from .names import names_of, ordered_names
from .ops import integer, make_struct, set_members
from .plans import (
    Arrays,
    Call,
    MakeTensor,
    Pack,
    Plan,
    Portable,
    given_packs,
    make_plan,
    numbered,
    plan_options,
)
from .pools import Threads

ATTENTION_INPUTS = names_of("in", "Attention")
ATTENTION_OUTPUTS = names_of("out", "Attention")


def _attention_op(opset: int, attributes: dict[str, float]) -> c.AttentionOp:
    op = c.AttentionOp()
    c.library.kvmill_attention_init(byref(op), ctypes.sizeof(op))
    opset = integer("opset", opset)
    fields = {name for name, kind, *_ in c.AttentionOp._fields_ if kind in (c_int64, c_double)}
    for name in attributes:
        if name not in fields:
            accepted = ", ".join(sorted(fields - {"opset"}))
            raise TypeError(f"{name} is not an attribute of Attention-{opset}; accepted: {accepted}")
    set_members(op, opset=opset, **attributes)
    return op


class _OnnxAttention(Plan):
    """The base class of Attention and TensorScatterAttention."""

    # The names of second-to-last dims that may be left open until a run, by tensor.
    _rows: dict[str, str]
    _names: tuple[str, ...]
    _outputs: Sequence[str]
    _heads: tuple[int, int]

    def _prototype(self, name: str, array: np.ndarray, dynamic: Collection[str]) -> c.DLTensor:
        given = words("dynamic", dynamic, ["batch", *dict.fromkeys(self._rows.values())])
        dims = {0} if "batch" in given else set()
        dims |= {array.ndim - 2} if self._rows.get(name) in given else set()
        if name == "attn_mask" and given:
            dims = set(range(array.ndim))
        return prototype_tensor(array, None, dims, name)

    def _arrays(self, tensors: dict[str, Any]) -> Arrays:
        refuse_unknown(tensors, self._names)
        for name in self._outputs:
            if tensors.get(name) is None:
                raise TypeError(f"{name} is None; accepted: an array for every output of the plan")
            tensors[name] = written_array(tensors[name], name)
        given = [(name, tensors.get(name)) for name in self._names]
        return numbered([None if tensor is None else as_array(tensor, name) for name, tensor in given])

    def _tensor(self, i: int, array: np.ndarray) -> c.DLTensor:
        return array_tensor(array, None, self._names[i])

    def _tensor_count(self, arrays: Arrays) -> int:
        return len(self._names)

    def _sizes(self, tensors: dict[str, Any]) -> tuple[list[np.ndarray], int, int]:
        """Return Q, K and V, and the numbers of query heads and kv heads: they determine the output
        shapes."""
        arrays = [as_array(tensors.get(name), name) for name in ("Q", "K", "V")]
        Q, K, V = arrays
        if (Q.ndim, K.ndim, V.ndim) not in ((3, 3, 3), (4, 4, 4)):
            ranks = f"{Q.ndim}, {K.ndim} and {V.ndim}"
            raise ValueError(f"Q, K and V have ranks {ranks}; accepted: 3 for all, or 4 for all")
        heads, kv_heads = self._heads if Q.ndim == 3 else (Q.shape[1], K.shape[1])
        if heads < 1 or kv_heads < 1:
            raise ValueError(f"Q has {heads} heads, and K {kv_heads}; accepted: 1 or more of each")
        return arrays, heads, kv_heads


class Attention(_OnnxAttention):
    """A plan of ONNX Attention, opsets 23, 24 and 25.

    Q, K, V, attn_mask, past_key, past_value, nonpad_kv_seqlen: arrays whose data is ignored.  An input
        that is None here must be absent in every run.
    outputs: outputs in addition to Y: any of "present_key", "present_value", "qk_matmul_output".
    attributes: those of the standard, with its names and defaults.
    dynamic: dims that are known only in a run: any of "batch", "queries", "keys" (rows of K) and
        "past".
    packs, portable, isa, threads: as for TensorScatter.

    Raises KvmillError if the library refuses the plan, and TypeError and ValueError for arrays that
    cannot be passed to it.
    """

    _rows = {"Q": "queries", "K": "keys", "V": "keys", "past_key": "past", "past_value": "past"}
    _names = ordered_names("Attention")

    def __init__(
        self,
        Q: np.ndarray,
        K: np.ndarray,
        V: np.ndarray,
        attn_mask: np.ndarray | None = None,
        past_key: np.ndarray | None = None,
        past_value: np.ndarray | None = None,
        nonpad_kv_seqlen: np.ndarray | None = None,
        *,
        opset: int = 25,
        outputs: Collection[str] = (),
        packs: Sequence[Pack] | None = None,
        portable: Portable = "warn",
        isa: str | None = None,
        threads: Threads = 1,
        dynamic: Collection[str] = (),
        **attributes: float,
    ) -> None:
        unknown = set(outputs) - set(ATTENTION_OUTPUTS)
        if unknown:
            raise ValueError(f"outputs has {sorted(unknown)}; accepted: {', '.join(ATTENTION_OUTPUTS)}")
        self._packs = given_packs(packs)
        self._outputs = [name for name in ATTENTION_OUTPUTS if name == "Y" or name in outputs]
        inputs = (Q, K, V, attn_mask, past_key, past_value, nonpad_kv_seqlen)
        tensors = dict(zip(ATTENTION_INPUTS, inputs, strict=True))
        op = _attention_op(opset, attributes)
        self._heads = op.q_num_heads, op.kv_num_heads
        prototypes = {
            name: self._prototype(name, array, dynamic)
            for name, array in tensors.items()
            if array is not None
        }
        for name in self._outputs[1:]:
            like = V if name == "present_value" else Q
            prototypes[name] = make_tensor(dtype_of(like, None, name), [c.DYNAMIC] * 4)
        for name, tensor in prototypes.items():
            setattr(op, name, reference(tensor))
        options = plan_options(self._packs, portable, isa, threads)
        self._handle = make_plan(self, "kvmill_plan_attention", op, options)

    def prepare(self, **tensors: np.ndarray | None) -> Call:
        """Bind the plan to arrays, including outputs, by their names in the standard."""
        return self._prepare(*self._operands(**tensors))

    def _operands(self, **tensors: np.ndarray | None) -> tuple[MakeTensor, Arrays]:
        return self._tensor, self._arrays(tensors)

    def run(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        """Run on arrays in the order of the standard.  Returns new arrays: Y, and the plan's other outputs
        in the order of the standard.

        Many threads may call this at the same time.  Raises KvmillError, TypeError and ValueError.
        """
        tensors = dict(zip(ATTENTION_INPUTS, inputs, strict=False))
        outputs = {name: self._new_output(name, tensors) for name in self._outputs}
        self._run_on(self._tensor, self._arrays({**tensors, **outputs}))
        return tuple(outputs.values())

    def _new_output(self, name: str, tensors: dict[str, Any]) -> np.ndarray:
        (Q, K, V), heads, kv_heads = self._sizes(tensors)
        packed, past = Q.ndim == 3, tensors.get("past_key")
        if past is not None and np.ndim(past) != 4:
            raise ValueError(f"past_key has rank {np.ndim(past)}; accepted: 4")
        keys = K.shape[-2] + (0 if past is None else np.shape(past)[2])
        dim = V.shape[-1] // kv_heads if packed else V.shape[-1]
        shapes = {
            "Y": (*Q.shape[:2], heads * dim) if packed else (*Q.shape[:3], dim),
            "present_key": (Q.shape[0], kv_heads, keys, Q.shape[-1] // (heads if packed else 1)),
            "present_value": (Q.shape[0], kv_heads, keys, dim),
            "qk_matmul_output": (Q.shape[0], heads, Q.shape[-2], keys),
        }
        return np.empty(shapes[name], V.dtype if name == "present_value" else Q.dtype)


class TensorScatterAttention(_OnnxAttention):
    """A plan of a decode step: TensorScatter of K and V into caches, then Attention over the valid rows.

    Q, K, V: queries, and as many new rows.
    past_key, past_value: the caches, with Q's rank: [batch, kv heads, capacity, dim] or [batch,
        capacity, kv heads * dim].
    write_indices, nonpad_kv_seqlen, attn_mask: as in kvmill.h.
    mode: "linear" or "circular".
    dynamic: dims that are known only in a run: any of "batch", "queries" and "capacity".
    attributes, packs, portable, isa, threads: as for Attention; opset 24 or 25.

    The data of arrays is ignored.  An input that is None here must be absent in every run.

    Raises KvmillError if the library refuses the plan, and TypeError and ValueError for arrays that
    cannot be passed to it.
    """

    _rows = {
        **dict.fromkeys(("Q", "K", "V"), "queries"),
        **dict.fromkeys(("past_key", "past_value"), "capacity"),
    }
    _names = ordered_names("TensorScatterAttention", "Attention")
    _outputs = ("Y", "present_key", "present_value")

    def __init__(
        self,
        Q: np.ndarray,
        K: np.ndarray,
        V: np.ndarray,
        past_key: np.ndarray,
        past_value: np.ndarray,
        write_indices: np.ndarray | None = None,
        nonpad_kv_seqlen: np.ndarray | None = None,
        attn_mask: np.ndarray | None = None,
        *,
        mode: str = "linear",
        opset: int = 25,
        packs: Sequence[Pack] | None = None,
        portable: Portable = "warn",
        isa: str | None = None,
        threads: Threads = 1,
        dynamic: Collection[str] = (),
        **attributes: float,
    ) -> None:
        self._packs = given_packs(packs)
        attention = _attention_op(opset, attributes)
        inputs = (Q, K, V, attn_mask, past_key, past_value, nonpad_kv_seqlen)
        tensors = dict(zip(ATTENTION_INPUTS, inputs, strict=True), write_indices=write_indices)
        prototypes = {
            name: None if array is None else self._prototype(name, array, dynamic)
            for name, array in tensors.items()
        }
        for name in ATTENTION_INPUTS:
            setattr(attention, name, reference(prototypes[name]))
        self._heads = attention.q_num_heads, attention.kv_num_heads
        op = make_struct(
            c.AttentionStepOp,
            attention=ctypes.pointer(attention),
            mode=mode,
            write_indices=reference(prototypes["write_indices"]),
        )
        options = plan_options(self._packs, portable, isa, threads)
        self._handle = make_plan(self, "kvmill_plan_tensor_scatter_attention", op, options)

    def prepare(self, write_indices: np.ndarray | None = None, **tensors: np.ndarray) -> Call:
        """Bind the plan to arrays, including outputs, by name.  To work in place, pass past_key as
        present_key and past_value as present_value."""
        return self._prepare(*self._operands(write_indices, **tensors))

    def _operands(
        self, write_indices: np.ndarray | None = None, **tensors: np.ndarray
    ) -> tuple[MakeTensor, Arrays]:
        return self._tensor, self._arrays({**tensors, "write_indices": write_indices})

    def run(
        self,
        Q: np.ndarray,
        K: np.ndarray,
        V: np.ndarray,
        past_key: np.ndarray,
        past_value: np.ndarray,
        write_indices: np.ndarray | None = None,
        nonpad_kv_seqlen: np.ndarray | None = None,
        attn_mask: np.ndarray | None = None,
        *,
        in_place: bool = True,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Run on arrays that fit the plan.  In place, the caches are updated and Y is returned;
        otherwise returns Y and new caches.  Raises KvmillError, TypeError and ValueError."""
        (Q, K, V), heads, kv_heads = self._sizes({"Q": Q, "K": K, "V": V})
        last = V.shape[-1] // kv_heads * heads if Q.ndim == 3 else V.shape[-1]
        Y = np.empty((*Q.shape[:-1], last), Q.dtype)
        caches = past_key, past_value
        if not in_place:
            caches = np.empty_like(past_key), np.empty_like(past_value)
        inputs = (Q, K, V, attn_mask, past_key, past_value, nonpad_kv_seqlen)
        tensors = dict(zip(ATTENTION_INPUTS, inputs, strict=True), write_indices=write_indices)
        outputs = {"Y": Y, "present_key": caches[0], "present_value": caches[1]}
        self._run_on(self._tensor, self._arrays({**tensors, **outputs}))
        return Y if in_place else (Y, *caches)
