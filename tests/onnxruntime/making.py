"""Kernels that sessions generate: what the command gets, that packs are kept, and errors.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pmx_nodes
from models import claims, log_of, provider_session
from tap import Tap, refused

SLOW = "no pack has fast kernels of its shape: kvmill generate makes them"


@contextmanager
def environment(**changed: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def command(script: str) -> Iterator[Path]:
    """Make a shell script that is used as the command.  It finds the folder with the nodes in
    $folder."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "command")
        path.write_text(f"#!/bin/sh\nfolder={folder}\n{script}\n")
        path.chmod(0o700)
        with environment(KVMILL_COMMAND=str(path)):
            yield Path(folder)


# ---- What the command gets ----


def given_nodes(model: onnx.ModelProto) -> None:
    """The command gets the nodes as they are in the model, with what the runtime knows of their
    values."""
    script = 'printf "%s " "$@" >$folder/words; cp "$5" $folder/nodes.onnx; exit 1'
    with command(script) as folder:
        claims(model, make_kernels="1")
        words = (folder / "words").read_text().split()
        got = onnx.load(folder / "nodes.onnx")
    assert words[:4] == ["generate", "--keep", "--ort", "--model"], words
    assert words[-2:] == ["--math", "f32"] and "--isa" in words, words
    nodes = {node.output[0]: node for node in got.graph.node}
    assert len(nodes) == len(model.graph.node), got
    for want in model.graph.node:
        have = nodes[want.output[0]]
        assert (have.op_type, have.domain) == (want.op_type, want.domain), have
        last = len(want.input)
        assert have.input[:last] == want.input and not any(have.input[last:]), have
        assert list(have.output)[: len(want.output)] == list(want.output), have
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in have.attribute}
        for attribute in want.attribute:
            value = onnx.helper.get_attribute_value(attribute)
            assert attributes[attribute.name] == value, attribute.name
    inputs = {i.name: i.type.tensor_type for i in got.graph.input}
    for want in model.graph.input:
        have, tensor = inputs[want.name], want.type.tensor_type
        assert have.elem_type == tensor.elem_type, want.name
        shapes = [[d.dim_value for d in side.shape.dim] for side in (have, tensor)]
        assert shapes[0] == shapes[1], f"{want.name}: {shapes}"
    versions = {opset.domain: opset.version for opset in got.opset_import}
    assert all(versions[o.domain] == o.version for o in model.opset_import), versions


# ---- Kernels that are made ----


def made_once() -> None:
    """Two sessions at the same time generate the same pack, and a third one finds it; results are
    right."""
    model, line = pmx_nodes.node_model("KeyValueCache"), 'takes node "node" (KeyValueCache)'
    arrays = pmx_nodes.node_arrays(model, 3)
    want = provider_session(model).run(None, {n: a.copy() for n, a in arrays.items()})
    with tempfile.TemporaryDirectory() as folder, environment(CFLAGS="-O1"):
        results: list = []

        def work() -> None:
            session = provider_session(model, make_kernels=folder)
            results.extend(session.run(None, {n: a.copy() for n, a in arrays.items()}))

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == 4, "a session has failed"
        assert all(np.array_equal(got, want[i % 2]) for i, got in enumerate(results))
        kept = list(Path(folder).glob("kvmill/*/libsession.so"))
        assert len(kept) == 1, kept
        with environment(KVMILL_MAKE="/dev/null/absent"):
            lines = claims(model, make_kernels=folder)
        assert lines == ["makes kernels for 1 nodes", f"{line} as KeyValueCache"], lines


# ---- What goes wrong ----


def require_ended(process: str) -> None:
    """Check that a process has ended, or has only not been waited for."""
    status = Path("/proc", process, "stat")
    end = time.monotonic() + 10
    while status.exists() and status.read_text().rpartition(")")[2].split()[0] not in "ZX":
        assert time.monotonic() < end, f"process {process} still runs"
        time.sleep(0.05)


def goes_on(script: str, reason: str, seconds: str = "600") -> None:
    """The log has the reason, and the session works as it would have without the option."""
    with command(script) as folder:
        begin = time.monotonic()
        lines = claims(pmx_nodes.node_model(), make_kernels="1", make_seconds=seconds)
        took = time.monotonic() - begin
        if (folder / "process").exists():
            require_ended((folder / "process").read_text().strip())
    assert took < 60, f"{took} s"
    assert lines[0] == "makes kernels for 1 nodes", lines
    assert lines[1].startswith(f"makes no kernels: {reason}"), lines
    assert lines[2].endswith(SLOW), lines


def no_command() -> None:
    with environment(KVMILL_COMMAND="/dev/null/absent/kvmill"):
        lines = claims(pmx_nodes.node_model(), make_kernels="1")
    reason = "makes no kernels: /dev/null/absent/kvmill: cannot be run: Not a directory"
    assert any(line.startswith(reason) for line in lines), lines


def unsafe_directory() -> None:
    """A directory where others could put a library is refused."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder, "kvmill")
        kept.mkdir()
        kept.chmod(0o777)
        lines = claims(pmx_nodes.node_model(), make_kernels=folder)
        assert not list(kept.iterdir()), "something was kept there"
    words = "nobody else may write"
    assert any("makes no kernels" in line and words in line for line in lines), lines


def run(tap: Tap, model: onnx.ModelProto) -> None:
    """model: has the nodes of all entrances."""
    tap.run("making kernels: the command gets the nodes as they are", partial(given_nodes, model))
    tap.run("making kernels: by two sessions at once, then kept", made_once)
    for what, script, reason, seconds in (
        ("that fails", "echo one >&2; echo 'kvmill: two' >&2; exit 1",
         "kvmill generate failed: kvmill: two", "600"),
        ("that prints no library", "echo /dev/null/absent/libsession.so",
         "make_kernels: /dev/null/absent/libsession.so: cannot open", "600"),
        ("that takes too long", "sleep 100 & echo $! >$folder/process; wait",
         "kvmill generate took longer than make_seconds, 1, and was ended", "1"),
    ):  # fmt: skip
        tap.run(f"making kernels: a command {what}", partial(goes_on, script, reason, seconds))
    tap.run("making kernels: no command", no_command)
    tap.run("making kernels: not where others may write", unsafe_directory)
    for name, value, accepted in (
        ("make_kernels", "yes", "0, 1 or the absolute path of a directory"),
        ("make_seconds", "0", "1 to 1000000"),
    ):
        wrong = partial(provider_session, pmx_nodes.node_model(), **{name: value})
        words = f'{name} is "{value}"; accepted: {accepted}'
        tap.run(f"the session stops: another {name}", partial(refused, words, wrong, Exception))
