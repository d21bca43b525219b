"""Checks of arguments.  Error messages give the argument, its value, and what is accepted.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from operator import index
from typing import Any, NoReturn

import jax
import jax.numpy as jnp

FLOATS = ("float32", "float16", "bfloat16")
INTEGERS = ("int32", "int64")


def refuse(name: str, value: object, accepted: str) -> NoReturn:
    raise ValueError(f"{name} is {value}; accepted: {accepted}")


def array_of(
    name: str, given: Any, shape: Sequence[int | str], types: Sequence[str] = FLOATS
) -> jax.Array:
    """Return `given` as an array of this shape, in which a letter stands for any size."""
    array = jnp.asarray(given)
    if array.dtype.name not in types:
        refuse(f"{name}.dtype", array.dtype.name, ", ".join(types))
    fits = len(shape) == array.ndim and all(
        isinstance(dim, str) or dim == own for dim, own in zip(shape, array.shape, strict=True)
    )
    if not fits:
        refuse(f"{name}.shape", array.shape, f"({', '.join(map(str, shape))})")
    return array


def heads_of(query: jax.Array, kv_heads: int) -> int:
    """Return the number of query heads, which must be a multiple of kv_heads."""
    heads = query.shape[-2]
    if kv_heads == 0 or heads % kv_heads != 0:
        refuse("query.shape", query.shape, f"a multiple of {kv_heads} heads, as key has")
    return heads


def group_of(name: str, scales: jax.Array, dim: int) -> int:
    """Numbers of a head that share a scale."""
    groups = scales.shape[-1]
    if groups == 0 or dim % groups != 0:
        refuse(f"{name}.shape", scales.shape, f"as its last dim a divisor of {dim}, the head size")
    return dim // groups


def lengths_of(name: str, given: Any, batch: int) -> jax.Array:
    """Return the lengths of a batch.  A single number is used for the whole batch."""
    array = jnp.asarray(given)
    if array.dtype.name not in INTEGERS:
        refuse(f"{name}.dtype", array.dtype.name, ", ".join(INTEGERS))
    if array.shape not in ((), (batch,)):
        refuse(f"{name}.shape", array.shape, f"(), ({batch},)")
    return jnp.broadcast_to(array, (batch,))


_FARTHEST = 2**62  # a window that is wider than any cache


def windows_of(given: int | tuple[int, int] | None) -> tuple[int, int]:
    """Return how many positions to the left and to the right are seen; -1: all."""
    if given is None:
        return -1, -1
    sides = given if isinstance(given, tuple | list) else (given, given)
    try:
        left, right = (min(index(side), _FARTHEST) for side in sides)
    except (TypeError, ValueError):
        left = right = -1
    if left < 0 or right < 0:
        accepted = "None, a whole number of positions, or two: 0 or more"
        refuse("local_window_size", given, accepted)
    return left, right


def scale_of(given: Any) -> float:
    """Return the scale; 0 means the library's default, 1 / sqrt (head size).  Numbers of NumPy and
    JAX are accepted."""
    if given is None:
        return 0.0
    try:
        scale = 0.0 if isinstance(given, str) else float(given)
    except (TypeError, ValueError):
        scale = 0.0
    if not 0 < scale < inf:
        refuse("scale", given, "None, a finite number above 0 that is known when it is traced")
    return scale
