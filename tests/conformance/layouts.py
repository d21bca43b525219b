"""Prints C code that compiles only if the structs in kvmill/c.py are those of kvmill.h: the same size, the same name, offset
and size of every field, and no other fields.

KVMILL_LIBRARY: as for the binding.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys

# The package needs NumPy, but its declarations do not, so they are imported without the package.
sys.modules["kvmill"] = importlib.util.module_from_spec(importlib.util.find_spec("kvmill"))
c = importlib.import_module("kvmill.c")


def structs() -> list[type[ctypes.Structure]]:
    kinds = (kind for kind in vars(c).values() if isinstance(kind, type))
    return [
        kind
        for kind in kinds
        if issubclass(kind, ctypes.Structure) and kind is not ctypes.Structure
    ]


def is_scalar(kind: type) -> bool:
    return not issubclass(kind, (ctypes.Structure, ctypes.Array))


def print_struct(struct: type[ctypes.Structure]) -> None:
    """Print the checks of a struct.  The initialiser detects fields that only one side has."""
    name = struct._c_name_
    print(f'_Static_assert(sizeof({name}) == {ctypes.sizeof(struct)}, "{name}");')
    for field, kind in struct._fields_:
        place = getattr(struct, field)
        print(
            f"_Static_assert(offsetof({name}, {field}) == {place.offset} &&\n"
            f"               sizeof((({name} *)0)->{field}) == {ctypes.sizeof(kind)},\n"
            f'               "{name}.{field}");'
        )
    nothing = ", ".join("0" if is_scalar(kind) else "{0}" for _, kind in struct._fields_)
    print(f"extern const {name} {name}_fields;\nconst {name} {name}_fields = {{{nothing}}};")


def main() -> int:
    unnamed = [kind.__name__ for kind in structs() if not hasattr(kind, "_c_name_")]
    if unnamed:
        print(f"without a name in C: {', '.join(unnamed)}", file=sys.stderr)
        return 1
    print("#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stddef.h>\n\n#include <kvmill.h>\n#include <kvmill_kernel.h>\n")
    for kind in structs():
        print_struct(kind)
    print(f'_Static_assert(KVMILL_DYNAMIC == {c.DYNAMIC}, "KVMILL_DYNAMIC");')
    print(f'_Static_assert(kDLCPU == {c.CPU}, "kDLCPU");')
    return 0


if __name__ == "__main__":
    sys.exit(main())
