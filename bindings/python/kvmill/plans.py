"""Packs, plans, and plans bound to arrays.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import sys
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from ctypes import POINTER, Structure, byref, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from . import c
from .arguments import items, shown
from .arrays import put_addresses, reference
from .errors import OF_PORTABLE, KvmillError, PortableKernelWarning, check
from .ops import integer, make_struct
from .pools import Pool, Threads, pool_of


# By place, which is a tensor's number in the op's order, or its name where the plan knows names.
Arrays = Mapping[Any, np.ndarray]
MakeTensor = Callable[[Any, np.ndarray], c.DLTensor]  # of an array, and its place

def numbered(arrays: Sequence[np.ndarray | None]) -> Arrays:
    """Those that there are, of arrays in the op's order."""
    return {i: array for i, array in enumerate(arrays) if array is not None}


class Pack:
    """A pack of generated kernels: the shared library lib<name>.so that `kvmill generate` built.

    It stays loaded until the process ends.  Raises FileNotFoundError when there is no such file,
    OSError when it cannot be loaded, ValueError when it is not named like a pack or does not define
    kvmill_pack_<name>.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"path is {shown(path)}; accepted: the path of a pack's library")
        if not Path(path).exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
        match = re.fullmatch(r"lib(\w+)\.so", Path(path).name)
        if match is None:
            raise ValueError(
                f"path is {os.fspath(path)!r}; accepted: a path of the form .../lib<name>.so"
            )
        self.name = match[1]
        library = ctypes.CDLL(os.fspath(Path(path).resolve()))
        try:
            self._head = c.Pack.in_dll(library, f"kvmill_pack_{self.name}")
        except ValueError as error:
            raise ValueError(
                f"path is {os.fspath(path)!r}, not a pack: {error}; accepted: a library that "
                "`kvmill generate --build` made"
            ) from error

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols of its kernels; `kvmill explain` describes them."""
        lines: list[str] = (self._head.manifest or b"").decode().splitlines()
        return tuple(line for line in lines if "__" in line)

    @property
    def kernel_count(self) -> int:
        """Number of kernels in the pack."""
        return int(self._head.count)


def version() -> str:
    """Version of the library in use."""
    return str(c.library.kvmill_version().decode())


@cache
def default_pack() -> Pack | None:
    """The pack for popular models that is installed next to the library, as in a wheel; None if
    there is none."""
    path = c.library_directory() / "libkvmill_default.so"
    return Pack(path) if path.exists() else None


def given_packs(packs: Sequence[Pack] | None) -> tuple[Pack, ...]:
    if packs is None:
        pack = default_pack()
        return () if pack is None else (pack,)
    given = items("packs", packs, "a sequence of kvmill.Pack")
    for pack in given:
        if not isinstance(pack, Pack):
            raise TypeError(f"packs has {shown(pack)}; accepted: a sequence of kvmill.Pack")
    return given


# What is to be done where packs have no kernels: warn once and use portable ones; use them without a
# word; refuse, with KvmillError; or use portable ones alone.  False is "warn", True is "only".
Portable = Literal["warn", "allow", "refuse", "only"] | bool
_PORTABLE = {False: "warn", True: "only", **{word: word for word in Portable.__args__[0].__args__}}


class PlanOptions(c.PlanOptions):
    """If `warns`, least_isa is only a wish: a plan without kernels gives a warning, and least_isa
    is dropped."""

    warns = False
    pool: Pool | None = None


def plan_options(
    packs: Sequence[Pack], portable: Portable, isa: str | None, threads: Threads = 1
) -> PlanOptions:
    if not isinstance(portable, (str, bool)) or portable not in _PORTABLE:
        accepted = ", ".join(map(repr, _PORTABLE))
        raise ValueError(f"portable is {shown(portable)}; accepted: {accepted}")
    word = _PORTABLE[portable]
    pool = pool_of(threads)
    pointers = (c_void_p * len(packs))(*(ctypes.addressof(pack._head) for pack in packs))
    options = make_struct(
        PlanOptions,
        packs=pointers,
        pack_count=len(packs),
        isa=None if isinstance(isa, str) and not isa else isa,
        portable=word == "only",
        threads=1 if pool is None else pool.threads,
        least_isa="scalar" if word in ("warn", "refuse") else None,
    )
    options.warns, options.pool = word == "warn", pool
    return options


def make_plan(owner: Plan, function: str, *arguments: Any) -> c_void_p:
    """A plan that lives as long as its owner; the last argument is a PlanOptions."""
    owner._idle = deque()
    owner._pool = arguments[-1].pool
    owner._made_by = function, arguments
    try:
        return _new_handle(owner)
    except KvmillError as error:
        if not _relents(owner, error):
            raise
    return _new_handle(owner)


