"""The command `kvmill` as a maker of kernels, and where what it makes is kept.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .__main__ import find_command

COMMAND_VARIABLE = "KVMILL_COMMAND"


def find_words() -> list[str]:
    """Return the command.  Raises RuntimeError if there is none."""
    words = shlex.split(os.environ.get(COMMAND_VARIABLE, "")) or [find_command() or ""]
    if not words[0]:
        raise RuntimeError(
            "no command kvmill, which makes kernels, in this package or in PATH; accepted: kvmill "
            f"installed, or its path in the environment variable {COMMAND_VARIABLE}"
        )
    return words


class CommandError(RuntimeError):
    """A command has failed.  messages: what it has written to standard error, unless a terminal has
    shown it."""

    def __init__(self, command: Sequence[str], code: int, messages: str) -> None:
        super().__init__(f"{shlex.join(command)}: exit code {code}\n{messages}".rstrip())
        self.code, self.messages = code, messages


def _environment() -> dict[str, str]:
    """Return this process's, without what a make that runs it says to other makes."""
    return {n: v for n, v in os.environ.items() if n not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}


def run(command: Sequence[str], *, is_long: bool = False, messages: list[str] | None = None) -> str:
    """Run the command and return its output.  If it takes long, a terminal shows the progress.

    messages: the lines of standard error are added
    Raises CommandError if it fails, and RuntimeError if it is not there."""
    stderr = None if is_long and sys.stderr.isatty() else subprocess.PIPE
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=stderr, text=True, check=False, env=_environment()
        )
    except FileNotFoundError:
        raise RuntimeError(f"{command[0]} is not there; accepted: it installed, and in PATH") from None
    if done.returncode:
        raise CommandError(command, done.returncode, done.stderr or "")
    if messages is not None:
        messages.extend((done.stderr or "").splitlines())
    return done.stdout


def usable_isas(command: Sequence[str]) -> list[str]:
    """Return the instruction sets of the command's table that this machine has, up to
    KVMILL_ISA."""
    rows = [line.split() for line in run([*command, "isas"]).splitlines()]
    usable = [row[0] for row in rows if "yes" in row]
    cap = os.environ.get("KVMILL_ISA", "")
    return usable[: usable.index(cap) + 1] if cap in usable else usable


# ---- Where it is kept ----


def _is_ours(path: Path) -> bool:
    """Whether only this user can write there, because libraries in it will be loaded."""
    status = path.lstat()
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022 and not path.is_symlink()


def cache_directory(name: str) -> Path:
    """Return the directory of that name.  Raises RuntimeError if others can write to it."""
    parent = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = parent / "kvmill" / name
    for part in (directory.parent, directory):
        part.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_ours(part):
            raise RuntimeError(
                f"{part} belongs to somebody else, or others may write to it; accepted: a "
                "directory of your own, mode 700"
            )
    return directory
