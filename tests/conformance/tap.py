"""Test lines, as the scripts of this directory write them.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import traceback
from collections.abc import Callable


class Tap:
    """Writes test lines as they come, and the plan after them."""

    def __init__(self) -> None:
        self.count = 0
        self.failures = 0

    def result(self, ok: bool, name: str, details: str = "") -> None:
        self.count += 1
        self.failures += not ok
        print(f"{'ok' if ok else 'not ok'} {self.count} - {name}")
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
