"""The op objects of vortex_torch, as they record what they are called with.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any, ClassVar

from .contexts import Context
from .errors import calling_place, refuse
from .kinds import Kind, taps
from .programs import CACHE, INDEX, Given
from .tensors import Shape, Tensor, Value

# ---- Arguments ----


def _signature(parameters: Mapping[str, Any], keywords: Sequence[str] = ()) -> Signature:
    """Return a signature.  parameters: the defaults; Parameter.empty for none."""
    positional = [
        Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default)
        for name, default in parameters.items()
    ]
    return Signature([*positional, *(Parameter(name, Parameter.KEYWORD_ONLY) for name in keywords)])


def _bound(name: str, signature: Signature, args: Any, kwargs: Any) -> dict[str, Any]:
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        refuse(f"{name}: {error}; accepted: {name}{signature}")
    bound.apply_defaults()
    return dict(bound.arguments)


# ---- Op objects ----


class Op:
    """An op object of a flow.  There is one for each call, because those of vortex_torch own the
    memory of their results."""

    kind: ClassVar[Kind]
    part: ClassVar[str]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not hasattr(self, "kind"):
            refuse(f"{self} is an op that the file defines; accepted: ops of vortex_torch")
        self._label, self._called = "", ""
        given = _bound(str(self), _signature(self.kind.parameters), args, kwargs)
        for name, value in given.items():
            setattr(self, name, value)
        self.kind.keys(self)

    def __str__(self) -> str:
        return type(self).__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    @property
    def _name(self) -> str:
        return self._label or str(self).lower()

    def _start(self, signature: Signature, args: Any, kwargs: Any) -> dict[str, Any]:
        """Check the arguments of a call."""
        context = kwargs.get("ctx")
        own = {CACHE: "forward_cache", INDEX: "forward_indexer"}
        if isinstance(context, Context) and context._program.part != self.part:
            refuse(f"{self} of {own[self.part]} is called in {own[context._program.part]}; accepted: its ops")
        for word in ("ctx", "loc"):
            if word in signature.parameters and word not in kwargs:
                refuse(f"{self} is called without {word}; accepted: {self}{signature}")
        given = _bound(str(self), signature, args, kwargs)
        if not isinstance(context, Context):
            refuse(f"ctx of {self} is {context!r}; accepted: the ctx of {own[self.part]}")
        if self._called:
            refuse(f"{self} is called a second time, after {self._called}; accepted: an object for each call")
        self._called = calling_place()
        return given

    def _tensors(self, given: Mapping[str, Any]) -> list[Tensor]:
        tensors = [given[name] for name in self.kind.inputs]
        for name, tensor in zip(self.kind.inputs, tensors):
            if not isinstance(tensor, Tensor):
                refuse(f"{name} of {self} is {tensor!r}; accepted: a tensor")
            if tensor._value.kind in ("o", "loc"):
                refuse(f"{name} of {self} is {tensor._value.label}; accepted: q, a tensor of cache, or a result")
        return tensors

    def _shape(self, tensors: Sequence[Tensor]) -> Shape:
        return self.kind.rule(self, [tensor._value.shape for tensor in tensors])


# ---- Ops of forward_indexer ----


class IndexOp(Op):
    part = INDEX

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        signature = _signature(dict.fromkeys(self.kind.inputs, Parameter.empty), ["ctx"])
        given = self._start(signature, args, kwargs)
        tensors = self._tensors(given)
        return self._result(given["ctx"], tensors, self._shape(tensors))

    def _result(self, ctx: Context, tensors: list[Tensor], shape: Shape) -> Tensor:
        program = ctx._program
        return program.tensor(program.record(self.kind.op, tensors, shape, self._name, self.kind.keys(self)))


class InPlaceOp(IndexOp):
    """An op that changes its input."""

    def _result(self, ctx: Context, tensors: list[Tensor], shape: Shape) -> Tensor:
        tensor = tensors[0]
        if tensor._value.kind != "result":
            refuse(f"{self} of {tensor._value.label}, which it would change; accepted: the result of an op")
        tensor._value = super()._result(ctx, tensors, shape)._value
        return tensor


class ConvolutionOp(IndexOp):
    def _result(self, ctx: Context, tensors: list[Tensor], shape: Shape) -> Tensor:
        weight = taps(self)
        size = (len(weight[0]), len(weight[0][0]))
        numbers = [number for tap in weight for row in tap for number in row]
        if size != (shape.rows, shape.columns):
            refuse(f"{self} of {shape} with weights of {size}; accepted: as many rows and columns")
        weights = Given(f"{self._name}_weights", size, numbers, len(weight))
        return super()._result(ctx, [*tensors, weights], shape)


class LoadOp(IndexOp):
    def _result(self, ctx: Context, tensors: list[Tensor], shape: Shape) -> Tensor:
        if tensors[0]._value.kind != "field":
            refuse(f"{self} of {tensors[0]._value.label}; accepted: a field of create_cache")
        return super()._result(ctx, tensors, shape)


class SaveOp(IndexOp):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        signature = _signature({"x": Parameter.empty, "o": Parameter.empty}, ["ctx"])
        given = self._start(signature, args, kwargs)
        tensors, target = self._tensors(given), given["o"]
        if not isinstance(target, Tensor) or target._value.kind != "field":
            refuse(f"o of {self} is {target!r}; accepted: a field of create_cache")
        _check_fits(self, self._shape(tensors), target._value)
        given["ctx"]._program.write(self.kind.op, tensors, target._value, {})
        return target


class SelectOp(IndexOp):
    """An op that writes the list of pages."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        signature = _signature(dict.fromkeys((*self.kind.inputs, "o"), Parameter.empty), ["ctx"])
        given = self._start(signature, args, kwargs)
        tensors, target, program = self._tensors(given), given["o"], given["ctx"]._program
        self._shape(tensors)
        if not isinstance(target, Tensor) or target._value.kind != "o":
            refuse(f"o of {self} is {target!r}; accepted: the o of forward_indexer")
        if any(step.target is None for step in program.steps):
            refuse(f"{self} writes o a second time; accepted: one op that selects")
        keys = self.kind.keys(self)
        is_loose = keys.get("tolerance") == 1  # a flow file accepts less, and selection is exact anyway
        program.write("topK" if is_loose else self.kind.op, tensors, None, {} if is_loose else keys)


