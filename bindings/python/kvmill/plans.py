"""Packs, plans, and calls, which are plans bound to arrays.

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


# Arrays by place: the number of a tensor in the op's order, or its name if the plan uses names.
Arrays = Mapping[Any, np.ndarray]
MakeTensor = Callable[[Any, np.ndarray], c.DLTensor]  # takes a place and its array

def numbered(arrays: Sequence[np.ndarray | None]) -> Arrays:
    """Return the arrays that are not None, by their numbers in the op's order."""
    return {i: array for i, array in enumerate(arrays) if array is not None}


class Pack:
    """A pack of generated kernels: the shared library lib<name>.so that `kvmill generate` built.

    It stays loaded until the process ends.  Raises FileNotFoundError if there is no such file; OSError
    if it cannot be loaded; ValueError if its name is not that of a pack, or if it does not define
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
        """The symbols of the pack's kernels; `kvmill explain` describes them."""
        lines: list[str] = (self._head.manifest or b"").decode().splitlines()
        return tuple(line for line in lines if "__" in line)

    @property
    def kernel_count(self) -> int:
        """The number of kernels in the pack."""
        return int(self._head.count)


def version() -> str:
    """Return the version of the library in use."""
    return str(c.library.kvmill_version().decode())


@cache
def default_pack() -> Pack | None:
    """Return the pack for popular models that is installed next to the library, or None if there is
    none."""
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


# What to do if packs have no kernels.  "warn": warn once, and use portable kernels; "allow": use
# them without a warning; "refuse": raise KvmillError; "only": always use portable kernels.  False
# means "warn", True means "only".
Portable = Literal["warn", "allow", "refuse", "only"] | bool
_PORTABLE = {False: "warn", True: "only", **{word: word for word in Portable.__args__[0].__args__}}


class PlanOptions(c.PlanOptions):
    """Options of a plan.  If `warns` is set, a plan that finds no kernel for least_isa issues a
    warning, and is then made again without least_isa."""

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
    """Make a plan that lives as long as its owner.  The last argument is a PlanOptions."""
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
    """Whether a refused plan may use portable kernels after all.  If so, issues the warning, and
    drops least_isa for the owner's later plans."""
    options = owner._made_by[1][-1]
    if error.status_name != "KVMILL_E_KERNEL" or not options.warns:
        return False
    options.warns, options.least_isa = False, None
    text = f"portable kernels do the work, slowly: {error.message.replace(OF_PORTABLE, '')}"
    warnings.warn(text, PortableKernelWarning, stacklevel=_callers_level())
    return True


def _callers_level() -> int:
    """Return the stack level of the first frame outside the package, as seen by the calling
    function."""
    frame, level = sys._getframe(1), 1
    package = __name__.partition(".")[0]
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    return level


class Plan:
    """The base class of all plans."""

    _handle: c_void_p
    _made_by: tuple[str, tuple[Any, ...]]  # the library's function and its arguments
    _pool: Pool | None  # None: runs use only the caller's thread
    _idle: deque[Call]  # their workspaces serve later runs; they hold neither the plan nor arrays

    def describe(self) -> str:
        """Return what was planned, which kernels were selected, and why."""
        size = c.library.kvmill_plan_describe(self._handle, None, 0) + 1
        text = ctypes.create_string_buffer(size)
        c.library.kvmill_plan_describe(self._handle, text, size)
        return text.value.decode()

    @property
    def workspace_size(self) -> int:
        """The size of the workspace that a Call allocates for the library, in bytes."""
        return int(c.library.kvmill_plan_workspace_size(self._handle))

    def _operands(self, *arrays: Any, **named: Any) -> tuple[MakeTensor, Arrays]:
        """Return the arrays that are passed to prepare().  MakeTensor is the same for all calls of
        a plan."""
        raise NotImplementedError

    def _number_of(self, place: Any) -> int:
        return int(place)

    def _tensor_count(self, arrays: Arrays) -> int:
        """Return the op's number of tensors, including absent ones."""
        return int(max(arrays)) + 1

    def _prepare(self, make: MakeTensor, arrays: Arrays) -> Call:
        """Return a new call on the arrays."""
        call = Call(self, self._tensor_count(arrays))
        call._bind(self, make, arrays)
        return call

    def _run_on(self, make: MakeTensor, arrays: Arrays, executor: Executor | None = None) -> None:
        """Run on the arrays.  `make` is the same for all calls of a plan."""
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
_FUNCTION = ctypes.CFUNCTYPE(None).__bases__[0]  # the base class of all ctypes functions


