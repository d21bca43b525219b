"""The ctx of a vFlow's methods.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

from .errors import refuse
from .programs import Program


class ContextBase:
    """What annotations name; its attributes are those that a flow knows before it runs."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        known = [word for word in vars(self) if not word.startswith("_")]
        refuse(f"ctx.{name} is known only when the flow runs; accepted: {', '.join(known)}")


class Context(ContextBase):
    def __init__(self, program: Program, known: dict[str, Any]) -> None:
        self.__dict__.update(known)
        object.__setattr__(self, "_program", program)

    _program: Program
