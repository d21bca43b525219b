"""Packs of kernels for a model, made by the command and kept.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from ..__main__ import find_command
from ..plans import Pack
from .attention import NAME
from .cache import KvmillCache
from .packs import recording, use_packs

_COMMAND = "KVMILL_COMMAND"


def _command() -> list[str]:
    """Raises RuntimeError where there is none."""
    words = shlex.split(os.environ.get(_COMMAND, "")) or [find_command() or ""]
    if not words[0]:
        raise RuntimeError(
            "no command kvmill, which makes kernels, in this package or in PATH; accepted: kvmill "
            f"installed, or its path in the environment variable {_COMMAND}"
        )
    return words


def _run(command: Sequence[str], *, is_long: bool = False) -> str:
    """What it prints.  A terminal shows the progress of what takes long.

    Raises RuntimeError where it fails, with its messages if no terminal has shown them."""
    messages = None if is_long and sys.stderr.isatty() else subprocess.PIPE
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=messages, text=True, check=False)
    if done.returncode:
        failure = f"{shlex.join(command)}: exit code {done.returncode}"
        raise RuntimeError("\n".join((failure, done.stderr or "")).rstrip())
    return done.stdout


# ---- What to make ----


@torch.inference_mode()
def _specs(model, caches: Sequence[KvmillCache | None]) -> list[dict[str, object]]:
    """Specs of the plans that a step of the model needs with each cache; it runs on one token."""
    with recording() as specs:
        for cache in caches:
            tokens = torch.zeros((1, 1), dtype=torch.int64)
            model(input_ids=tokens, past_key_values=cache, use_cache=cache is not None)
    # Spans are no attn_mask, which would cost MultiHeadCacheAttention as many kernels again.
    masks = {"CacheAttend": {}}
    return [{**spec, **masks.get(spec["op"], {"attn_mask": False})} for spec in specs]


def _usable_isas(command: Sequence[str]) -> list[str]:
    """The instruction sets in the command's table that this machine runs, up to KVMILL_ISA."""
    rows = [line.split() for line in _run([*command, "isas"]).splitlines()]
    usable = [row[0] for row in rows if "yes" in row]
    cap = os.environ.get("KVMILL_ISA", "")
    return usable[: usable.index(cap) + 1] if cap in usable else usable


# ---- Where it is kept ----


def _is_ours(path: Path) -> bool:
    """Whether only this user can write there, because libraries in it will be loaded."""
    status = path.lstat()
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022 and not path.is_symlink()


def _cache_directory() -> Path:
    """Raises RuntimeError where others may write to it."""
    parent = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = parent / "kvmill" / "packs"
    for part in (directory.parent, directory):
        part.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_ours(part):
            raise RuntimeError(
                f"{part} belongs to somebody else, or others may write to it; accepted: a "
                "directory of your own, mode 700"
            )
    return directory


def _build(command: Sequence[str], specs: str, isas: Sequence[str], name: str, to: Path) -> None:
    """Several processes may build the same pack: the result of the last one is ignored."""
    with tempfile.TemporaryDirectory(dir=to.parent) as scratch:
        listed, made = Path(scratch) / "specs.json", Path(scratch) / name
        listed.write_text(specs)
        options = ["--kernels", str(listed), "--isa", ",".join(isas), "--name", name]
        _run([*command, "generate", *options, "-o", str(made), "--build"], is_long=True)
        try:
            made.rename(to)
        except OSError:
            if not to.exists():
                raise


def prepare(model, *, math: str = "f32", **formats: object) -> Pack:
    """Make kernels for a model, use them in this process, and return their pack.

    model: of transformers, on the CPU, with the type it is going to run with; its attention becomes
        "kvmill".
    formats: format, value_format and group of the KvmillCache that it is going to run with; and
        math.  Kernels for the model's other caches are made, too.

    The model runs on one token to see what its layers need.  `kvmill generate` makes the pack, in
    $XDG_CACHE_HOME/kvmill/packs, once for each set of kernels, version, processor and KVMILL_ISA;
    that takes some seconds a kernel, and a terminal shows the progress.  The command is
    KVMILL_COMMAND, the package's own or the kvmill of PATH.

    Raises RuntimeError if there is no command, or it fails; ValueError like KvmillCache."""
    model.set_attn_implementation(NAME)
    cache = KvmillCache(model.config, math=math, **formats)
    specs = json.dumps({"kernels": _specs(model, [cache, None])}, indent=1)
    command = _command()
    isas = _usable_isas(command)
    version = _run([*command, "--version"])
    key = "\n".join((specs, version, platform.machine(), ",".join(isas)))
    name = "model_" + hashlib.sha256(key.encode()).hexdigest()[:16]
    directory = _cache_directory() / name
    if not directory.exists():
        _build(command, specs, isas[-1:], name, directory)
    pack = Pack(directory / f"lib{name}.so")
    use_packs(pack)
    return pack
