"""PMX cache attention: store rows, read them back, attend.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from ctypes import byref, c_void_p
from functools import cached_property
from typing import Any, cast

import numpy as np

from . import c
from .arguments import items, refuse_unknown, shown
from .arrays import (
    DType,
    Operand,
    array_tensor,
    as_array,
    dtype_named,
    make_tensor,
    written_array,
)
from .names import names_of, ordered_names, types_of
from .ops import set_members
from .plans import (
    Arrays,
    Call,
    MakeTensor,
    Pack,
    Plan,
    Portable,
    given_packs,
    make_plan,
    plan_options,
)
from .pools import Threads

_CACHE_OPS = tuple(
    prefix + op
    for prefix in ("", "dynamic_batching.")
    for op in ("KeyValueCache", "MultiHeadAttention", "MultiHeadCacheAttention")
)
ATTENTION_TENSORS = ordered_names(*_CACHE_OPS)
_ATTENTION_TYPES = types_of(*_CACHE_OPS)
_ATTENTION_CACHES = names_of("inout", *_CACHE_OPS)

ATTENTION_ATTRIBUTES = {name for name, *_ in c.CacheAttentionOp._fields_} - {
    "struct_size",
    "value_differs",
}
_VALUE_ATTRIBUTES = {name for name in ATTENTION_ATTRIBUTES if name.startswith("value_")}


def cache_type(T1: str, quant_bit: int, cache_format: str | None) -> str:
    """Return the cache's element type if quantising or blocks determine it, otherwise T1."""
    in_blocks = cache_format and cache_format not in ("tiles", "transposed")
    return "uint8" if in_blocks else {8: "int8", 4: "int4"}.get(quant_bit, T1)


def scale_type(T1: str) -> str:
    return "float32" if dtype_named(T1, "T1").bits == 32 else "float16"


