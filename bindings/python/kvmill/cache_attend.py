"""CacheAttend: attention over keys and values in any layout.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
from concurrent.futures import Executor
from ctypes import byref
from typing import Any

import numpy as np

from . import c
from .arrays import DType, Operand, array_tensor, dtype_named
from .cache_attention import CacheAttention, cache_type, required, scale_type
from .ops import set_members
from .names import names_of, ordered_names
from .tables import TENSORS


class CacheAttend(CacheAttention):
    """A plan of CacheAttend: attention over keys and values that the caller stores, in any layout.

    T1: element type of query: "float32", "float16" or "bfloat16".
    attributes: the members of kvmill_cache_attend; kvmill.h gives their meaning and defaults.
        num_heads and key_head_dim are required.  By default, key_T2 follows from key_quant_bit and
        key_cache_format, and otherwise is T1; key_T3 is float32 if T1 is float32, otherwise float16.
        The same holds for V if value_quant_bit, value_cache_format or value_T2 is given; otherwise V
        has K's format.  mask_T1 is required if runs have an attn_mask.
    packs, portable, isa, threads: as for MultiHeadCacheAttention.

    The plan does not depend on shapes, and any number of threads may run it at the same time.
    Raises KvmillError if the library refuses the plan, and TypeError for unknown attributes.
    """

    _function = "kvmill_plan_cache_attend"
    _attributes = frozenset(name for name, *_ in c.CacheAttendOp._fields_) - {"struct_size"}
    _names = ordered_names("CacheAttend")
    _written = names_of("out", "CacheAttend")
    _outputs = ("attn_output",)
    _rows = {tensor.name: tensor for tensor in TENSORS["CacheAttend"]}

    def _make_op(self, T1: str, given: dict[str, Any]) -> Any:
        op = c.CacheAttendOp()
        c.library.kvmill_cache_attend_init(byref(op), ctypes.sizeof(op))
        attributes = {"T1": T1, **given}
        said = {name for name, value in given.items() if value is not None}
        attributes |= self._side_types("key_", attributes)
        if not said.isdisjoint({"value_quant_bit", "value_cache_format", "value_T2"}):
            attributes |= self._side_types("value_", attributes)
        types = {name for name, kind, *_ in c.CacheAttendOp._fields_ if kind is c.DLDataType}
        self._types = {name: attributes[name] for name in types if attributes.get(name)}
        if "value_T2" not in self._types:
            self._types |= {"value_T2": self._types["key_T2"], "value_T3": self._types["key_T3"]}
        set_members(op, **attributes)
        return op

    @staticmethod
    def _side_types(side: str, given: dict[str, Any]) -> dict[str, str]:
        """Return T2 and T3 of a side, "key_" or "value_"."""
        default = cache_type(
            given["T1"], given.get(f"{side}quant_bit") or 0, given.get(f"{side}cache_format")
        )
        return {
            f"{side}T2": given.get(f"{side}T2") or default,
            f"{side}T3": given.get(f"{side}T3") or scale_type(given["T1"]),
        }

    def _declared(self, name: str) -> DType | None:
        row = self._rows[name]
        word = row.wide if row.wide_when in self._types else row.type
        return dtype_named(self._types[word], word) if word in self._types else None

    def _tensor(self, name: str, array: np.ndarray) -> c.DLTensor:
        """Pass 4-bit codes as bytes with two codes each, so that rows may have strides."""
        declared = self._declared(name)
        if declared is None or declared.bits != 4:
            return super()._tensor(name, array)
        if array.dtype != np.uint8:
            raise TypeError(
                f"{name} has type {array.dtype}; accepted for {declared.name}: uint8, two elements each"
            )
        return array_tensor(array, None, name)

    def run(
        self,
        *,
        executor: Executor | None = None,
        lse: np.ndarray | bool = False,
        **tensors: Operand,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Run on arrays.  Returns attn_output, or (attn_output, lse) if lse is given.

        There are B sequences with S queries each, or N queries in all; H query heads; G kv heads;
        D = key_head_dim.

        query: [B, S, H, D], or [N, H, D] with query_starts [B + 1].
        key, value: [B, T, G, D] or [C, G, D]; with page lists also [pages, page_size, G, D].  The
            format determines the last dim; the other dims may have any strides.
        key_scale, value_scale: required if the format has scales.

        Exactly one of these selects the rows of a sequence: lengths [B]; ranges [N, 2]; page_ids
        with page_starts [B + 1] or [B * G + 1]; slots with slot_starts [B + 1].

        Optional: positions [N], key_positions, attn_mask [T], [S, T], [H, S, T] or [B, H, S, T],
        alibi_slopes [H], sinks [H].  Indices and lengths are int64 or int32 arrays, or sequences.
        kvmill.h describes the rest.

        Types that NumPy lacks are passed as for MultiHeadCacheAttention; 4-bit codes are uint8 with
        two codes each.
        attn_output: an array to write to; by default a new one is created.
        lse: an array to write to, or True for a new one.
        executor: a ThreadPoolExecutor to run on.

        Raises KvmillError (then nothing has been written), TypeError and ValueError.
        """
        given = isinstance(lse, np.ndarray)
        wanted = ("attn_output", "lse") if given or lse else ("attn_output",)
        return self._run({**tensors, "lse": lse if given else None}, executor, wanted)

    def _new_output(self, name: str, tensors: dict[str, Any]) -> np.ndarray:
        query = required(tensors, "query", 3)
        if name == "lse":
            return np.empty(query.shape[:-1], np.float32)
        declared = self._declared(name)
        is_wide = declared is not None and declared.name == "float32"
        dim = self._op.value_head_dim or self._op.key_head_dim
        return np.empty((*query.shape[:-1], dim), np.float32 if is_wide else query.dtype)
