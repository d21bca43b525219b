"""Places in a source at which a mutant differs from it: operators, constants, conditions, statements.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

OPERATORS = {
    "+": ["-"],
    "-": ["+"],
    "*": ["/", "+"],
    "/": ["*"],
    "%": ["/"],
    "<<": [">>"],
    ">>": ["<<"],
    "<": ["<=", ">="],
    "<=": ["<", ">"],
    ">": [">=", "<="],
    ">=": [">", "<"],
    "==": ["!="],
    "!=": ["=="],
    "&&": ["||"],
    "||": ["&&"],
    "&": ["|"],
    "|": ["&"],
    "^": ["|"],
    "+=": ["-="],
    "-=": ["+="],
    "*=": ["+="],
    "|=": ["&="],
    "&=": ["|="],
}
# Words of the templates; those that compare or add something else have other names.
WORDS = {"max": ["min"], "min": ["max"], "add": ["sub"], "sub": ["add"], "incr": ["decr"], "decr": ["incr"]}

COMMENTS = r"/\*.*?\*/|//[^\n]*"
TEXTS = r'"(?:\\.|[^"\\\n])*"|' + r"'(?:\\.|[^'\\\n])*'"
DIRECTIVES = r"^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*"
HIDDEN = {
    ".c": re.compile(f"{COMMENTS}|{TEXTS}|{DIRECTIVES}", re.S | re.M),
    ".m4": re.compile(rf"{COMMENTS}|^m4_dnl[^\n]*|{DIRECTIVES}", re.S | re.M),
}

# clang-format puts spaces around operators of two operands, and none after those of one.
OPERATOR = re.compile(r"(?<=[\w)\]] )(" + "|".join(sorted(map(re.escape, OPERATORS), key=len, reverse=True)) + r")(?=[ \n])")
NUMBER = re.compile(r"(?<![\w.$])(\d+)(?=u?\b)(?![\w.]*\.)")
TRUTH = re.compile(r"\b(true|false)\b")
WORD = re.compile(r"(?<=_)(" + "|".join(WORDS) + r")(?=_|\b)")
CONDITION = re.compile(r"\bif \(")
# Calls, assignments and jumps that are a line; declarations have a space before the name.
STATEMENT = re.compile(r"^[ ]+((?:[\w.>\[\]*+()-]+ (?:[-+*/%&|^]|<<|>>)?= |\(?\w[\w.>-]*\(|break|continue|\w+(?:\+\+|--))[^;{}]*;)$", re.M)


@dataclass(frozen=True)
class Place:
    """A change: the text from `start` to `end` becomes `to`."""

    start: int
    end: int
    to: str


def hide(text: str, suffix: str) -> str:
    """Return the text with spaces for what no mutant changes."""
    return HIDDEN[suffix].sub(lambda hidden: re.sub(r"[^\n]", " ", hidden[0]), text)


def swaps(text: str, pattern: re.Pattern, others: dict[str, list[str]]) -> list[Place]:
    return [Place(m.start(), m.end(), to) for m in pattern.finditer(text) for to in others[m[1]]]


def numbers(text: str) -> list[Place]:
    found = []
    for match in NUMBER.finditer(text):
        others = [int(match[1]) + 1] + ([int(match[1]) - 1] if int(match[1]) > 0 else [])
        found += [Place(match.start(1), match.end(1), str(other)) for other in others]
    return found


def conditions(text: str) -> list[Place]:
    found = []
    for match in CONDITION.finditer(text):
        depth, end = 1, match.end()
        while depth > 0 and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        found += [Place(match.end(), end - 1, to) for to in ("true", "false")]
    return found


def statements(text: str) -> list[Place]:
    """Return statements that are lines of their own."""
    found = []
    for match in STATEMENT.finditer(text):
        before = text[: match.start()].rstrip()
        if before.endswith((";", "{", "}", ")", "else", ":")):
            found.append(Place(match.start(1), match.end(1), ";"))
    return found


def places(text: str, suffix: str) -> list[Place]:
    """Return all places of a source in the order of its text."""
    seen = hide(text, suffix)
    found = swaps(seen, OPERATOR, OPERATORS) + swaps(seen, TRUTH, {"true": ["false"], "false": ["true"]})
    found += numbers(seen) + statements(seen)
    found += conditions(seen) if suffix == ".c" else swaps(seen, WORD, WORDS)
    return sorted(found, key=lambda place: (place.start, place.end, place.to))


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def changed_lines(text: str, place: Place) -> tuple[str, str]:
    """Return the lines that change, as they are and as they become, in one line each."""
    first = text.rfind("\n", 0, place.start) + 1
    last = text.find("\n", place.end)
    parts = text[first : place.start], text[place.start : place.end], text[place.end : last]
    return squeeze("".join(parts)), squeeze(parts[0] + place.to + parts[2])


def squeeze(text: str) -> str:
    return " ".join(text.split())


def order(seed: int, count: int) -> list[int]:
    """Return the numbers below `count` in an order that the seed gives."""
    numbers = list(range(count))
    random.Random(seed).shuffle(numbers)
    return numbers
