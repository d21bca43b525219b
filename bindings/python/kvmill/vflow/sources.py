"""Finds a class in a file: "FILE.py:CLASS,NAME=VALUE,...".

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from . import base
from .errors import VFlowError, attempt, definition_place, nearest, refuse
from .stand_ins import stand_ins
from .tracing import is_flow


class Source:
    """A file, the name of a class in it, and settings."""

    def __init__(self, text: str) -> None:
        file, mark, rest = text.rpartition(".py:")
        name, *settings = rest.split(",") if mark else [""]
        self.text, self.file, self.name = text, file + ".py" if mark else text, name
        self.settings = dict(self._setting(words) for words in settings)

    def _setting(self, words: str) -> tuple[str, Any]:
        name, mark, value = words.partition("=")
        if not mark or not name.isidentifier():
            refuse(f'"{words}"; accepted after the class: ,NAME=VALUE, such as ,page_size=64', self.text)
        layers = name == "layers_skip"
        return name, [_value(layer) for layer in value.split("+")] if layers else _value(value)


def _value(text: str) -> Any:
    """Return a number or a truth value; other words as they are."""
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            pass
    return {"true": True, "false": False}.get(text.lower(), text)


@contextmanager
def _beside(file: Path) -> Iterator[None]:
    """Let a file import modules that lie beside it."""
    folder = str(file.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _module(file: str) -> ModuleType:
    """Run a file.  Its code has the file's name as it was given, for messages.  Relative imports are
    those of vortex_torch.flow, where such files come from."""
    try:
        source = Path(file).read_bytes()
    except OSError as error:
        raise VFlowError(f"{file}: cannot read: {error.strerror}; accepted: a Python file") from error
    module = ModuleType(f"kvmill_vflow_{Path(file).stem}")
    module.__file__ = file
    module.__package__ = "vortex_torch.flow"
    sys.modules[module.__name__] = module

    def run() -> None:
        exec(compile(source, file, "exec"), vars(module))

    attempt(file, file, run, [file])
    return module


def _flows_of(module: ModuleType) -> dict[str, type]:
    """Return the classes of a file that are flows, by name."""
    own = {name: cls for name, cls in vars(module).items() if isinstance(cls, type)}
    return {name: cls for name, cls in own.items() if cls.__module__ == module.__name__ and is_flow(cls)}


def _said(flows: dict[str, type]) -> str:
    said = [f"{name} ({definition_place(cls.forward_indexer)})" for name, cls in flows.items()]  # type: ignore[attr-defined]
    return ", ".join(said) or "a class with create_cache, forward_cache and forward_indexer"


def _class(module: ModuleType, source: Source) -> type:
    """Return a class of a file, by its name or the name that it is registered by."""
    flows = _flows_of(module)
    cls = getattr(module, source.name, None) or base.REGISTRY.get(source.name)
    if source.name == "" and len(flows) == 1:
        return next(iter(flows.values()))
    if source.name == "":
        refuse(f"no class is named; accepted: {source.file}:CLASS, where CLASS is one of {_said(flows)}", source.file)
    if not isinstance(cls, type):
        refuse(f'has no class "{source.name}"; {nearest(source.name, flows)}accepted: {_said(flows)}', source.file)
    return cls


@contextmanager
def opened(text: str) -> Iterator[tuple[type, Source]]:
    """Import a file, and give its class.  What it imports later, while its methods run, is found, too."""
    source = Source(text)
    base.REGISTRY.clear()
    with stand_ins(), _beside(Path(source.file)):
        yield _class(_module(source.file), source), source
