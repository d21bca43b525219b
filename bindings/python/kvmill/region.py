"""A scatter's region, from StableHLO text.

The forms are those that MLIR prints of scalar ops; whether types go together is the library's to
say.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from ctypes import c_int32
from typing import NoReturn

import numpy as np

from . import c
from .arrays import DTYPES, DType

_WORDS = {
    "i1": "bool",
    "bf16": "bfloat16",
    "f8E4M3FN": "float8e4m3fn",
    "f8E4M3FNUZ": "float8e4m3fnuz",
    "f8E5M2": "float8e5m2",
    "f8E5M2FNUZ": "float8e5m2fnuz",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}

_COMPARISON = ("comparison_direction", "compare_type")

_TOKEN = re.compile(
    r"""\s+|//[^\n]*|(
    tensor<(?:[^<>]|<[^<>]*>)*> | \#stablehlo<[^<>]*> | "[^"]*" | [%^][\w.$-]+ |
    0x[0-9A-Fa-f]+ | -?\d+(?:\.\d*)?(?:[eE][+-]?\d+)? | [A-Za-z_][\w.$]* | -> | [(){}<>:,=])""",
    re.VERBOSE,
)


def numpy_type(dtype: DType) -> np.dtype:
    """What NumPy calls the type, or ml_dtypes, which must be there for its own."""
    if hasattr(np, dtype.name) or dtype.name == "bool":
        return np.dtype(dtype.name)
    import ml_dtypes

    names = {re.sub("_", "", name): name for name in dir(ml_dtypes)}
    return np.dtype(getattr(ml_dtypes, names[dtype.name]))


def _float_bits(word: str, dtype: DType) -> int:
    if word.startswith("0x"):
        return int(word, 16)
    with np.errstate(over="ignore"):
        value = np.array(float(word)).astype(numpy_type(dtype))
    return int.from_bytes(value.tobytes(), "little")


class Region:
    """The region as the library takes it, and the types of what it returns."""

    def __init__(self, text: str, captures: Sequence[DType]) -> None:
        self._text, self._at, self._captures = text, 0, captures
        self._values: dict[str, int] = {}
        self._types: list[DType] = []
        self._ops: list[c.RegionOp] = []
        self._read()
        arguments = map(_element, self._types[: self.argument_count])
        self.struct = c.Region(
            arguments=(c.ElementType * self.argument_count)(*arguments),
            ops=(c.RegionOp * len(self._ops))(*self._ops),
            op_count=len(self._ops),
            results=(c_int32 * len(self._returned))(*self._returned),
            capture_count=len(captures),
        )
        self.results = [self._types[value] for value in self._returned]
        self.used = [f"%capture{i}" in self._values for i in range(len(captures))]

    # ---- Words ----

    def _refuse(self, accepted: str) -> NoReturn:
        line = self._text.count("\n", 0, self._at) + 1
        column = self._at - self._text.rfind("\n", 0, self._at)
        found = self._text[self._at :].split("\n")[0][:30]
        raise ValueError(f"region:{line}:{column}: found {found!r}; accepted: {accepted}")

    def _peek(self) -> str:
        """The next word; "" at the end."""
        while self._at < len(self._text):
            match = _TOKEN.match(self._text, self._at)
            if match is None:
                self._refuse("StableHLO text")
            if match[1]:
                return match[1]
            self._at = match.end()
        return ""

    def _take(self, pattern: str, accepted: str) -> str:
        word = self._peek()
        if not re.fullmatch(pattern, word):
            self._refuse(accepted)
        self._at += len(word)
        return word

    def _accept(self, word: str) -> bool:
        found = self._peek() == word
        self._at += len(word) if found else 0
        return found

    def _expect(self, word: str) -> None:
        self._take(re.escape(word), word)

    def _list(self, item: Callable[[], object], close: str = ")") -> list:
        """Items by commas up to `close`, which is taken."""
        items = []
        while not self._accept(close):
            if items:
                self._expect(",")
            items.append(item())
        return items

    # ---- Types and values ----

    def _type(self) -> DType:
        self._peek()
        before = self._at
        word = self._take("tensor<.*>", "tensor<f32>")
        name = _WORDS.get(word[7:-1].strip())
        if name is None:
            self._at = before
            self._refuse("scalars, as tensor<f32>, of " + ", ".join(_WORDS))
        return DTYPES[name]

    def _capture(self, name: str) -> int | None:
        """The number of the capture of that name, if it is one."""
        match = re.fullmatch(r"%capture(\d+)", name)
        return int(match[1]) if match and int(match[1]) < len(self._captures) else None

    def _add(self, name: str, dtype: DType, op: c.RegionOp | None) -> None:
        is_capture = op is not None and op.name == b"capture"
        if name in self._values or (not is_capture and self._capture(name) is not None):
            self._refuse(f"each name once, and {name} is there")
        self._values[name] = len(self._types)
        self._types.append(dtype)
        if op is not None:
            self._ops.append(op)

    def _argument(self) -> None:
        name = self._take("%.*", "%x: tensor<f32>")
        self._expect(":")
        self._add(name, self._type(), None)

    def _use(self) -> int:
        self._peek()
        before = self._at
        name = self._take("%.*", "a value")
        number = self._capture(name)
        if name not in self._values and number is not None:
            dtype = self._captures[number]
            op = c.RegionOp(name=b"capture", element=_element(dtype), value=(number, 0))
            self._add(name, dtype, op)
        if name not in self._values:
            self._at = before
            self._refuse("values defined before their use, %capture0 and so on of captures")
        return self._values[name]

    # ---- Ops ----

    def _literal(self) -> tuple[tuple[int, int], DType]:
        """After dense: <..> : type"""
        self._expect("<")
        parts = [self._word()] if not self._accept("(") else self._list(self._word)
        self._expect(">")
        self._expect(":")
        before, dtype = self._at, self._type()
        try:
            return _bits(parts, dtype), dtype
        except (ValueError, OverflowError):
            self._at = before
            self._refuse(f"a type that {', '.join(parts)} fits")

    def _word(self) -> str:
        return self._take(r"[-\w.+]+", "a number, true or false")

    def _attribute(self, attributes: dict) -> None:
        key = self._take(r"[A-Za-z_]\w*", "name = value")
        self._expect("=")
        if self._accept("dense"):
            attributes["value"] = self._literal()[0]
        else:
            attributes[key] = self._take(r"#stablehlo<.*>|\w+", "a word").strip(">").split()[-1]

    def _signature(self) -> DType | None:
        """: T | : P, T | : (T, ..) -> T; the last type is the result's."""
        self._expect(":")
        if not self._accept("("):
            types = [self._type()]
            while self._accept(","):
                types.append(self._type())
            return types[-1]
        self._list(self._type)
        self._expect("->")
        if self._accept("("):
            types = self._list(self._type)
            return types[-1] if types else None
        return self._type()

    def _generic(self, attributes: dict) -> tuple[list[int], DType | None]:
        self._expect("(")
        operands = self._list(self._use)
        if self._accept("<"):
            self._expect("{")
            self._list(lambda: self._attribute(attributes), "}")
            self._expect(">")
        if self._accept("{"):
            self._list(lambda: self._attribute(attributes), "}")
        return operands, self._signature()

    def _pretty(self, attributes: dict) -> tuple[list[int], DType | None]:
        operands: list[int] = []
        words = []
        if self._accept("dense"):
            attributes["value"], dtype = self._literal()
            return operands, dtype
        while self._peek() != ":":
            if operands or words:
                self._expect(",")
            if self._peek().startswith("%"):
                operands.append(self._use())
            else:
                words.append(self._take(r"[A-Z]+", "a value, or a word as LT"))
        attributes.update(zip(_COMPARISON, words, strict=False))
        return operands, self._signature()

    def _op(self) -> bool:
        """One op; whether it was the last, which returns."""
        result = self._take("%.*", "") if self._peek().startswith("%") else ""
        if result:
            self._expect("=")
        attributes: dict = {}
        word = self._take(r'"?stablehlo\.\w+"?', "ops of stablehlo, the last stablehlo.return")
        name = word.strip('"').removeprefix("stablehlo.")
        operands, dtype = (self._generic if word[0] == '"' else self._pretty)(attributes)
        if name == "return":
            self._returned = operands
            return True
        if not result or dtype is None or len(operands) > 3:
            self._refuse("ops of at most three operands and one result, with a name")
        words = {key: attributes[key].encode() for key in _COMPARISON if key in attributes}
        padded = (*operands, 0, 0, 0)[:3]
        value = attributes.get("value", (0, 0))
        element = _element(dtype)
        op = c.RegionOp(
            name=name.encode(), element=element, operands=padded, value=value, **words
        )
        self._add(result, dtype, op)
        return False

    def _read(self) -> None:
        self._take(r"\^.*", "^bb0(%a: tensor<f32>, %b: tensor<f32>): ...")
        self._expect("(")
        self._list(self._argument)
        self.argument_count = len(self._types)
        self._expect(":")
        while not self._op():
            pass
        if self._peek():
            self._refuse("nothing after stablehlo.return")


def _element(dtype: DType) -> c.ElementType:
    return c.ElementType(dtype=c.DLDataType(dtype.code, dtype.bits, 1))


def _bits(parts: list[str], dtype: DType) -> tuple[int, int]:
    """The words of a constant."""
    if dtype.name.startswith("complex"):
        half = DTYPES[f"float{dtype.bits // 2}"]
        real, imaginary = (_float_bits(part, half) for part in parts)
        return (real, imaginary) if dtype.bits == 128 else (real | imaginary << 32, 0)
    (word,) = parts
    if dtype.name == "bool":
        return ["false", "true"].index(word), 0
    if "int" in dtype.name:
        value = np.array(int(word, 0), numpy_type(dtype))
        return int.from_bytes(value.tobytes(), "little"), 0
    return _float_bits(word, dtype), 0
