"""How hatchling builds the library: a wheel has what `make install` installs, in kvmill/installed.

KVMILL_BUILD       a build tree to take it from; default: one is configured and built, in build-wheel
KVMILL_CONFIGURE   more arguments of configure

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# No static libraries, nothing that names the prefix, no module for MPI.
LEFT_OUT = ("*.a", "*.la", "pkgconfig", "man", "ranks_mpi.so")

# Nothing for debuggers, which takes a seventh of the compiler's time.
CONFIGURE = ("--quiet", "--disable-static", "--without-mpi", "--prefix=/kvmill", "CFLAGS=-O2")

# Made by Autotools, each of those before it.
MADE = ("aclocal.m4", "configure", "Makefile.in")


def run(command: list[str], directory: Path) -> None:
    try:
        subprocess.run(command, cwd=directory, check=True)
    except FileNotFoundError as error:
        raise SystemExit(f"kvmill: {error.filename} is needed; CONTRIBUTING.md says what else") from error
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"kvmill: {shlex.join(command)} in {directory} has failed") from error


def prepare(root: Path) -> None:
    """The configure script."""
    if not (root / "configure").exists():
        run(["./bootstrap", "prepare"], root)


def order(root: Path) -> None:
    """Archives may have lost the order in which the configure script's parts were made."""
    for name in MADE:
        if (root / name).exists():
            os.utime(root / name)


def build(root: Path) -> Path:
    """A build tree with library, command and default pack."""
    tree = root / "build-wheel"
    tree.mkdir(exist_ok=True)
    prepare(root)
    order(root)
    options = shlex.split(os.environ.get("KVMILL_CONFIGURE", ""))
    run([str(root / "configure"), *CONFIGURE, *options], tree)
    run(["make", "--no-print-directory", f"-j{len(os.sched_getaffinity(0))}"], tree)
    return tree


def install(tree: Path, stage: Path) -> Path:
    """Copy what the tree installs to a new directory, without symbolic links."""
    run(["make", "--no-print-directory", "--silent", "install", f"DESTDIR={stage}/all"], tree)
    command = next(stage.glob("all/**/bin/kvmill"))
    prefix = stage / "installed"
    shutil.copytree(command.parents[1], prefix, ignore=shutil.ignore_patterns(*LEFT_OUT))
    for name in ("libkvmill.so", "libkvmill_specs.so"):
        keep_one(prefix / "lib", name)
    return prefix


def keep_one(directory: Path, name: str) -> None:
    """One copy of a library: programs are linked with it through a text."""
    soname = f"{name}.1"
    for copy in directory.glob(f"{name}*"):
        if copy.name != soname:
            copy.unlink()
    (directory / name).write_text(f"INPUT(-l:{soname})\n")


class Installed(BuildHookInterface[Any]):
    """For a wheel the library and all else; for a source archive the configure script."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if self.target_name == "sdist":
            prepare(root)
        if self.target_name != "wheel" or version == "editable":
            return
        self._stage = tempfile.TemporaryDirectory()
        given = os.environ.get("KVMILL_BUILD")
        prefix = install(Path(given) if given else build(root), Path(self._stage.name))
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["force_include"][str(prefix)] = "kvmill/installed"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_stage"):
            self._stage.cleanup()
