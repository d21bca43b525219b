"""kvmill in ONNX Runtime: the execution provider, and the kernels of a model.

    import onnxruntime
    from kvmill.onnxruntime import prepare

    provider = prepare("model.onnx")
    session = onnxruntime.InferenceSession("model.onnx", provider.session_options())

`python -m kvmill.onnxruntime` prints the path of the Makefile that builds the library.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import os
import platform
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from .making import COMMAND_VARIABLE, CommandError, cache_directory, find_words, run, usable_isas

NAME = "KvmillExecutionProvider"
MATHS = ("f32", "near", "fast")
_LIBRARY = "libkvmill_ort.so"
_registered: set[Path] = set()


class Serializable(Protocol):
    """A model in memory, such as onnx.ModelProto."""

    def SerializeToString(self) -> bytes: ...


def _runtime() -> ModuleType:
    """Return the package onnxruntime.  Raises ImportError without it, RuntimeError if it is older
    than execution providers in libraries."""
    import onnxruntime

    if not hasattr(onnxruntime, "register_execution_provider_library"):
        raise RuntimeError(f"this is onnxruntime {onnxruntime.__version__}; accepted: 1.24 or later")
    return onnxruntime  # type: ignore[no-any-return]


# ---- What to register ----


@dataclass(frozen=True)
class Provider:
    """The execution provider, and a model's kernels.

    library: the provider's library, for onnxruntime.register_execution_provider_library
    pack: the library of the model's kernels; None if the file states too few types and shapes, so
        that only a session can tell
    math: as for prepare()
    notes: what `kvmill generate` has said of the model: how many nodes ONNX Runtime hands over, and
        why others are left to it"""

    library: Path
    pack: Path | None
    math: str = "f32"
    notes: tuple[str, ...] = ()

    def devices(self) -> list[Any]:
        """Register the library, once in a process, and return its devices."""
        runtime = _runtime()
        if self.library not in _registered:
            runtime.register_execution_provider_library(f"kvmill {self.library}", str(self.library))
            _registered.add(self.library)
        ours = [device for device in runtime.get_ep_devices() if device.ep_name == NAME]
        mine = [d for d in ours if d.ep_metadata.get("library_path") == str(self.library)]
        return mine or ours[:1]

    def provider_options(self) -> dict[str, str]:
        """Return the options of the provider: the pack, the arithmetic, and that a session makes the
        kernels of nodes that the pack does not serve."""
        packs = {"packs": str(self.pack)} if self.pack is not None else {}
        return {**packs, "math": self.math, "make_kernels": "1"}

    def session_options(self, options: Any = None) -> Any:
        """Add the provider to these options, or to new ones, and return them."""
        given = options if options is not None else _runtime().SessionOptions()
        os.environ.setdefault(COMMAND_VARIABLE, find_words()[0])
        given.add_provider_for_devices(self.devices(), self.provider_options())
        return given


# ---- The library ----


def makefile() -> Path:
    """Return the Makefile of the library.  Raises RuntimeError if it is not installed."""
    own, named = Path(__file__).parent / "installed/share/kvmill", os.environ.get("KVMILL_DATADIR")
    command = Path(find_words()[0]).resolve()
    for folder in (own, *([Path(named)] if named else []), command.parents[1] / "share/kvmill"):
        path = folder / "bindings/onnxruntime/Makefile"
        if path.exists():
            return path
    raise RuntimeError(
        f"no bindings/onnxruntime/Makefile in {own}; accepted: kvmill installed, or its folder "
        "share/kvmill in the environment variable KVMILL_DATADIR"
    )


def _sources(makefile: Path) -> Iterator[bytes]:
    """Yield all that the library is built from, and where, because it names libkvmill's place."""
    root = makefile.parents[2]
    yield str(makefile).encode()
    for folder in ("bindings/common", "bindings/onnxruntime", "ops/served"):
        for path in sorted((root / folder).iterdir()):
            yield path.name.encode() + path.read_bytes()


def _build(makefile: Path, to: Path) -> None:
    """Build the library and move it into place.  If another process has built it in the meantime,
    that one is kept."""
    with tempfile.TemporaryDirectory(dir=to.parent) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        run(["make", "--no-print-directory", "-s", "-C", str(made), "-f", str(makefile)])
        try:
            made.rename(to)
        except OSError:
            if not to.exists():
                raise


def _find_library(command: Sequence[str]) -> Path:
    path = makefile()
    version = run([*command, "--version"])
    key = hashlib.sha256(f"{version}{platform.machine()}{os.environ.get('CC', '')}".encode())
    for part in _sources(path):
        key.update(part)
    directory = cache_directory("onnxruntime") / key.hexdigest()[:16]
    if not directory.exists():
        _build(path, directory)
    return directory / _LIBRARY


# ---- The kernels ----


@contextmanager
def _file_of(model: str | os.PathLike[str] | bytes | Serializable) -> Iterator[str]:
    """Yield the path of a model, which is a temporary file if the model is in memory."""
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        if not path.endswith(".onnx"):
            raise ValueError(f"model is {path!r}; accepted: a name that ends with .onnx")
        yield path
        return
    if not isinstance(model, bytes) and not hasattr(model, "SerializeToString"):
        raise TypeError(f"model is {type(model).__name__}; accepted: a path, bytes or an onnx.ModelProto")
    content = model if isinstance(model, bytes) else model.SerializeToString()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.onnx")
        Path(path).write_bytes(content)
        yield path


def _make_pack(command: Sequence[str], file: str, math: str) -> tuple[Path | None, tuple[str, ...]]:
    """Return the pack of a model and the command's notes.  Raises ValueError if the provider takes
    no node of the model."""
    messages: list[str] = []
    options = ["--ort", "--model", file, "--name", "model", "--math", math, "--isa", usable_isas(command)[-1]]
    try:
        printed = run([*command, "generate", "--keep", *options], messages=messages)
    except CommandError as error:
        if error.code == 1 and "the model says too little" in error.messages:
            return None, tuple(error.messages.splitlines())
        if error.code == 1:
            raise ValueError(error.messages.strip()) from None
        raise
    return Path(printed.splitlines()[-1]), tuple(line for line in messages if ": note: " in line)


def prepare(model: str | os.PathLike[str] | bytes | Serializable, *, math: str = "f32") -> Provider:
    """Build the execution provider and the kernels of a model, and return what to register.

    model: the path of an ONNX file, or a model in memory.
    math: the arithmetic of GroupQueryAttention and PMX nodes: "f32", "near" or "fast".

    Both are built for this processor and kept in $XDG_CACHE_HOME/kvmill: the library once, kernels
    once for each set of nodes.  This takes some seconds per kernel, and needs make and a C compiler.
    The command is KVMILL_COMMAND, the package's own, or the kvmill in PATH.  The package onnxruntime
    is not needed before the provider is used.

    Raises ValueError if the model has no node that ONNX Runtime would hand over, with the reason, or
    is no model; RuntimeError if there is no command, or if it or the compiler fails.
    """
    if math not in MATHS:
        raise ValueError(f"math is {math!r}; accepted: {', '.join(MATHS)}")
    command = find_words()
    with _file_of(model) as file:
        pack, notes = _make_pack(command, file, math)
    return Provider(_find_library(command), pack, math, notes)


if __name__ == "__main__":
    print(makefile())
