"""Modules that stand in for vortex_torch and torch where they are not installed.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from . import base
from .contexts import ContextBase
from .errors import nearest, refuse
from .op_table import CACHE_SIDE, INDEXER
from .ops import Op
from .programs import Constant
from .tensors import Tensor
from .torch_names import TorchModule

_FLOW = {"vFlow": base.vFlow, "vFlowMLA": base.vFlowMLA, "register": base.register}
_ABSTRACT = {"ContextBase": ContextBase, "vOp": Op, "vTensor": Tensor, "Parameter": Constant}
_REGISTRY = {
    "register": base.register, "get": base.get, "has": base.has, "list_keys": base.list_keys,
    "RegistryError": base.RegistryError, "_REGISTRY": base.REGISTRY,
}  # fmt: skip

_MODULES: dict[str, Mapping[str, Any]] = {
    "vortex_torch": {},
    "vortex_torch.flow": _FLOW,
    "vortex_torch.flow.flow": _FLOW,
    "vortex_torch.flow.flow_mla": _FLOW,
    "vortex_torch.flow.registry": _REGISTRY,
    "vortex_torch.indexer": {**INDEXER, "Context": ContextBase, "Parameter": Constant},
    "vortex_torch.cache": {**CACHE_SIDE, "Context": ContextBase},
    "vortex_torch.abs": _ABSTRACT,
    "vortex_torch.abs.context_base": _ABSTRACT,
}


class VortexModule(ModuleType):
    """vortex_torch, or a module of it.  Names that it lacks are refused."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        known = [word for word in vars(self) if not word.startswith("_")]
        refuse(f"{self.__name__} has no {name} here; {nearest(name, known)}accepted: {', '.join(known)}")


def _is_installed(root: str) -> bool:
    """Whether another finder knows the package.  A folder of that name alone is none, such as a clone
    of the package's repository."""
    specs = (finder.find_spec(root, None) for finder in sys.meta_path if finder is not _FINDER)
    return any(spec is not None and spec.origin is not None for spec in specs)


class _Finder(MetaPathFinder, Loader):
    """Finds stand-ins of packages that are not installed."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        root = fullname.partition(".")[0]
        if root not in ("torch", "vortex_torch"):
            return None
        if _is_installed(root) if fullname == root else not _is_stand_in(sys.modules.get(root)):
            return None
        if root == "vortex_torch" and fullname not in _MODULES:
            refuse(f"{fullname} is not known; accepted: {', '.join(_MODULES)}")
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return (TorchModule if spec.name.partition(".")[0] == "torch" else VortexModule)(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        names = _MODULES.get(module.__name__, {})
        vars(module).update(names, __all__=list(names))
        if module.__name__ == "vortex_torch":
            _import_all()


def _import_all() -> None:
    """`import vortex_torch` gives its modules, too."""
    for name in _MODULES:
        __import__(name)


def _is_stand_in(module: object) -> bool:
    return isinstance(module, (TorchModule, VortexModule))


_FINDER = _Finder()


@contextmanager
def stand_ins() -> Iterator[None]:
    """Let `import torch` and `import vortex_torch` find stand-ins where these packages are not
    installed.  Afterwards, they are as absent as before."""
    if _FINDER in sys.meta_path:
        yield
        return
    sys.meta_path.insert(0, _FINDER)
    try:
        yield
    finally:
        sys.meta_path.remove(_FINDER)
        for name in [name for name, module in sys.modules.items() if _is_stand_in(module)]:
            del sys.modules[name]
