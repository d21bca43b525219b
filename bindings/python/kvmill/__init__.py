"""Python binding of libkvmill: kernels for the key/value cache of language models, on NumPy arrays.

    plan = kvmill.TensorScatter(past, update, write_indices, packs=[kvmill.Pack(path)])
    present = plan.run(past, update, write_indices)         # a new array
    plan.run(past, update, write_indices, present=past)     # in place

    plan = kvmill.MultiHeadCacheAttention(
        num_heads=32, num_kv_heads=8, head_dim=128, T1="float16", quant_bit=8, packs=[pack]
    )
    attn_output = plan.run(
        query=q, current_key=k, current_value=v, start_pos=17, cache=cache, scale=scale
    )

    plan = kvmill.CacheAttend(num_heads=32, num_kv_heads=8, key_head_dim=128, T1="float16")
    attn_output = plan.run(query=q, key=k, value=v, lengths=[17])

    plan = kvmill.Gather(
        table, ids, offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0],
        index_vector_dim=1, slice_sizes=[1, 4096], packs=[pack]
    )
    rows = plan.run(table, ids)

    flow = kvmill.Flow("gqa_quest.json", num_heads=32, num_kv_heads=8, head_dim=128)
    decode = flow.plan("decode", batch=1, pages=2048, packs=[pack])
    attn_output = decode.run(
        query=q, cache=cache, seq_len=[32768], page_indptr=[0, 2048], page_ids=ids, **fields
    )

kvmill.transformers, which is imported by itself, has attention and caches for models of Hugging
Face's transformers.

Plan once, run many: a plan is immutable and may run in any number of threads at a time; the GIL is
released while the library works.  With threads=N a plan's runs are shared by N threads, those of a
pool that all plans with that number have in common, as far as the work is worth it; threads=Pool(...)
is a pool of the caller's.  Results never depend on it.  The meaning of the operation is that of kvmill.h.

The library is the file named by the environment variable KVMILL_LIBRARY, else the one of the wheel,
else what the system's loader finds.  It is loaded, with NumPy, when something of the package is
first used, which raises OSError where there is none.

Element types go by their ONNX or NumPy names: bool, (u)int8 to (u)int64, float16, float32, float64,
bfloat16, complex64, complex128, the float8 types, int4, uint4, float4e2m1, string.  ml_dtypes is
not needed: only arrays of its types are.  Tensors of other libraries are taken where NumPy shares
their memory; those of types that it lacks, PyTorch's of bfloat16, by DLPack, with ml_dtypes.  Three
layouts deserve a word:

* 4-bit types.  NumPy holds one element per byte, libkvmill two.  Arrays are packed before a run and
  unpacked after it (pack_nibbles, unpack_nibbles); this costs more than the run itself.  A Gather
  takes them as NumPy holds them.
* Strings are object arrays.  libkvmill moves handles: indices into a table of the objects.
* Raw bits.  With dtype given, arrays of an unsigned integer of the same size are accepted too, for
  4-bit types uint8 with one element per byte.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .arrays import pack_nibbles, unpack_nibbles
    from .cache_attend import CacheAttend
    from .cache_attention import (
        KeyValueCache,
        MultiHeadAttention,
        MultiHeadCacheAttention,
        merge_partials,
    )
    from .errors import KvmillError, PortableKernelWarning
    from .flow import Flow, FlowStep
    from .gather import Gather
    from .onnx_attention import Attention, TensorScatterAttention
    from .plans import Call, Pack, default_pack, version
    from .pools import Pool
    from .scatter import Scatter
    from .tensor_scatter import TensorScatter

_NAMES = {
    "arrays": ("pack_nibbles", "unpack_nibbles"),
    "cache_attend": ("CacheAttend",),
    "cache_attention": (
        "KeyValueCache",
        "MultiHeadAttention",
        "MultiHeadCacheAttention",
        "merge_partials",
    ),
    "errors": ("KvmillError", "PortableKernelWarning"),
    "flow": ("Flow", "FlowStep"),
    "gather": ("Gather",),
    "onnx_attention": ("Attention", "TensorScatterAttention"),
    "plans": ("Call", "Pack", "default_pack", "version"),
    "pools": ("Pool",),
    "scatter": ("Scatter",),
    "tensor_scatter": ("TensorScatter",),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "Attention",
    "CacheAttend",
    "Call",
    "Flow",
    "FlowStep",
    "Gather",
    "KeyValueCache",
    "KvmillError",
    "MultiHeadAttention",
    "MultiHeadCacheAttention",
    "Pack",
    "Pool",
    "PortableKernelWarning",
    "Scatter",
    "TensorScatter",
    "TensorScatterAttention",
    "default_pack",
    "merge_partials",
    "pack_nibbles",
    "unpack_nibbles",
    "version",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
