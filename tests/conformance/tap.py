"""TAP lines from Python tests, also from several threads.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from threading import Lock
from typing import Any


class Tap:
    """Writes TAP lines as results come, and the plan at the end."""

    def __init__(self) -> None:
        self.count = 0
        self.failures = 0
        self._lock = Lock()

    def result(self, ok: bool, name: str, details: str = "") -> None:
        with self._lock:
            self.count += 1
            self.failures += not ok
            print(f"{'ok' if ok else 'not ok'} {self.count} - {name}", flush=True)
            if details:
                self.comment(details)

    def comment(self, text: str) -> None:
        for line in text.rstrip().splitlines():
            print(f"# {line}", flush=True)

    def run(self, name: str, test: Callable[[], None]) -> None:
        try:
            test()
        except Exception:
            self.result(False, name, traceback.format_exc())
        else:
            self.result(True, name)

    def finish(self) -> int:
        print(f"1..{self.count}", flush=True)
        return 1 if self.failures else 0


def refused(words: str, make: Callable[[], object], kinds: Any) -> None:
    """Check that make() raises an error of one of these kinds, with these words."""
    try:
        make()
    except kinds as error:
        assert words in str(error), f"{error}; expected {words!r}"
    else:
        raise AssertionError(f"nothing was refused; expected {words!r}")
