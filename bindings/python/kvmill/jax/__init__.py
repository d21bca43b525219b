"""kvmill in jitted JAX, on CPUs: attention, stores into caches and steps of decoding.

    from kvmill.jax import decode_step, dot_product_attention

    output = dot_product_attention(query, key, value, is_causal=True)   # as of jax.nn
    output, key_cache, value_cache = decode_step(query, key, value, key_cache, value_cache, length)

All may be jitted, carried through jax.lax.scan, and mapped by jax.vmap; none can be differentiated.
Kernels are those of the default pack, of `use (pack)`, or of an argument pack; `explain` says which.
Plans are made when functions are traced, and what the library refuses is refused then.  Large calls
share XLA's threads.

Needs the package jax, and libkvmill_jax.so next to libkvmill.so.

SPDX-License-Identifier: Apache-2.0
"""

from .attention import attend, dot_product_attention
from .calls import PORTABLE, call, explain, use
from .steps import cache_step, decode_step, store

__all__ = [
    "PORTABLE",
    "attend",
    "cache_step",
    "call",
    "decode_step",
    "dot_product_attention",
    "explain",
    "store",
    "use",
]
