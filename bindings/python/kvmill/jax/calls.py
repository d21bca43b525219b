"""Calls of kvmill's ops through XLA's FFI.  They are planned when traced; libkvmill_jax runs them.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import jax
import numpy as np

from .. import c
from ..arrays import DType, dtype_named, make_tensor
from ..errors import check
from ..plans import Pack, Plan, default_pack, make_plan, plan_options
from .arguments import refuse

_TARGET = "kvmill"

Number = int | float | str | bool
Layout = tuple[tuple[int, ...], str]  # a shape, and the name of an element type

_used: Pack | None = None


class Portable:
    """Passed instead of a pack: use only portable kernels."""

    name = ""


PORTABLE = Portable()


@cache
def _library() -> ctypes.CDLL:
    """Load libkvmill_jax, which is installed next to libkvmill, and register its handler with
    XLA."""
    path = c.library_directory() / "libkvmill_jax.so"
    library = ctypes.CDLL(str(path))
    library.kvmill_jax_add.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    library.kvmill_jax_add.restype = ctypes.c_int
    handler = jax.ffi.pycapsule(library.kvmill_jax_call)
    jax.ffi.register_ffi_target(_TARGET, handler, platform="cpu")
    return library


# Packs that calls can refer to, with their names in C.  Both are kept until the process ends.
_packs: dict[str, Pack | Portable] = {PORTABLE.name: PORTABLE}
_names: list[ctypes.c_char_p] = []


@cache
def _add(pack: Pack) -> None:
    name = ctypes.c_char_p(pack.name.encode())
    _names.append(name)
    if not _library().kvmill_jax_add(name, ctypes.addressof(pack._head)):
        raise ValueError(
            f"pack {pack.name!r} cannot be added; accepted: at most 64 packs, each of another name"
        )
    _packs[pack.name] = pack


def use(pack: Pack | Portable) -> None:
    """Take kernels from this pack from now on, in calls without a `pack`.  PORTABLE: use portable
    code."""
    global _used
    if isinstance(pack, Pack):
        _add(pack)
    _used = pack


def _pack_of(pack: Pack | Portable | None) -> Pack | Portable:
    chosen = pack or _used or default_pack()
    if chosen is None:
        raise RuntimeError(
            f"no libkvmill_default.so in {c.library_directory()}; accepted: pack=kvmill.Pack(path), "
            "or kvmill.jax.use(pack); pack=kvmill.jax.PORTABLE computes without a pack, slowly"
        )
    _library()
    if isinstance(chosen, Pack):
        _add(chosen)
    elif not isinstance(chosen, Portable):
        raise TypeError(f"pack is {chosen!r}; accepted: a kvmill.Pack, kvmill.jax.PORTABLE, None")
    return chosen


# ---- Plans ----


@cache
def _place(op: str, tensor: str) -> c.NamedTensorPlace:
    place, error = c.NamedTensorPlace(), c.Error()
    status = c.library.kvmill_named_place(
        op.encode(), tensor.encode(), ctypes.byref(place), ctypes.byref(error)
    )
    check(status, error)
    return place


def _planned_dtype(op: str, name: str, dtype: str) -> DType:
    """Return the type for the plan.  int32 becomes int64 if the op requires that, because JAX
    disables int64 by default.  Types below 8 bits are refused, because XLA stores them differently."""
    planned = dtype_named("int64" if dtype == "int32" and _place(op, name).only_int64 else dtype)
    if planned.bits < 8:
        refuse(f"{name}.dtype", dtype, "types of 8 bits or more")
    return planned


def _attribute(name: str, value: Number) -> c.NamedAttribute:
    attribute = c.NamedAttribute(name=name.encode())
    if isinstance(value, str):
        attribute.word = value.encode()
    elif isinstance(value, float):
        attribute.real, attribute.is_real = value, 1
    else:
        attribute.integer = int(value)
    return attribute


class NamedPlan(Plan):
    """A plan made by an op's name, from attributes as (name, value) and prototypes as (name,
    layout)."""

    def __init__(
        self,
        op: str,
        pack: Pack | Portable,
        attributes: Sequence[tuple[str, Number]],
        tensors: Sequence[tuple[str, Layout]],
    ) -> None:
        given = (c.NamedAttribute * len(attributes))(*(_attribute(*a) for a in attributes))
        prototypes = [
            make_tensor(_planned_dtype(op, name, dtype), shape)
            for name, (shape, dtype) in tensors
        ]
        named = (c.NamedTensor * len(tensors))(
            *(
                c.NamedTensor(name.encode(), ctypes.pointer(prototype))
                for (name, _), prototype in zip(tensors, prototypes, strict=True)
            )
        )
        packs = [pack] if isinstance(pack, Pack) else []
        options = plan_options(packs, portable="allow" if packs else "only", isa=None, threads=1)
        self._handle = make_plan(
            self,
            "kvmill_plan_named",
            *(op.encode(), given, len(given), named, len(named)),
            options,
        )


# Plans of traced calls, by their attributes and layouts.
_plan = cache(NamedPlan)


class Seen(NamedTuple):
    """An array, or the jax.ShapeDtypeStruct of a result, with the shape in which an op sees it.
    Nothing is reshaped, because XLA might copy to do so."""

    array: Any
    shape: tuple[int, ...]


def _layout(array: Any) -> Layout:
    """Return the layout in which the op sees an array."""
    own = array.array if isinstance(array, Seen) else array
    return tuple(array.shape), np.dtype(own.dtype).name


def _word(name: str, array: Any) -> str:
    if not isinstance(array, Seen) or array.shape == array.array.shape:
        return name
    return f"{name}[{','.join(map(str, array.shape))}]"


def _words(operands: Mapping[str, Any], results: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of a call's tensors in order, as the handler reads them."""
    lists = {"operands": operands, "results": results}
    return {name: " ".join(map(_word, given, given.values())) for name, given in lists.items()}