def _make_workspace(size: int) -> np.ndarray | None:
    """Return a workspace of `size` bytes, aligned as the library requires."""
    if size == 0:
        return None
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % _ALIGNMENT
    return memory[first : first + size]


class Call:
    """A plan bound to arrays, for repeated runs that cost no more than in C.

    A plan's prepare() returns it.  It has its own workspace.  It keeps the plan and the arrays alive,
    and reads the current contents of the arrays in each run.  Use run(), or run it on threads of your
    own:

        parts = call.begin()                # checks everything
        while parts is not None:
            call.part(i)                    # once for each i in range(parts), any thread, any order
            parts = call.next()             # after all parts are done

    Only one thread at a time may call run() or begin(); many threads may call part().
    """

    def __init__(self, plan: Plan, count: int) -> None:
        self._workspace = _make_workspace(plan.workspace_size)
        self._owners: tuple[Any, ...] = ()
        self._layouts: dict[Any, Any] = {}  # of the tensors that are present, by place
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
        """Bind to other arrays of the plan.  If it raises, the call is unchanged.  A new tensor is
        made only if an array's layout differs from that of the previous array in its place;
        otherwise only the address is updated."""
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
        """Set the plan and the other arguments of a run."""
        self._run_arguments = handle, *others
        self._run = c.library.kvmill_run, self._run_arguments
        if self._pool is not None:
            self._run = c.library.kvmill_run_on, (handle, self._pool._handle, *others)

    def _checked(self, run: Callable[[], Any]) -> None:
        """Call `run`, and once more if the plan drops least_isa."""
        status = run()
        if status != 0:
            self._relent(status)
            check(run(), self._error)

    def _relent(self, status: int) -> None:
        """If the plan may use portable kernels, switch to such a plan.  Otherwise raise the
        refusal."""
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
        """Bind the call to other arrays.  The arguments are those of the plan's prepare(), and must
        fit the plan.  The workspace is kept.  If it raises, the call is unchanged."""
        plan = self._owners[0]
        self._bind(plan, *plan._operands(*arrays, **named))

    def run(self) -> None:
        """Run on the calling thread and on the plan's pool, if it has one.  Raises KvmillError;
        then nothing has been written."""
        function, arguments = self._run
        status = function(*arguments)
        if status != 0:
            self._relent(status)
            function, arguments = self._run
            check(function(*arguments), self._error)

    def run_threads(self, executor: Executor) -> None:
        """Run on the threads of a concurrent.futures.ThreadPoolExecutor.

        Results do not depend on the number of threads.  Raises KvmillError; then nothing has been
        written."""
        if not isinstance(executor, Executor):
            raise TypeError(f"executor is {shown(executor)}; accepted: a concurrent.futures.Executor")
        parts: int | None = self.begin()
        while parts is not None:
            for _ in executor.map(self.part, range(parts)):
                pass
            parts = self.next()

    def run_parallel(self, parallel_for: Any, data: c_void_p | None = None) -> None:
        """Run on a parallel loop in C.

        parallel_for: a kvmill_parallel_for (kvmill.h), as a ctypes function or a c_void_p.
        data: a c_void_p that is passed to it.

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
        """Start a run in parts.  Returns the number of parts.  Raises KvmillError."""
        self._checked(lambda: c.library.kvmill_begin(byref(self._call), *self._run_arguments))
        return int(c.library.kvmill_parts(byref(self._call)))

    def part(self, index: int) -> None:
        """Run one part.  Does nothing if index is not in [0, parts)."""
        c.library.kvmill_part(byref(self._call), integer("index", index))

    def next(self) -> int | None:
        """End a phase after all of its parts are done.  Returns the number of parts of the next
        phase, or None if the run is complete."""
        more = c.library.kvmill_next(byref(self._call))
        return int(c.library.kvmill_parts(byref(self._call))) if more else None
