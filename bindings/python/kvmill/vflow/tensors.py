"""The symbolic tensors on which the methods of a vFlow run.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .errors import nearest, refuse


_LARGEST_FLOAT = 3.4028234663852886e38


class Shape(NamedTuple):
    """A matrix for each page that is scored, or one for all pages of a row."""

    ragged: bool
    rows: int
    columns: int

    def __str__(self) -> str:
        return f"[{'S, ' if self.ragged else ''}{self.rows}, {self.columns}]"


class Value:
    """What an op reads or writes.  kind: "q", "page" (k and v), "field", "constant" or "result".
    label: its name, or for a result the name that it should have."""

    def __init__(self, kind: str, label: str, shape: Shape) -> None:
        self.kind, self.label, self.shape = kind, label, shape
        self.name = label


class RunTimeSize:
    """A number that is known only when the flow runs: of requests, or of pages."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __repr__(self) -> str:
        return self._what


class Tensor:
    """A tensor without numbers.  Ops take it; everything else that needs numbers is refused."""

    def __init__(
        self, value: Value, leading: str, mean: Callable[[Tensor, int], Tensor] | None = None
    ) -> None:
        self._value = value
        self._leading = leading
        self._mean = mean

    @property
    def shape(self) -> tuple[Any, int, int]:
        shape = self._value.shape
        return RunTimeSize(f"the number of {self._leading}"), shape.rows, shape.columns

    @property
    def ndim(self) -> int:
        return 3

    def dim(self) -> int:
        return 3

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def mean(self, dim: int, keepdim: bool = True) -> Tensor:
        """Return the mean over dim 1 or 2, which is kept: torch's method that vFlow programs use."""
        inner = {1: 1, 2: 2, -1: 2, -2: 1}.get(dim) if isinstance(dim, int) else None
        if inner is None:
            refuse(f"mean over dim {dim!r}; accepted: 1, 2, or the op Mean")
        if self._mean is None:
            refuse(f"mean of a tensor ({self!r}) in forward_cache; accepted: the op Mean of vortex_torch.cache")
        return self._mean(self, inner)

    def __repr__(self) -> str:
        return f"{self._value.label} {self._value.shape}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        refuse(
            f"{name} of a tensor ({self!r}) is not known; accepted: shape, mean(dim=1), and the ops of "
            "vortex_torch"
        )

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            refuse(f"{name} of a tensor ({self!r}) is set; accepted: the ops of vortex_torch")
        object.__setattr__(self, name, value)

    def __iter__(self) -> Any:
        refuse(f"a loop over a tensor ({self!r}), which has no numbers yet; accepted: ops, which run for all pages")

    def __bool__(self) -> bool:
        refuse(f"a branch on a tensor ({self!r}), which has no numbers yet; accepted: Where ops, Maximum, Relu")

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", str(function))
        refuse(f"torch's {name} of a tensor; accepted: the ops of vortex_torch")


def _refusing(of: str, words: str) -> Callable[..., Any]:
    def method(self: Any, *_: object, **__: object) -> Any:
        refuse(f"{of} {self!r}{words}")

    return method


_ARITHMETIC = {
    "+": ("add", "Add()"),
    "-": ("sub", "Add(alpha=1, beta=-1)"),
    "*": ("mul", "Multiply(), or Add_Mul(beta=...) for a number"),
    "/": ("truediv", "Add_Mul(beta=...) for a number"),
    "//": ("floordiv", "the ops of vortex_torch"),
    "%": ("mod", "the ops of vortex_torch"),
    "**": ("pow", "the ops of vortex_torch"),
    "@": ("matmul", "GeMM()"),
    "&": ("and", "the ops of vortex_torch"),
    "|": ("or", "the ops of vortex_torch"),
}
_COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


def _refuse_operators() -> None:
    for symbol, (name, instead) in _ARITHMETIC.items():
        method = _refusing(f"{symbol} of a tensor,", f"; accepted: {instead}")
        for form in (name, f"r{name}", f"i{name}"):
            setattr(Tensor, f"__{form}__", method)
    for symbol, name in _COMPARISONS.items():
        instead = "; accepted: the Where ops, which give 0 or -1e30"
        setattr(Tensor, f"__{name}__", _refusing(f"{symbol} of a tensor,", instead))
    for name in ("neg", "abs", "pos", "invert"):
        setattr(Tensor, f"__{name}__", _refusing(f"{name} of a tensor,", "; accepted: Add_Mul(beta=-1), Abs()"))
    for name in ("getitem", "setitem", "delitem"):
        setattr(Tensor, f"__{name}__", _refusing("an index into a tensor,", "; accepted: MaskSlice, Reshape"))
    for name in ("len", "int", "float", "index", "complex", "contains"):
        setattr(Tensor, f"__{name}__", _refusing("a number from a tensor,", "; accepted: ops"))
    setattr(Tensor, "__hash__", object.__hash__)


def _refuse_sizes() -> None:
    """A size that is not known cannot be computed with."""
    forms = [f"{way}{name}" for name, _ in _ARITHMETIC.values() for way in ("", "r")]
    words = ", which is known only when the flow runs; accepted: shape[1] and shape[2]"
    for name in (*forms, *_COMPARISONS.values(), *"neg int float index bool iter".split()):
        setattr(RunTimeSize, f"__{name}__", _refusing("a computation with", words))
    setattr(RunTimeSize, "__hash__", object.__hash__)


_refuse_operators()
_refuse_sizes()


class Fields(dict[str, Tensor]):
    """The tensors of a cache, by name."""

    def __missing__(self, name: object) -> Tensor:
        refuse(f'cache has no "{name}"; {nearest(str(name), self)}accepted: {", ".join(self)}')


def shape_of(words: str, given: Sequence[Any] | Any) -> tuple[int, int]:
    """Return (rows, columns) of a declaration.  words: what it is, in messages."""
    pair = tuple(given) if isinstance(given, (tuple, list)) else ()
    if len(pair) != 2 or not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in pair):
        refuse(f"{words} is {given!r}; accepted: (rows, columns), two positive integers")
    return pair[0], pair[1]


def number_of(words: str, given: Any) -> int | float:
    """Return a number as a flow file has it, whole numbers as integers."""
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        refuse(f"{words} is {given!r}; accepted: a number")
    if not abs(given) <= _LARGEST_FLOAT:
        refuse(f"{words} is {given!r}; accepted: a finite float32")
    return int(given) if float(given).is_integer() else float(given)
