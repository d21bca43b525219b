"""Checks of arguments.  Error messages give the argument, its value, and what is accepted.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import reprlib
from collections.abc import Collection
from typing import Any

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 80


def shown(value: object) -> str:
    """A value on one line, shortened if it is long."""
    return " ".join(_short.repr(value).split())


def items(name: str, value: Any, accepted: str) -> tuple[Any, ...]:
    """Return the items of a sequence.  Raises TypeError if value is not one."""
    try:
        return tuple(value)
    except TypeError:
        raise TypeError(f"{name} is {shown(value)}; accepted: {accepted}") from None


def refuse_unknown(given: Collection[str], accepted: Collection[str]) -> None:
    """Raise TypeError for names of tensors that an op does not have."""
    unknown = sorted(set(given) - set(accepted))
    if unknown:
        raise TypeError(f"{unknown[0]} is not a tensor of this plan; accepted: {', '.join(accepted)}")


def words(name: str, value: Any, accepted: Collection[str]) -> set[str]:
    """Return the words in a collection.  Raises TypeError, or ValueError for words that are not
    accepted."""
    among = f"some of {', '.join(accepted)}"
    given = items(name, value, among)
    if not all(isinstance(word, str) for word in given):
        raise TypeError(f"{name} is {shown(value)}; accepted: {among}")
    unknown = set(given) - set(accepted)
    if unknown:
        raise ValueError(f"{name} has {shown(sorted(unknown))}; accepted: {', '.join(accepted)}")
    return set(given)
