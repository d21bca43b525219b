"""Shared by the comparisons of kvmill with other libraries: arrays, threads, taking turns, tables.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict

import kvmill
import numpy as np


def aligned(shape: tuple[int, ...], dtype: str | np.dtype) -> np.ndarray:
    """An array whose data begins at a multiple of 64 bytes."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 64, np.uint8)
    begin = -memory.ctypes.data % 64
    return memory[begin : begin + size].view(dtype).reshape(shape)


def parse_arguments(
    description: str, rounds: int = 25, least: int = 15, **more: str
) -> argparse.Namespace:
    """rounds: the default number; more: other options with their help texts."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--packs", default=os.environ.get("KVMILL_PACKS", ""), metavar="PATHS")
    words = f"at least {least} (default {rounds})"
    parser.add_argument("--rounds", type=int, default=rounds, help=words)
    parser.add_argument("--json", metavar="FILE", help="write the results here too")
    for option, words in more.items():
        parser.add_argument(f"--{option}", default="", help=words)
    arguments = parser.parse_args()
    if arguments.rounds < least:
        parser.error(f"--rounds is {arguments.rounds}; accepted: {least} or more")
    return arguments


def packs_of(arguments: argparse.Namespace) -> list[kvmill.Pack]:
    return [kvmill.Pack(path) for path in arguments.packs.split(":") if path]


def _environment(**versions: str) -> dict[str, str | int | None]:
    return {
        "kvmill": kvmill.version(),
        **versions,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
    }


def write_results(path: str | None, rows: Sequence, **versions: str) -> None:
    """Writes the rows, which are dataclasses with a ratio, and the environment.  versions: of the
    other libraries."""
    if path is None:
        return
    results = [{**asdict(row), "ratio": row.ratio} for row in rows]
    with open(path, "w", encoding="utf-8") as stream:
        json.dump({"environment": _environment(**versions), "results": results}, stream, indent=2)
        stream.write("\n")
