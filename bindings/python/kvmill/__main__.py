"""`python -m kvmill` runs the command kvmill: the one in this package, or the one in PATH.

SPDX-License-Identifier: Apache-2.0
"""

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import NoReturn


def find_command() -> str | None:
    """The package's own, which need not be in PATH, or the one in PATH."""
    own = Path(__file__).parent / "installed" / "bin" / "kvmill"
    return str(own) if own.exists() else shutil.which("kvmill")


def main() -> NoReturn:
    """Replace this process by the command.  Exits with 2 if there is none."""
    command = find_command()
    if command is None or Path(command).resolve() == Path(sys.argv[0]).resolve():
        print("kvmill: no command, neither in this package nor in PATH", file=sys.stderr)
        sys.exit(2)
    os.environ.setdefault("KVMILL_PYTHON", sys.executable)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # which Python ignores, and programs inherit
    os.execv(command, [command, *sys.argv[1:]])


if __name__ == "__main__":
    main()