def _check_fits(op: Op, shape: Shape, target: Value) -> None:
    if shape[1:] != target.shape[1:]:
        name, fits = target.label, target.shape
        refuse(f'{op} gives {shape}, "{name}" is {fits}; accepted: as many rows and columns')


# ---- Ops of forward_cache ----


class CacheOp(Op):
    """An op that writes a field, or gives a tensor if its output is None."""

    part = CACHE

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        signature = _signature(dict.fromkeys((*self.kind.inputs, "output"), Parameter.empty), ["loc", "ctx"])
        given = self._start(signature, args, kwargs)
        tensors, output, program = self._tensors(given), given["output"], given["ctx"]._program
        shape, keys = self._shape(tensors), self.kind.keys(self)
        if output is None:
            return program.tensor(program.record(self.kind.op, tensors, shape, self._name, keys))
        if not isinstance(output, Tensor) or output._value.kind not in ("field", "page", "result"):
            refuse(f"output of {self} is {output!r}; accepted: a tensor of cache, or None")
        _check_fits(self, shape, output._value)
        if output._value.kind == "result":
            output._value = program.record(self.kind.op, tensors, shape, self._name, keys)
        else:
            program.write(self.kind.op, tensors, output._value, keys)
        return output


class FillOp(Op):
    part = CACHE

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = self._start(_signature({"x": Parameter.empty}, ["loc", "ctx"]), args, kwargs)
        target = given["x"]
        if not isinstance(target, Tensor) or target._value.kind not in ("field", "page"):
            refuse(f"x of {self} is {target!r}; accepted: a tensor of cache")
        given["ctx"]._program.write(self.kind.op, [], target._value, self.kind.keys(self))
        return target


class AbsentOp(Op):
    """An op that kvmill cannot express; `accepted` says what it can."""

    accepted: ClassVar[str]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        refuse(f"{self} of vortex_torch cannot be expressed in a flow; accepted: {self.accepted}")
