"""Follows doc/recipes.md, and compares the results with oracles that share no code with them.

recipes.py apply PAGE TREE    every step of the page, in a copy of the tree; prints "RECIPE<tab>FILE" for each file
recipes.py format RUN...      kvmill run ... of a KeyValueCache of float8e3m4: all bits that are stored and read back
recipes.py op RUN...          kvmill run ... of RowNorms, with both orders

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
import math
import random
import re
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PLACE = r"(?:in|new file,)\s+`([^`]+)`(?:\s+(before|after|instead of)\s+`([^\n]+?)`)?:"
STEP = re.compile(PLACE + r"\n\n```\w+\n(.*?)```\n", re.DOTALL)

# ---- Steps ----


def put(text: str, where: str, anchor: str, new: str) -> str:
    """Return the text with a step's code inserted at the only place with the anchor."""
    if text.count(anchor) != 1:
        sys.exit(f"{text.count(anchor)} places have {anchor!r}; accepted: one")
    if where == "instead of":
        return text.replace(anchor, new.rstrip("\n"))
    at = text.index(anchor)
    begin = text.rfind("\n", 0, at) + 1
    return text[:begin] + new + text[begin:] if where == "before" else put_after(text, at, new)


def put_after(text: str, at: int, new: str) -> str:
    end = text.index("\n", at) + 1
    return text[:end] + new + text[end:]


def apply(page: str, tree: str) -> None:
    for recipe in Path(page).read_text("utf-8").split("\n## ")[1:]:
        title = recipe.partition("\n")[0]
        steps = STEP.findall(recipe)
        if len(steps) != recipe.count("```") // 2:
            sys.exit(f"{title}: {recipe.count('```') // 2} blocks, of which {len(steps)} have a place")
        for name, where, anchor, new in steps:
            path = Path(tree, name)
            if where:
                path.write_text(put(path.read_text("utf-8"), where, anchor, new), "utf-8")
            elif path.exists():
                sys.exit(f"{title}: {name} is there already")
            else:
                path.parent.mkdir(exist_ok=True)
                path.write_text(new, "utf-8")
        for name in dict.fromkeys(name for name, *_ in steps):
            print(title, name, sep="\t")


# ---- Arrays in files ----


def write_npy(name: str, kind: str, shape: Sequence[int], numbers: Sequence[float]) -> None:
    code = {"<f4": "f", "|u1": "B", "<i8": "q"}[kind]
    dims = "".join(f"{dim}, " for dim in shape)
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({dims}), }}"
    data = struct.pack(f"<{len(numbers)}{code}", *numbers)
    Path(name).write_bytes(b"\x93NUMPY\x01\x00\x76\x00" + head.ljust(117).encode() + b"\n" + data)


def read_npy(name: str, code: str) -> list[float]:
    data = Path(name).read_bytes()[128:]
    return list(struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))


def run(command: Sequence[str], spec: dict, *arguments: str) -> None:
    Path("spec.json").write_text(json.dumps(spec))
    done = subprocess.run([command[0], "run", "spec.json", *arguments, *command[1:]], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.returncode}: {done.stderr}")


# ---- A format ----


def value_of(code: int) -> float:
    """Return the number of a code: a sign, three bits of exponent with a bias of 3, four bits of
    mantissa."""
    exponent, mantissa = code >> 4 & 7, code & 15
    if exponent == 7:
        return math.nan if mantissa else math.inf
    return (mantissa / 16 * 2**-2) if exponent == 0 else (1 + mantissa / 16) * 2.0 ** (exponent - 3)


def code_of(number: float) -> int:
    """Return the code of the nearest finite number, by trying all codes; of two equally near ones
    the even one."""
    magnitude = abs(number)
    code = min(range(0x70), key=lambda code: (abs(value_of(code) - min(magnitude, 1e9)), code & 1))
    return code | (0x80 if math.copysign(1, number) < 0 else 0)


def awkward_numbers(count: int) -> list[float]:
    rounded = [value_of(code) for code in range(0x70)]
    ties = [(a + b) / 2 for a, b in zip(rounded, rounded[1:])]
    near = [struct.unpack("<f", struct.pack("<I", struct.unpack("<I", struct.pack("<f", t))[0] + d))[0] for t in ties for d in (-1, 1)]
    numbers = [*rounded, *ties, *near, math.inf, 1e30, 15.5, 15.74, 15.76, 1e-30]
    numbers = [sign * number for number in numbers for sign in (1.0, -1.0)]
    draw = random.Random(5)
    return numbers + [draw.uniform(-20, 20) * 2.0 ** draw.randrange(-8, 1) for _ in range(count - len(numbers))]


def check_format(command: Sequence[str]) -> None:
    rows, dim = 24, 64
    numbers = awkward_numbers(rows * dim)
    numbers = [struct.unpack("<f", struct.pack("<f", number))[0] for number in numbers]
    write_npy("new.npy", "<f4", (1, rows, 1, dim), numbers)
    write_npy("start.npy", "<i8", (), [0])
    write_npy("cache.npy", "|u1", (1, 1, 2, rows, 1, dim), [0xAA] * (2 * rows * dim))
    inputs = "current_key=new.npy", "current_value=new.npy", "start_pos=start.npy", "cache=cache.npy"
    outputs = "key=key.npy", "value=value.npy", "cache=after.npy"
    arguments = [word for name in inputs for word in ("--in", name)] + [word for name in outputs for word in ("--out", name)]
    run(command, {"op": "KeyValueCache", "T1": "float32", "T2": "float8e3m4"}, *arguments)
    codes = [code_of(number) for number in numbers]
    if read_npy("after.npy", "B") != codes * 2:
        wrong = next((n, a, b) for n, a, b in zip(numbers, read_npy("after.npy", "B"), codes) if a != b)
        sys.exit(f"{wrong[0]!r} is stored as {wrong[1]:#x}, not {wrong[2]:#x}")
    back = [math.copysign(value_of(code & 0x7F), -1 if code & 0x80 else 1) for code in codes]
    if read_npy("value.npy", "f") != back or read_npy("key.npy", "f") != back:
        sys.exit("what is read back is not what was stored")


# ---- An op ----


def check_op(command: Sequence[str]) -> None:
    rows, dim = 7, 33
    draw = random.Random(7)
    numbers = [draw.randrange(-512, 513) / 64 for _ in range(rows * dim)]
    write_npy("x.npy", "<f4", (rows, dim), numbers)
    of_row = [numbers[i * dim : (i + 1) * dim] for i in range(rows)]
    wanted = {
        1: [sum(map(abs, row)) for row in of_row],
        2: [math.sqrt(sum(x * x for x in row)) for row in of_row],
    }
    for order, norms in wanted.items():
        attributes = {"order": order} if order != 2 else {}
        run(command, {"op": "RowNorms", **attributes, "x": [rows, dim], "norms": [rows]}, "--in", "x=x.npy", "--out", "norms=norms.npy")
        if any(abs(a - b) > 1e-6 * b for a, b in zip(read_npy("norms.npy", "f"), norms, strict=True)):
            sys.exit(f"order {order}: {read_npy('norms.npy', 'f')}, not {norms}")


if __name__ == "__main__":
    {"apply": lambda words: apply(*words), "format": check_format, "op": check_op}[sys.argv[1]](sys.argv[2:])
