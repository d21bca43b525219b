"""MLIR bytecode and StableHLO's portable artifacts: the command reads the same from them as from
the text.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
from tap import Tap


def plan(command: str, option: str, path: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"KVMILL_PYTHON": sys.executable}
    arguments = [command, "plan", option, str(path), "--isa", "scalar", "--name", "bytecode"]
    return subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)


def write_all(folder: Path) -> None:
    """Write a program with a gather and a scatter, as text and as both kinds of bytecode."""
    function = jax.jit(lambda x, i: x.at[i[:, 0]].add(x[i[:, 1]]))
    shapes = jax.ShapeDtypeStruct((6, 4), jnp.float32), jax.ShapeDtypeStruct((3, 2), jnp.int32)
    lowered = function.lower(*shapes)
    (folder / "text.mlir").write_text(lowered.as_text(), encoding="utf8")
    with open(folder / "plain.mlirbc", "wb") as file:
        lowered.compiler_ir("stablehlo").operation.write_bytecode(file)
    exported = jax.export.export(function)(*shapes)
    (folder / "portable.mlirbc").write_bytes(exported.mlir_module_serialized)
    (folder / "broken.mlirbc").write_bytes(exported.mlir_module_serialized[:-40])


def run(tap: Tap, command: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_all(folder)
        text = plan(command, "--kernels", folder / "text.mlir")
        kernels = text.stdout.count("\nstablehlo.")
        tap.result(text.returncode == 0 and kernels >= 2, f"text has {kernels} kernels", text.stderr)
        for kind in ("plain", "portable"):
            for option in ("--kernels", "--model"):
                found = plan(command, option, folder / f"{kind}.mlirbc")
                same = found.stdout == text.stdout
                tap.result(same, f"  and {kind} bytecode the same, by {option}", found.stderr)
        broken = plan(command, "--kernels", folder / "broken.mlirbc")
        refused = broken.returncode == 1 and f"which JAX of {sys.executable} reads" in broken.stderr
        tap.result(refused, "bytecode that is cut off is refused", broken.stderr)
