"""The op classes of vortex_torch.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import Parameter

from .kinds import (
    Kind,
    conv_keys,
    dim_of,
    elementwise,
    group_keys,
    grouped,
    kron,
    kron_keys,
    masked,
    normalize_keys,
    numbers,
    over_pages,
    product,
    reduced,
    reshape_keys,
    reshaped,
    same,
    scored,
    second_keys,
    slice_keys,
    softmax_keys,
    tolerance_keys,
    transposed,
)
from .ops import AbsentOp, CacheOp, ConvolutionOp, FillOp, IndexOp, InPlaceOp, LoadOp, Op, SaveOp, SelectOp
from .programs import INDEX

_X, _XY = ("x",), ("x", "y")
_BLEND = {"alpha": 1.0, "beta": 1.0}


def _kinds_of_both() -> dict[str, Kind]:
    """Return the ops that both methods have."""
    kinds = {name: Kind(name, _XY, elementwise, _BLEND) for name in ("Maximum", "Minimum", "Multiply")}
    kinds["Add"] = Kind("Add", _XY, elementwise, _BLEND, numbers(alpha=1, beta=1))
    for word in ("Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual"):
        kinds[f"Where{word}"] = Kind(f"Where{word}", _XY, elementwise)
    zeros, line = {"alpha": 0.0, "beta": 0.0}, {"alpha": 0.0, "beta": 1.0}
    kinds["Relu"] = Kind("Relu", _X, same, zeros, numbers(alpha=0, beta=0))
    for name in ("Sigmoid", "Silu"):
        kinds[name] = Kind(name, _X, same, zeros, numbers(alpha=0, beta=None))
    for name in ("Add_Mul", "Abs", "Log", "Exp"):
        kinds[name] = Kind(name, _X, same, line, numbers(alpha=0, beta=1))
    need = Parameter.empty
    mask = {"start": need, "end": need, "dim": need, "alpha": 1.0, "beta": 0.0}
    kinds["MaskSlice"] = Kind("MaskSlice", _X, masked, mask, slice_keys)
    kinds["Reshape"] = Kind("Reshape", _X, reshaped, {"batch_dim": need, "x2": need, "y2": need}, reshape_keys)
    kinds["GeMM"] = Kind("GeMM", _XY, product)
    return kinds


def _reductions(names: Sequence[str], *dims: int) -> dict[str, Kind]:
    return {name: Kind(name, _X, reduced, {"dim": 1}, dim_of(*dims)) for name in names}


def _interleaves() -> dict[str, Kind]:
    names = [f"{word}Interleave" for word in ("Mean", "Max", "Min", "L2Norm")]
    return {name: Kind(name, _X, grouped, {"dim": 1, "k": 2}, group_keys) for name in names}


_OVER_PAGES = {"dim": 0}
_INDEX_KINDS: dict[str, tuple[type[Op], Kind]] = {
    "GeMV": (IndexOp, Kind("GeMM", _XY, product)),
    "Transpose": (IndexOp, Kind("Transpose", _X, transposed)),
    "Kron": (IndexOp, Kind("Kron", _XY, kron, {"dim": (1, 2)}, kron_keys)),
    "Softmax": (InPlaceOp, Kind("Softmax", _X, over_pages, {"dim": 0, "scale": 1.0}, softmax_keys)),
    "Normalize": (InPlaceOp, Kind("Normalize", _X, over_pages, _OVER_PAGES, normalize_keys)),
    "Conv1d": (
        ConvolutionOp,
        Kind("Conv1d", _X, over_pages, {"weight": Parameter.empty, "dim": 0, "dtype": None, "device": None}, conv_keys),
    ),
    "Load": (LoadOp, Kind("Load", _X, same)),
    "Save": (SaveOp, Kind("Save", _X, same)),
    "topK": (SelectOp, Kind("topK", _X, scored)),
    "approxTopK": (SelectOp, Kind("approxTopK", _X, scored, {"tolerate_ratio": 0.0}, tolerance_keys)),
}
_CACHE_KINDS: dict[str, tuple[type[Op], Kind]] = {
    "Fill": (FillOp, Kind("Fill", (), same, {"alpha": 0.0}, numbers(alpha=None))),
}


def _classes(module: str, kinds: Mapping[str, tuple[type[Op], Kind]]) -> dict[str, type[Op]]:
    return {
        name: type(name, (base,), {"kind": kind, "__module__": module, "__doc__": f"{kind.op} of vortex_torch."})
        for name, (base, kind) in kinds.items()
    }


def _with(base: type[Op], kinds: Mapping[str, Kind]) -> dict[str, tuple[type[Op], Kind]]:
    return {name: (base, kind) for name, kind in kinds.items()}


def _absent(name: str, accepted: str) -> type[Op]:
    return type(name, (AbsentOp,), {"accepted": accepted, "part": INDEX})


_REDUCTIONS = ("Mean", "Max", "Min", "L2Norm")
INDEXER: dict[str, type[Op]] = _classes(
    "vortex_torch.indexer",
    _with(IndexOp, _kinds_of_both() | _reductions((*_REDUCTIONS, "Sum"), 0, 1, 2)) | _INDEX_KINDS,
)
INDEXER |= {
    "Union": _absent("Union", "kvmill.vflow.Union(second=N), called with two scores"),
    "TopK": _absent("TopK", "topK, or kvmill.vflow.Union(second=N)"),
    "LearnedQuery": _absent("LearnedQuery", "kvmill.vflow.Constant and GeMM"),
}
CACHE_SIDE: dict[str, type[Op]] = _classes(
    "vortex_torch.cache",
    _with(CacheOp, _kinds_of_both() | _reductions(_REDUCTIONS, 1, 2) | _interleaves()) | _CACHE_KINDS,
)


class Union(SelectOp):
    """Select by x; then, of the remaining pages, `second` by y.  Called with x, y, o and ctx."""

    kind = Kind("Union", _XY, scored, {"second": Parameter.empty}, second_keys)