class CacheAttention(Plan):
    """The base class of ops that read caches."""

    _function = ""  # the library's function that makes the plan
    _attributes: frozenset[str] = frozenset(ATTENTION_ATTRIBUTES)
    _names: tuple[str, ...] = ATTENTION_TENSORS
    _written: tuple[str, ...] = _ATTENTION_CACHES
    _outputs: tuple[str, ...] = ()

    def __init__(
        self,
        *,
        T1: str,
        packs: Sequence[Pack] | None = None,
        portable: Portable = "warn",
        isa: str | None = None,
        threads: Threads = 1,
        **attributes: Any,
    ) -> None:
        unknown = set(attributes) - self._attributes
        if unknown:
            raise TypeError(
                f"{sorted(unknown)[0]} is not an attribute of {type(self).__name__}; "
                f"accepted: {', '.join(sorted(self._attributes))}"
            )
        self._packs = given_packs(packs)
        self._op = self._make_op(T1, attributes)
        options = plan_options(self._packs, portable, isa, threads)
        self._handle = make_plan(self, self._function, self._op, options)

    def _make_op(self, T1: str, given: dict[str, Any]) -> Any:
        op = c.CacheAttentionOp()
        c.library.kvmill_cache_attention_init(byref(op), ctypes.sizeof(op))
        attributes = {"T1": T1, **given}
        self._types = self._complete_types(attributes)
        op.value_differs = not _VALUE_ATTRIBUTES.isdisjoint(given)
        set_members(op, **attributes | self._types)
        return op

    @staticmethod
    def _complete_types(attributes: dict[str, Any]) -> dict[str, str]:
        """Return T1 to T3, and V's types if V differs from K, with defaults filled in."""
        T1 = attributes["T1"]
        quant_bit, cache_format = attributes.get("quant_bit", 0), attributes.get("cache_format")
        types = {
            "T1": T1,
            "T2": attributes.get("T2", cache_type(T1, quant_bit, cache_format)),
            "T3": attributes.get("T3", scale_type(T1)),
        }
        if not _VALUE_ATTRIBUTES.isdisjoint(attributes):
            types |= CacheAttention._complete_value_types(attributes, types)
        return types

    @staticmethod
    def _complete_value_types(attributes: dict[str, Any], types: dict[str, str]) -> dict[str, str]:
        """Return V's types, and add V's other attributes to `attributes`.  What is not given is the
        same as for K."""
        says_how = {"value_quant_bit", "value_cache_format", "value_T2"} & set(attributes)
        if not says_how:
            for name in ("quant_bit", "cache_format"):
                attributes[f"value_{name}"] = attributes.get(name)
            if attributes["value_cache_format"] == "transposed":  # only keys can be transposed
                attributes["value_cache_format"] = None
        quant_bit = attributes.get("value_quant_bit") or 0
        cache_format = attributes.get("value_cache_format")
        default = cache_type(types["T1"], quant_bit, cache_format) if says_how else types["T2"]
        return {
            "value_T2": attributes.get("value_T2", default),
            "value_T3": attributes.get("value_T3", types["T3"]),
        }

    def prepare(self, **tensors: Operand) -> Call:
        """Bind the plan to arrays, including outputs.  Running the returned call costs no more than in C.

        The arguments are those of run().  Arguments that are not arrays are copied now.
        """
        return self._prepare(*self._operands(**tensors))

    def _operands(self, **tensors: Operand) -> tuple[MakeTensor, Arrays]:
        return self._tensor, self._arrays(tensors)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self._names)}

    def _number_of(self, place: str) -> int:
        return self._numbers[place]

    def _tensor_count(self, arrays: Arrays) -> int:
        return len(self._names)

    @cached_property
    def _all_written(self) -> frozenset[str]:
        return frozenset((*self._written, *self._outputs))

    def _arrays(self, tensors: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Return the tensors that are given, as arrays.  Arrays that a run writes share the
        caller's memory."""
        if not tensors.keys() <= self._numbers.keys():
            refuse_unknown(tensors, self._names)
        arrays = dict(tensors)
        if set(map(type, arrays.values())) != {np.ndarray}:
            given = {name: array for name, array in arrays.items() if array is not None}
            arrays = {name: as_array(array, name) for name, array in given.items()}
        for name in self._all_written & arrays.keys():
            arrays[name] = written_array(tensors[name], name)
        return arrays

    def _declared(self, name: str) -> DType | None:
        """Return the declared element type of a tensor, or None if the array's own type is used."""
        is_partial = name == "attn_output" and self._op.partial
        word = None if is_partial else _ATTENTION_TYPES.get(name)
        return dtype_named(self._types[word], word) if word in self._types else None

    def _tensor(self, name: str, array: np.ndarray) -> c.DLTensor:
        declared = self._declared(name)
        if declared is None or declared.bits != 4:
            return array_tensor(array, declared, name)
        if array.dtype != np.uint8 or not array.flags.c_contiguous or array.ndim == 0:
            raise TypeError(
                f"{name} has type {array.dtype} and strides {array.strides}; accepted for "
                f"{declared.name}: uint8, two elements each, row-major without gaps"
            )
        shape = (*array.shape[:-1], 2 * array.shape[-1])
        return make_tensor(declared, shape, array.ctypes.data)

    def _run(
        self, tensors: dict[str, Any], executor: Executor | None, wanted: tuple[str, ...] = ()
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        arrays = self._arrays(tensors)
        wanted = wanted or self._outputs
        for name in wanted:
            if name not in arrays:
                arrays[name] = self._new_output(name, arrays)
        self._run_on(self._tensor, arrays, executor)
        outputs = tuple(arrays[name] for name in wanted)
        return outputs[0] if len(outputs) == 1 else cast("tuple[np.ndarray, np.ndarray]", outputs)

    def _new_output(self, name: str, tensors: dict[str, Any]) -> np.ndarray:
        raise NotImplementedError


def _integers(tensors: dict[str, Any], name: str, rank: int = 0) -> np.ndarray:
    array = required(tensors, name, rank)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} has type {array.dtype}; accepted: integers")
    return array


def required(tensors: dict[str, Any], name: str, rank: int = 0) -> np.ndarray:
    array: np.ndarray | None = tensors.get(name)
    if array is None or array.ndim < rank:
        have = "is None" if array is None else f"has shape {array.shape}"
        raise ValueError(f"{name} {have}; accepted: an array of rank {rank}")
    return array


class Attending(CacheAttention):
    """The base class of ops that have a query."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._outputs = ("attn_output", "lse") if self._op.partial else ("attn_output",)

    @cached_property
    def _output_type(self) -> type[np.float32] | None:
        """The type of attn_output; None: the query's."""
        return np.float32 if self._op.partial else None

    @cached_property
    def _output_dim(self) -> int:
        """The last dim of attn_output; 0: the query's."""
        return int(self._op.value_head_dim) if self._op.value_differs else 0

    def _new_output(self, name: str, tensors: dict[str, Any]) -> np.ndarray:
        query = required(tensors, "query", 3)
        if name == "lse":
            return np.empty(query.shape[:-1], np.float32)
        *lead, dim = query.shape
        return np.empty((*lead, self._output_dim or dim), self._output_type or query.dtype)


class MultiHeadCacheAttention(Attending):
    """A plan of PMX MultiHeadCacheAttention: store current_key and current_value in the cache, then
    attend to the cache.  dynamic_batching=True gives the op of the same name in the domain
    opmx.dynamic_batching.

    T1: element type of activations: "float32", "float16" or "bfloat16".
    attributes: those of the op; kvmill.h gives their meaning and defaults.  num_heads and head_dim are
        required.  By default, T2 follows from quant_bit and cache_format, and otherwise is T1; T3 is
        float32 if T1 is float32, otherwise float16.  If any value_... attribute is given, value_cache
        (and value_scale) are separate tensors; value_... attributes that are not given are the
        same as K's.
    packs: packs in which to search for kernels; default: default_pack(), if it exists.
    portable: what to do if no pack has a kernel.  "warn": issue a PortableKernelWarning once, and use
        portable kernels, which may take ten times as long; "allow": use them without a warning;
        "refuse": raise KvmillError; "only": always use portable kernels.
    isa: the best instruction set to use; default: all that this CPU has.
    threads: the number of threads that share a run, including the caller's, or a Pool; 0: one for
        each core.  Workspaces grow with this number.

    The plan does not depend on shapes.  Any number of threads may run it at the same time, on
    different caches.  Raises KvmillError if the library refuses the plan, and TypeError for unknown
    attributes.
    """

    _function = "kvmill_plan_multi_head_cache_attention"

    def run(
        self, *, executor: Executor | None = None, **tensors: Operand
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Run on arrays.  Returns attn_output, or (attn_output, lse) with partial=True.

        Static batch, with S new tokens, H query heads, KVH kv heads and D = head_dim: query
        [B, S, H, D]; current_key and current_value [B, S, KVH, D]; start_pos, one int64; cache and
        scale in the shapes that cache_layout sets; optional attn_mask and sinks [H].

        Dynamic batching: query, current_key and current_value have no B, and hold the tokens of all
        sequences one after the other.  seqstarts and kvstarts [B + 1], start_pos [B], cachestarts
        [B] or [B, pages], decoding_batches, max_seqlen and max_kvlen are int64; optional attn_mask
        and sinks.

        With mode="circular" the cache is a ring: position p is in slot p modulo the number of slots.
        This number is that of the cache in a static batch, that of all pages in a list if the cache is
        paged, and otherwise `capacity`.

        cache and scale are updated in place.  bfloat16 arrays are those of ml_dtypes, or their bits as
        uint16; float8 arrays are those of ml_dtypes, or uint8.  An int4 cache is uint8 with two
        elements in each byte, so its last dim is head_dim / 2.  With a cache_format, the cache is uint8
        and holds the bytes of blocks.

        attn_output, lse: arrays to write to; by default new ones are created.  attn_output has the
            query's type, or float32 with partial.
        executor: a ThreadPoolExecutor to run on, instead of the plan's pool; at most `threads` of its
            workers help at the same time.

        Raises KvmillError (then nothing has been written), TypeError and ValueError.
        """
        return self._run(tensors, executor)


class MultiHeadAttention(Attending):
    """A plan of PMX MultiHeadAttention: attend to the keys and values of the call, without a cache.

    Parameters are those of MultiHeadCacheAttention, except those of a cache.  value_head_dim is
    required if values have another length than keys.
    """

    _function = "kvmill_plan_multi_head_attention"

    def run(
        self, *, executor: Executor | None = None, **tensors: Operand
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Run on arrays.  Returns attn_output, or (attn_output, lse) with partial=True.

        Arguments are those of MultiHeadCacheAttention, but key and value have shape [B, KV, KVH, D],
        or with dynamic batching [kvstarts[B], KVH, D], without start_pos and cachestarts.
        """
        return self._run(tensors, executor)


class KeyValueCache(CacheAttention):
    """A plan of PMX KeyValueCache: store current_key and current_value in the cache, then read the
    whole cache back.

    Parameters are those of MultiHeadCacheAttention, except those of scores.  head_dim and num_kv_heads
    are required.  num_repeat is the number of copies of each head in the results.  T1 and T2 may both
    be int8; then codes are copied.
    """

    _function = "kvmill_plan_key_value_cache"
    _outputs = ("key", "value")

    def run(
        self, *, executor: Executor | None = None, **tensors: Operand
    ) -> tuple[np.ndarray, np.ndarray]:
        """Run on arrays.  Returns key and value, [B, start_pos + S, KVH * num_repeat, D] or, with dynamic
        batching, [kvstarts[B], KVH * num_repeat, D].  Of a ring, only the positions that it still holds
        are returned.

        Arguments are those of MultiHeadCacheAttention, without query, decoding_batches, masks and
        sinks.
        """
        key, value = self._run(tensors, executor)
        return key, value

    def _ring(self, tensors: dict[str, Any]) -> int:
        """Return the number of slots in a sequence's ring; a linear cache has no limit."""
        if self._op.mode != b"circular":
            return sys.maxsize
        if not self._op.dynamic_batching:
            return int(required(tensors, "cache", 6).shape[4 if self._op.cache_layout else 3])
        if self._op.cache_mode == 0:
            return int(self._op.capacity)
        return int(required(tensors, "cachestarts", 2).shape[-1] * self._op.page_size)

    def _new_output(self, name: str, tensors: dict[str, Any]) -> np.ndarray:
        current = required(tensors, f"current_{name}", 3)
        heads = current.shape[-2] * self._op.num_repeat
        ring = self._ring(tensors)
        if self._op.dynamic_batching:
            lengths = np.diff(_integers(tensors, "kvstarts", 1))
            tokens: tuple[int, ...] = (sum(min(int(length), ring) for length in lengths),)
        else:
            start = _integers(tensors, "start_pos").reshape(-1)[:1].sum()
            tokens = (current.shape[0], min(int(start) + current.shape[1], ring))
        shape = (*(max(count, 0) for count in tokens), heads, current.shape[-1])
        try:
            return np.empty(shape, current.dtype)
        except ValueError as error:
            raise MemoryError(f"{name} of shape {shape}: {error}") from None


def _float32_arrays(name: str, given: Any) -> list[np.ndarray]:
    accepted = "a sequence of arrays of float32"
    try:
        return [np.ascontiguousarray(array, np.float32) for array in items(name, given, accepted)]
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {shown(given)}; accepted: {accepted}") from None


def merge_partials(
    outputs: Sequence[np.ndarray], lses: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Merge partial results of the same queries over disjoint sets of keys.

    outputs: float32 arrays [..., dim].
    lses: as many float32 arrays, with the same shape except for the last dim.

    Returns new arrays: output and lse.  Raises ValueError if shapes do not match.
    """
    outputs, lses = _float32_arrays("outputs", outputs), _float32_arrays("lses", lses)
    rows = {output.shape[:-1] for output in outputs} | {lse.shape for lse in lses}
    dims = {output.shape[-1:] for output in outputs}
    if len(rows) != 1 or len(dims) != 1 or len(outputs) != len(lses):
        raise ValueError(
            f"outputs have shapes {shown([a.shape for a in outputs])}, and lses "
            f"{shown([a.shape for a in lses])}; "
            "accepted: as many lses as outputs, of equal shapes except for the last dim"
        )
    output, lse = np.empty_like(outputs[0]), np.empty_like(lses[0])
    pointers = c_void_p * len(outputs)
    c.library.kvmill_merge_partials(
        len(outputs),
        pointers(*(array.ctypes.data for array in outputs)),
        pointers(*(array.ctypes.data for array in lses)),
        lse.size,
        output.shape[-1],
        output.ctypes.data,
        lse.ctypes.data,
    )
    return output, lse
