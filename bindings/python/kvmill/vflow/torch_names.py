"""What stands in for torch where it is not installed: names for annotations.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from .errors import nearest, refuse
from .tensors import Tensor

_ITEM_SIZES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip
_OTHER_NAMES = {
    "double": "float64", "float": "float32", "half": "float16", "long": "int64", "int": "int32",
    "short": "int16", "fp8_e4m3": "float8_e4m3fn", "fp8_e5m2": "float8_e5m2",
}  # fmt: skip


class DType:
    """A dtype of torch, by name."""

    def __init__(self, name: str) -> None:
        self.name, self.itemsize = name, _ITEM_SIZES[name]

    def __repr__(self) -> str:
        return f"torch.{self.name}"


_DTYPES = {name: DType(name) for name in _ITEM_SIZES}


def dtype_of(given: Any) -> DType:
    """Return the dtype of a name, of torch's or vortex_torch's; or of a dtype of torch."""
    name = str(given).removeprefix("torch.")
    name = _OTHER_NAMES.get(name, name)
    if name not in _DTYPES:
        refuse(f"dtype {given!r} is not known; {nearest(name, _DTYPES)}accepted: {', '.join(_DTYPES)}")
    return _DTYPES[name]


class Placeholder:
    """A name of torch in an annotation.  It cannot be called."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __getattr__(self, name: str) -> Placeholder:
        if name.startswith("__"):
            raise AttributeError(name)
        return Placeholder(f"{self._name}.{name}")

    def __getitem__(self, item: object) -> Placeholder:
        return self

    def __or__(self, other: object) -> Placeholder:
        return self

    __ror__ = __or__

    def __call__(self, *args: object, **kwargs: object) -> Any:
        self._refuse("is called")

    def __mro_entries__(self, bases: object) -> Any:
        self._refuse("is a base class")

    def _refuse(self, what: str) -> Any:
        refuse(f"{self._name} {what}, and torch is not installed; accepted: names of torch in annotations")


class _Without:
    """torch.no_grad and the like: a context, and a decorator with and without parentheses."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) else self

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class TorchModule(ModuleType):
    """torch, or a module of it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        dtype = _DTYPES.get(_OTHER_NAMES.get(name, name))
        if name in ("Tensor", "FloatTensor", "BFloat16Tensor", "IntTensor", "LongTensor"):
            return Tensor
        if name in ("no_grad", "inference_mode", "enable_grad"):
            return _Without()
        return DType if name == "dtype" else dtype or Placeholder(f"{self.__name__}.{name}")
