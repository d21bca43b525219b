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

kvmill.transformers, kvmill.jax, kvmill.onnxruntime and kvmill.vflow are separate imports: attention
and caches for models of Hugging Face's transformers, functions for jitted JAX programs, the provider
for ONNX Runtime, and flows of vFlow classes.

Plan once, run many times: a plan is immutable, and any number of threads may run it at the same
time; the GIL is released while the library works.  With threads=N, up to N threads share each run,
depending on how much work it is; all plans with the same N share one pool.  threads=Pool(...) uses a
pool of your own.  Results never depend on threads.  kvmill.h defines what each op computes.

The library is the file that the environment variable KVMILL_LIBRARY names, or the one in the wheel,
or the one that the system's loader finds.  The library and NumPy are loaded when a name of this
package is first used; this raises OSError if there is no library.

Element types have their ONNX or NumPy names: bool, (u)int8 to (u)int64, float16, float32, float64,
bfloat16, complex64, complex128, the float8 types, int4, uint4, float4e2m1, string.  ml_dtypes is
needed only for arrays of its types.  Tensors of other libraries are accepted if NumPy can share
their memory.  Tensors of types that NumPy lacks, such as PyTorch's bfloat16, are passed by DLPack,
with ml_dtypes.  Three layouts are special:

* 4-bit types.  NumPy has one element per byte, libkvmill two.  Arrays are packed before a run and
  unpacked after it (pack_nibbles, unpack_nibbles); this costs more than the run itself.  Gather
  takes such arrays as they are.
* Strings are object arrays.  libkvmill moves handles, which are indices into a table of objects.
* Raw bits.  If you pass dtype, arrays of unsigned integers of the same size are also accepted; for
  4-bit types, uint8 with one element per byte.

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
