"""kvmill in jitted JAX programs on CPUs: attention, cache stores and decode steps.

    from kvmill.jax import decode_step, dot_product_attention

    output = dot_product_attention(query, key, value, is_causal=True)   # as in jax.nn
    output, key_cache, value_cache = decode_step(query, key, value, key_cache, value_cache, length)

All functions may be jitted, called in jax.lax.scan, and mapped by jax.vmap; none can be
differentiated.  Kernels come from the default pack, from the pack passed to `use`, or from the
argument `pack`; `explain` lists them.  Plans are made when functions are traced, so that is when
the library refuses wrong arguments.  Large calls share XLA's threads.

Requires the package jax, and libkvmill_jax.so next to libkvmill.so.

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
