"""Whole programs as JAX prints them: `kvmill plan` finds the gathers and scatters that are in them,
in every form of the text, and `kvmill rewrite` leaves everything else as it is.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from jax.interpreters import mlir
from jaxlib.mlir import ir
from tap import Tap

# Bytecode is read by the JAX of a new Python each time, so there is less of it.
LEAST_PROGRAMS, LEAST_FILES = 36, 147


def kvmill(command: str, *arguments: Any) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"KVMILL_PYTHON": sys.executable}
    words = [command, *map(str, arguments)]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


def words_of(spec: dict[str, Any]) -> str:
    if spec["op"] == "stablehlo.gather":
        return f"gather {spec['operand']} {spec['start_indices']}"
    return f"scatter {spec['inputs']} {spec['scatter_indices']} {spec['updates']}"


def check_plan(tap: Tap, command: str, path: Path, expected: list[str]) -> None:
    """Compare the specs with what is in the program; extents that are not known become 1024."""
    done = kvmill(command, "plan", "--kernels", path, "--isa", "scalar", "--json")
    specs = json.loads(done.stdout)["specs"] if done.returncode == 0 else []
    have = sorted(words_of(spec) for spec in specs)
    want = sorted(words.replace("?", "1024") for words in expected)
    difference = "" if have == want else f"{done.stderr}\nhave {have}\nwant {want}"
    tap.result(have == want, f"{path.name}: {len(want)} gathers and scatters", difference)


def check_rewriting(tap: Tap, command: str, path: Path) -> None:
    """Without batching dims the text stays; otherwise MLIR accepts the new text."""
    old = path.read_text(encoding="utf8")
    batched = re.search(r"_batching_dims = \[\d", old) is not None
    done = kvmill(command, "rewrite", path, "--without-batching-dims")
    right = done.returncode == 0 and (done.stdout != old) == batched
    if right and batched:
        with mlir.make_ir_context():
            right = ir.Module.parse(done.stdout).operation.verify()
        right = right and re.search(r"_batching_dims = \[\d", done.stdout) is None
    tap.result(right, f"  {'rewritten' if batched else 'as it is'}, by rewrite", done.stderr)


def check_guide(tap: Tap, command: str, folder: Path) -> None:
    """Run the commands of the guide, as they stand."""
    page = Path(__file__).parents[2] / "doc" / "guide" / "jax.md"
    section = page.read_text(encoding="utf8").partition("## What a program gathers")[2]
    script = re.sub(r"^\$ ", "", section.split("```")[1], flags=re.MULTILINE)
    (folder / "kvmill").symlink_to(Path(command).absolute())
    path = f"{Path(sys.executable).parent}:{folder}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-ec", script],
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    right = done.returncode == 0 and done.stdout.startswith("1 specs")
    right = right and "step.mlir: left alone: 1 stablehlo.reduce" in done.stderr
    tap.result(right, "the guide's commands", done.stderr)


def run(tap: Tap, command: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        maker = Path(__file__).with_name("programs.py")
        words = [sys.executable, maker, folder]
        made = subprocess.run(words, capture_output=True, text=True, check=False)
        tap.result(made.returncode == 0, "JAX writes programs", made.stderr)
        if made.returncode != 0:
            return
        with tempfile.TemporaryDirectory() as guide:
            check_guide(tap, command, Path(guide))
        expected = json.loads((folder / "expected.json").read_text(encoding="utf8"))
        paths = sorted(folder.glob("*.mlir*"))
        for path in paths:
            check_plan(tap, command, path, expected[path.name.split(".")[0]])
            if ".text." in path.name or ".generic." in path.name:
                check_rewriting(tap, command, path)
        enough = len(expected) >= LEAST_PROGRAMS and len(paths) >= LEAST_FILES
        tap.result(enough, f"there were {len(paths)} files of {len(expected)} programs")
