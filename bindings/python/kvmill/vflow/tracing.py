"""Runs the methods of a class on symbolic tensors.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .contexts import Context
from .errors import attempt, definition_place, refuse
from .op_table import CACHE_SIDE, INDEXER
from .ops import Op
from .programs import CACHE, INDEX, Field, Given, Program
from .settings import LATENT_ATTENTION, Settings, settings_of
from .stand_ins import stand_ins
from .tensors import Shape, Tensor, Value

_METHODS = ("create_cache", "forward_cache", "forward_indexer")


class Trace:
    """A flow as a flow file has it.  places: "file:line" of the op, by its JSON path."""

    def __init__(self, spec: dict[str, Any], places: dict[str, str]) -> None:
        self.spec, self.places = spec, places

    @property
    def text(self) -> str:
        """The text of a flow file, with a line for each field and op."""
        members = ",\n".join(f"  {json.dumps(key)}: {_member(value)}" for key, value in self.spec.items())
        return f"{{\n{members}\n}}\n"

    def place_of(self, path: str) -> str | None:
        """Return the place of a JSON path, or of what contains it."""
        while path and path not in self.places:
            path = path.rpartition("/")[0]
        return self.places.get(path)


def _member(value: Any) -> str:
    if not (isinstance(value, list) and all(isinstance(item, dict) for item in value)):
        return json.dumps(value)
    items = ",\n".join(f"    {json.dumps(item)}" for item in value)
    return f"[\n{items}\n  ]"


def is_flow(cls: object) -> bool:
    return isinstance(cls, type) and all(callable(getattr(cls, name, None)) for name in _METHODS)


def _class_place(cls: type) -> str:
    for function in vars(cls).values():
        if hasattr(function, "__code__"):
            return definition_place(function)
    return cls.__qualname__


def _check_class(cls: type) -> None:
    for name in _METHODS:
        method = getattr(cls, name, None)
        if not callable(method) or getattr(method, "__isabstractmethod__", False):
            refuse(f"{cls.__name__} has no {name}; accepted: a class with {', '.join(_METHODS)}", _class_place(cls))


def _files_of(cls: type) -> set[str]:
    places = [definition_place(getattr(cls, name)) for name in _METHODS]
    return {place.rpartition(":")[0] for place in places}


# ---- The objects of a flow ----


def _parts(holder: Any, label: str) -> Iterator[tuple[str, Any]]:
    """Return what the attributes of an object hold, also in lists and dicts, with labels."""
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(holder, dict):
        items = holder.items()
    elif isinstance(holder, (list, tuple)):
        items = enumerate(holder)
    yield label, holder
    for key, item in items:
        yield from _parts(item, f"{label}_{key}" if label else str(key))


def _label_all(flow: object) -> None:
    for label, part in _parts(vars(flow), ""):
        if isinstance(part, Op) and not part._label:
            part._label = label
        if isinstance(part, Given) and not part._value.label:
            part._value.label = label


def _own_op(op: object) -> Op | None:
    """Return our op object for one of an installed vortex_torch, or None for another object."""
    root, _, rest = type(op).__module__.partition(".")
    known = {"indexer": INDEXER, "cache": CACHE_SIDE}.get(rest.partition(".")[0], {})
    cls = known.get(type(op).__name__)
    if root != "vortex_torch" or cls is None or isinstance(op, Op):
        return None
    names = cls.kind.parameters
    return cls(**{name: getattr(op, name, default) for name, default in names.items() if hasattr(op, name)})


def _with_own_ops(holder: Any) -> Any:
    if isinstance(holder, dict):
        return {key: _with_own_ops(item) for key, item in holder.items()}
    if type(holder) in (list, tuple):
        return type(holder)(_with_own_ops(item) for item in holder)
    return _own_op(holder) or holder


def _made(flow: Any) -> object:
    """Return an instance of a class, with op objects of this package."""
    made = flow
    if isinstance(flow, type):
        made = attempt(flow.__name__, _class_place(flow), flow, _files_of(flow))
    vars(made).update(_with_own_ops(dict(vars(made))))
    _label_all(made)
    return made


# ---- Fields ----


def is_latent(cls: type) -> bool:
    """Whether a class is for latent attention: create_cache gets the two parts of a row."""
    sizes = inspect.signature(getattr(cls, "create_cache")).parameters
    return len(sizes) == 4


def _sizes_of(flow: Any, settings: Settings) -> tuple[int, ...]:
    """Return the arguments of create_cache."""
    dim, value_dim = settings.size("head_dim"), settings.value_dim
    if not is_latent(type(flow)):
        return settings.block, dim
    if value_dim > dim:
        words = "accepted: latent attention, where V is the beginning of K's rows"
        refuse(f"{type(flow).__name__} is for rows of {value_dim} and more, head_dim is {dim}; {words}", settings.place)
    return settings.block, value_dim, dim - value_dim


def _check_field(name: object, shape: object, place: str) -> None:
    if not isinstance(name, str):
        refuse(f"create_cache has a field {name!r}; accepted: names", place)
    if name in ("k", "v", "q", "latent"):
        refuse(f'create_cache declares "{name}", which every flow has; accepted: other names', place)
    pair = tuple(shape) if isinstance(shape, (tuple, list)) else ()
    if len(pair) != 2 or not all(type(n) is int and n > 0 for n in pair):
        refuse(f'create_cache gives "{name}" {shape!r}; accepted: (rows, columns), two positive integers', place)


def _fields_of(flow: Any, settings: Settings, files: Iterable[str]) -> dict[str, tuple[int, int]]:
    sizes = _sizes_of(flow, settings)
    place = definition_place(type(flow).create_cache)
    fields = attempt("create_cache", place, lambda: flow.create_cache(*sizes), files)
    if not isinstance(fields, Mapping):
        refuse(f"create_cache returns {fields!r}; accepted: a dict of names to (rows, columns)", place)
    for name, shape in fields.items():
        _check_field(name, shape, place)
    return dict(fields)


def _field_spec(name: str, shape: tuple[int, int]) -> dict[str, Any]:
    options = shape.options if isinstance(shape, Field) else {}
    return {"name": name, "shape": list(shape), **options}


# ---- Programs ----


def _program(part: str, fields: Mapping[str, tuple[int, int]], settings: Settings, latent: bool) -> Program:
    ragged = part == INDEX
    values = {name: Value("field", name, Shape(ragged, *shape)) for name, shape in fields.items()}
    key = Value("page", "k", Shape(ragged, settings.block, settings.size("head_dim")))
    value = Value("page", "v", Shape(ragged, settings.block, settings.value_dim))
    return Program(part, values | ({"latent": key} if latent else {"k": key, "v": value}))


def _known(settings: Settings) -> dict[str, Any]:
    """Return what ctx knows before the flow runs, under the names of both generations."""
    bos, eos = settings.page_reserved_bos, settings.page_reserved_eos
    return {
        "page_size": settings.block,
        "block_size": settings.block,
        "head_dim": settings.size("head_dim"),
        "num_qo_heads": settings.size("num_heads"),
        "num_kv_heads": settings.size("num_kv_heads"),
        "group_size": settings.group,
        "topk_val": settings.topk_val,
        "topk_ratio": settings.topk_ratio,
        "page_reserved_bos": bos,
        "page_reserved_eos": eos,
        "block_reserved_bos": bos,
        "block_reserved_eos": eos,
    }


def _run_cache(flow: Any, program: Program, settings: Settings, files: Iterable[str]) -> None:
    loc = Tensor(Value("loc", "loc", Shape(False, 1, 1)), "tokens")
    ctx = Context(program, _known(settings))
    place = definition_place(type(flow).forward_cache)
    attempt("forward_cache", place, lambda: flow.forward_cache(program.cache(), loc, ctx), files)


def _run_indexer(flow: Any, program: Program, settings: Settings, files: Iterable[str]) -> None:
    q = program.tensor(Value("q", "q", Shape(False, settings.group, settings.size("head_dim"))))
    o = Tensor(Value("o", "o", Shape(True, 1, 1)), "selected pages")
    ctx = Context(program, _known(settings))
    place = definition_place(type(flow).forward_indexer)
    attempt("forward_indexer", place, lambda: flow.forward_indexer(q, o, program.cache(), ctx), files)
    if any(step.target is None for step in program.steps):
        return
    if settings.may_score():
        refuse("forward_indexer never writes o; accepted: one topK, approxTopK or Union of a score and o", place)


def _list_of(program: Program, places: dict[str, str]) -> list[dict[str, Any]]:
    places |= {f"/{program.part}/{i}": step.place for i, step in enumerate(program.steps)}
    return [step.spec() for step in program.steps]


def _spec(
    flow: Any, fields: dict[str, tuple[int, int]], programs: tuple[Program, Program], settings: Settings
) -> Trace:
    """Write what the methods did."""
    places = {"": definition_place(type(flow).forward_indexer)}
    places["/fields"] = definition_place(type(flow).create_cache)
    for program in programs:
        program.drop_unused()
        program.name_all(fields)
    lists = {
        "fields": [_field_spec(name, shape) for name, shape in fields.items()],
        "cache": _list_of(programs[0], places),
        "constants": [constant._spec() for constant in programs[1].constants],
        "index": _list_of(programs[1], places),
    }
    spec = {"op": "flow", "attention": settings.attention_spec(), **settings.other_specs()}
    spec |= {name: items for name, items in lists.items() if items}
    return Trace({**spec, "select": settings.select_spec()}, places)


def _own_settings(cls: type) -> dict[str, Any]:
    own = getattr(cls, "kvmill", {})
    if not isinstance(own, Mapping):
        refuse(f"{cls.__name__}.kvmill is {own!r}; accepted: a dict of arguments of load", _class_place(cls))
    return dict(own)


def trace(flow: Any, *given: Mapping[str, Any]) -> Trace:
    """Run the methods of a class, or of an instance, once.  given: settings, later ones over earlier
    ones, and all of them over those of the class."""
    cls = flow if isinstance(flow, type) else type(flow)
    _check_class(cls)
    files = _files_of(cls)
    latent = is_latent(cls)
    usual = LATENT_ATTENTION if latent else {}
    settings = settings_of(_class_place(cls), usual, _own_settings(cls), *given)
    with stand_ins():
        made = _made(flow)
        fields = _fields_of(made, settings, files)
        programs = _program(CACHE, fields, settings, latent), _program(INDEX, fields, settings, latent)
        _run_cache(made, programs[0], settings, files)
        _run_indexer(made, programs[1], settings, files)
    return _spec(made, fields, programs, settings)