def _unseen(arrays: Iterable[Any]) -> list[Any]:
    return [array.array if isinstance(array, Seen) else array for array in arrays]


def _ffi_attribute(value: Number) -> Any:
    """Return a 64-bit number, regardless of JAX's defaults."""
    if isinstance(value, str):
        return value
    return np.float64(value) if isinstance(value, float) else np.int64(value)


def _own(value: Any) -> Number:
    return value if isinstance(value, str) else value.item()


def call(
    op: str,
    operands: Mapping[str, Any],
    results: Mapping[str, jax.ShapeDtypeStruct | Seen],
    *,
    aliases: Mapping[str, str] | None = None,
    pack: Pack | Portable | None = None,
    **attributes: Number,
) -> dict[str, jax.Array]:
    """Call an op of kvmill-specs(5) by name.  Returns its results.

    operands: arrays by tensor name.  int32 is also accepted if the op requires int64.
    results: shapes and types by tensor name.  A tensor that the op updates in place (cache, scale) is
        in both.  Operands and results may be Seen(array, shape).
    aliases: further results that use the memory of an operand: {"present_cache": "past_cache"}.
    attributes: those of the op, with its defaults.  Element types are those of the tensors.

    The op is planned when the call is traced, which raises KvmillError if the library refuses the
    plan.  Lengths and indices are checked when the call runs; if they are refused, XLA reports
    INVALID_ARGUMENT, and nothing is written.  This function cannot be differentiated or mapped by
    jax.vmap; the other functions of this package can be mapped.
    """
    chosen = _pack_of(pack)
    tensors = tuple(
        (name, _layout(array)) for name, array in (dict(operands) | dict(results)).items()
    )
    _plan(op, chosen, tuple(sorted(attributes.items())), tensors)
    same = {name: name for name in results if name in operands} | dict(aliases or {})
    places = {name: i for i, name in enumerate(results)}
    numbers = {name: i for i, name in enumerate(operands)}
    run = jax.ffi.ffi_call(
        _TARGET,
        tuple(_unseen(results.values())),
        input_output_aliases={numbers[given]: places[name] for name, given in same.items()},
    )
    said = {"op": op, "pack": chosen.name, **_words(operands, results)}
    said |= {name: _ffi_attribute(value) for name, value in attributes.items()}
    return dict(zip(results, run(*_unseen(operands.values()), **said), strict=True))


# ---- What was planned ----


def _equations(jaxpr: Any) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                if hasattr(inner, "jaxpr"):
                    yield from _equations(inner.jaxpr)
                elif hasattr(inner, "eqns"):
                    yield from _equations(inner)


def _read_word(word: str, array: Any) -> tuple[str, Layout]:
    name, _, dims = word.rstrip("]").partition("[")
    if dims:
        array = Seen(array, tuple(map(int, dims.split(","))))
    return name, _layout(array)


def explain(function: Callable[..., Any], *arguments: Any, **named: Any) -> str:
    """Return a line for each kvmill call in a JAX function: what is planned, and which kernels run.

    The function is traced with the arguments (arrays or jax.ShapeDtypeStructs), but not run.
    """
    lines = []
    for equation in _equations(jax.make_jaxpr(function)(*arguments, **named).jaxpr):
        if equation.params.get("target_name") != _TARGET:
            continue
        said = dict(equation.params["attributes"])
        words = [*said.pop("operands").split(), *said.pop("results").split()]
        variables = (*equation.invars, *equation.outvars)
        tensors = dict(_read_word(w, v.aval) for w, v in zip(words, variables, strict=True))
        op, pack = said.pop("op"), _packs[said.pop("pack")]
        attributes = sorted((name, _own(value)) for name, value in said.items())
        lines.append(_plan(op, pack, tuple(attributes), tuple(tensors.items())).describe())
    return "\n".join(lines)