def _new_handle(owner: Plan) -> c_void_p:
    function, arguments = owner._made_by
    error, handle = c.Error(), c_void_p()
    given = [byref(a) if isinstance(a, Structure) else a for a in arguments]
    status = getattr(c.library, function)(*given, byref(handle), byref(error))
    check(status, error)
    weakref.finalize(owner, c.library.kvmill_plan_destroy, handle)
    return handle


def _relents(owner: Plan, error: KvmillError) -> bool:
    """Warn about a refusal for lack of a kernel, and plan without least_isa from now on."""
    options = owner._made_by[1][-1]
    if error.status_name != "KVMILL_E_KERNEL" or not options.warns:
        return False
    options.warns, options.least_isa = False, None
    text = f"portable kernels do the work, slowly: {error.message.replace(OF_PORTABLE, '')}"
    warnings.warn(text, PortableKernelWarning, stacklevel=_callers_level())
    return True


def _callers_level() -> int:
    """The stack level, for the function that calls this, of the first frame outside the package."""
    frame, level = sys._getframe(1), 1
    package = __name__.partition(".")[0]
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    return level


class Plan:
    """The base class of all plans."""

    _handle: c_void_p
    _made_by: tuple[str, tuple[Any, ...]]  # the function and all that it was given
    _pool: Pool | None  # None: runs are on the caller's thread alone
    _idle: deque[Call]  # whose workspaces the next runs use; they keep neither plan nor arrays

    def describe(self) -> str:
        """What was planned, which kernels were selected, and why."""
        size = c.library.kvmill_plan_describe(self._handle, None, 0) + 1
        text = ctypes.create_string_buffer(size)
        c.library.kvmill_plan_describe(self._handle, text, size)
        return text.value.decode()

    @property
    def workspace_size(self) -> int:
        """Bytes that a Call allocates for the library's use."""
        return int(c.library.kvmill_plan_workspace_size(self._handle))

    def _operands(self, *arrays: Any, **named: Any) -> tuple[MakeTensor, Arrays]:
        """The arrays that prepare() is given; for one plan MakeTensor is always the same."""
        raise NotImplementedError

    def _number_of(self, place: Any) -> int:
        return int(place)

    def _tensor_count(self, arrays: Arrays) -> int:
        """The number of tensors of the op, with or without an array for each."""
        return int(max(arrays)) + 1

    def _prepare(self, make: MakeTensor, arrays: Arrays) -> Call:
        """A new call on the arrays."""
        call = Call(self, self._tensor_count(arrays))
        call._bind(self, make, arrays)
        return call

    def _run_on(self, make: MakeTensor, arrays: Arrays, executor: Executor | None = None) -> None:
        """Run on the arrays.  For one plan `make` is always the same."""
        call = self._take_call(self._tensor_count(arrays))
        try:
            call._bind(self, make, arrays)
            if executor is None:
                call.run()
            else:
                call.run_threads(executor)
        finally:
            call._release()
            self._idle.append(call)

    def _take_call(self, count: int) -> Call:
        try:
            call = self._idle.pop()
        except IndexError:
            return Call(self, count)
        return call if len(call._tensors) == count else Call(self, count)


_ALIGNMENT = 64
_FUNCTION = ctypes.CFUNCTYPE(None).__bases__[0]  # of all functions of ctypes


def _make_workspace(size: int) -> np.ndarray | None:
    """A workspace of `size` bytes, aligned as the library requires."""
    if size == 0:
        return None
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % _ALIGNMENT
    return memory[first : first + size]


