"""Refusals, with the line of the user's file that they are about.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from types import TracebackType
from typing import NoReturn, TypeVar

_HERE = str(Path(__file__).parent)

Result = TypeVar("Result")


class VFlowError(ValueError):
    """A class that kvmill cannot make a flow of.  The text is "file:line: what is wrong; accepted: what
    is accepted"."""


def _is_users(file: str) -> bool:
    return not file.startswith((_HERE, "<frozen "))


def calling_place() -> str:
    """Return "file:line" of the innermost caller that is not part of this package."""
    frame = sys._getframe()
    while frame.f_back is not None and not _is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def definition_place(function: object) -> str:
    """Return "file:line" of a function's definition, or the name of what has none."""
    code = getattr(inspect.unwrap(function) if callable(function) else function, "__code__", None)
    if code is None:
        return getattr(function, "__qualname__", repr(function))
    return f"{code.co_filename}:{code.co_firstlineno}"


def refuse(words: str, place: str | None = None) -> NoReturn:
    raise VFlowError(f"{place or calling_place()}: {words}")


def nearest(word: str, known: Iterable[str]) -> str:
    """Return 'did you mean "..."? ' for a message, or "" if no word is close."""
    close = get_close_matches(word, list(known), 1)
    return f'did you mean "{close[0]}"? ' if close else ""


def _raising_place(trace: TracebackType | None, files: Iterable[str]) -> str | None:
    """Return the last line of the user's own files in a traceback, or the last that is not of this
    package."""
    own, last = None, None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        place = f"{file}:{trace.tb_lineno}"
        own = place if file in files else own
        last = place if _is_users(file) else last
        trace = trace.tb_next
    return own or last


def attempt(what: str, where: str, run: Callable[[], Result], files: Iterable[str]) -> Result:
    """Run the user's code.  Whatever it raises becomes a VFlowError with the line that raised it, or
    `where` if that is not the user's."""
    try:
        return run()
    except VFlowError:
        raise
    except SyntaxError as error:
        where = f"{error.filename}:{error.lineno}" if error.filename else where
        refuse(f"{error.msg}; accepted: what Python {sys.version_info[0]}.{sys.version_info[1]} reads", where)
    except (Exception, SystemExit) as error:
        place = _raising_place(error.__traceback__, files) or where
        raise VFlowError(f"{place}: {what} raises {type(error).__name__}: {error}") from error