class Call:
    """A plan bound to arrays, for repeated runs that cost no more than in C.

    Made by prepare() of a plan.  Has a workspace of its own.  Keeps the plan and the arrays alive
    and reads their current contents each time.  Either run(), or, on threads of the caller's own:

        parts = call.begin()                # checks everything
        while parts is not None:
            call.part(i)                    # once for each i in range(parts), any thread, any order
            parts = call.next()             # when all are done

    One thread at a time may run() or begin(); part() may be called by many.
    """

    def __init__(self, plan: Plan, count: int) -> None:
        self._workspace = _make_workspace(plan.workspace_size)
        self._owners: tuple[Any, ...] = ()
        self._layouts: dict[Any, Any] = {}  # of the tensors that there are, by place
        self._structs: dict[Any, c.DLTensor] = {}
        self._tensors = (POINTER(c.DLTensor) * count)()
        self._error = c.Error()
        self._call = c.Call()
        self._pool = plan._pool
        self._set_plan(
            plan._handle,
            byref(self._tensors),
            count,
            None if self._workspace is None else self._workspace.ctypes.data,
            byref(self._error),
        )

    def _bind(self, plan: Plan, make: MakeTensor, arrays: Arrays) -> None:
        """If it raises, the call is unchanged.  New tensors are created only for arrays whose
        layout differs from that of the previous array in the same place; of the others only the
        address is taken."""
        layouts, changed = self._layouts, []
        for place, array in arrays.items():
            if layouts.get(place) != (array.shape, array.strides, array.dtype):
                changed.append(place)
        if changed or len(layouts) > len(arrays):
            self._make_tensors(plan, make, arrays, changed)
        put_addresses(arrays, self._structs)
        self._owners = plan, arrays

    def _make_tensors(
        self, plan: Plan, make: MakeTensor, arrays: Arrays, changed: Sequence[Any]
    ) -> None:
        made = {place: make(place, arrays[place]) for place in changed}
        for place in self._layouts.keys() - arrays.keys():
            self._tensors[plan._number_of(place)] = reference(None)
            del self._layouts[place], self._structs[place]
        for place, tensor in made.items():
            array = arrays[place]
            self._tensors[plan._number_of(place)] = reference(tensor)
            self._layouts[place] = array.shape, array.strides, array.dtype
            self._structs[place] = tensor

    def _release(self) -> None:
        self._owners = ()

    def _set_plan(self, handle: c_void_p, *others: Any) -> None:
        """Set the plan, and all other arguments of a run."""
        self._run_arguments = handle, *others
        self._run = c.library.kvmill_run, self._run_arguments
        if self._pool is not None:
            self._run = c.library.kvmill_run_on, (handle, self._pool._handle, *others)

    def _checked(self, run: Callable[[], Any]) -> None:
        """Run `run`; again if the plan drops least_isa."""
        status = run()
        if status != 0:
            self._relent(status)
            check(run(), self._error)

    def _relent(self, status: int) -> None:
        """Continue with a plan that may run portable kernels; raises any other refusal."""
        plan = self._owners[0]
        try:
            check(status, self._error)
        except KvmillError as error:
            if self._run_arguments[0] is plan._handle:
                if not _relents(plan, error):
                    raise
                plan._handle = _new_handle(plan)
        self._set_plan(plan._handle, *self._run_arguments[1:])

    def rebind(self, *arrays: object, **named: object) -> None:
        """Bind the call to other arrays: the arguments are those of its plan's prepare(), and fit
        the plan likewise.  Keeps the workspace.  If it raises, the call is unchanged."""
        plan = self._owners[0]
        self._bind(plan, *plan._operands(*arrays, **named))

    def run(self) -> None:
        """Run on the calling thread and those of the plan's pool, if it has one.  Raises
        KvmillError; then nothing has been written."""
        function, arguments = self._run
        status = function(*arguments)
        if status != 0:
            self._relent(status)
            function, arguments = self._run
            check(function(*arguments), self._error)

    def run_threads(self, executor: Executor) -> None:
        """Run on the threads of a concurrent.futures.ThreadPoolExecutor.

        The results do not depend on their number.  Raises KvmillError; then nothing has been
        written."""
        if not isinstance(executor, Executor):
            raise TypeError(f"executor is {shown(executor)}; accepted: a concurrent.futures.Executor")
        parts: int | None = self.begin()
        while parts is not None:
            for _ in executor.map(self.part, range(parts)):
                pass
            parts = self.next()

    def run_parallel(self, parallel_for: Any, data: c_void_p | None = None) -> None:
        """Run on a parallel loop in C, a kvmill_parallel_for (kvmill.h): a function of ctypes or a
        c_void_p, which is called as it is; data, a c_void_p, is handed to it.

        Raises KvmillError; then nothing has been written."""
        if not isinstance(parallel_for, (_FUNCTION, c_void_p)):
            raise TypeError(f"parallel_for is {shown(parallel_for)}; accepted: a function of ctypes")
        if not isinstance(data, (c_void_p, type(None))):
            raise TypeError(f"data is {shown(data)}; accepted: a c_void_p")

        def run() -> Any:
            *bound, error = self._run_arguments
            return c.library.kvmill_run_parallel(*bound, parallel_for, data, error)

        self._checked(run)

    def begin(self) -> int:
        """Start a run in parts; returns their number.  Raises KvmillError."""
        self._checked(lambda: c.library.kvmill_begin(byref(self._call), *self._run_arguments))
        return int(c.library.kvmill_parts(byref(self._call)))

    def part(self, index: int) -> None:
        """Run one part; does nothing if index is not in [0, parts)."""
        c.library.kvmill_part(byref(self._call), integer("index", index))

    def next(self) -> int | None:
        """End a phase, when all of its parts are done.  Returns the number of parts of the next
        one; None if the run is complete."""
        more = c.library.kvmill_next(byref(self._call))
        return int(c.library.kvmill_parts(byref(self._call))) if more else None
