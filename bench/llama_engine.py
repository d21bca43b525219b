"""Runs llama.cpp through the low-level calls of llama-cpp-python: contexts with kvmill's attention
and with llama.cpp's, of one model in one process.

A context has the accelerators that were loaded before it was created, so load_adapter() is called
after the contexts of llama.cpp and before those of kvmill.  Needs llama-cpp-python, built with
shared libraries, as its source distribution is.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

# Otherwise llama.cpp would load this library for all contexts.
os.environ.pop("GGML_BACKEND_PATH", None)

import llama_cpp  # noqa: E402
import numpy as np  # noqa: E402

ATTENTION, STORING = "FLASH_ATTN_EXT", "SET_ROWS"

# Numbers of enum ggml_type.
CACHE_TYPES = {"f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "iq4_nl": 20}



def loaded_path(name: str) -> Path:
    """The path of a library that this process has loaded."""
    paths = (line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines())
    return Path(next(path for path in paths if f"/{name}.so" in path))


def _loaded(name: str) -> ctypes.CDLL:
    """The library that llama.cpp has loaded.  A wheel also has copies with other names, and each
    copy has its own list of backends."""
    return ctypes.CDLL(str(loaded_path(name)))


_ggml = _loaded("libggml")
_base = _loaded("libggml-base")
_ggml.ggml_backend_load.restype = ctypes.c_void_p
_ggml.ggml_backend_load.argtypes = [ctypes.c_char_p]
_base.ggml_op_desc.restype = ctypes.c_char_p
_base.ggml_op_desc.argtypes = [ctypes.c_void_p]
_base.ggml_get_name.restype = ctypes.c_char_p
_base.ggml_get_name.argtypes = [ctypes.c_void_p]


@llama_cpp.llama_log_callback
def _log(level: int, text: bytes, data: object) -> None:
    if level == 4:
        print(text.decode(errors="replace"), end="")


def load_adapter(path: str) -> None:
    """Loads kvmill's backend, for contexts that are created later."""
    if not _ggml.ggml_backend_load(path.encode()):
        raise SystemExit(f"{path}: llama.cpp does not load it; its lines above say why")


def own_products_work(path: str | Path) -> bool:
    """Whether llama.cpp survives its own products of repacked weights.  On some virtual machines
    whose processor has AMX it dies of an illegal instruction, so another process tries them."""
    if "amx_tile" not in Path("/proc/cpuinfo").read_text():
        return True
    tried = subprocess.run([sys.executable, __file__, str(path)], check=False, capture_output=True)
    if tried.returncode != 0:
        print(f"# {path}: weights are not repacked: llama.cpp dies of its own products here")
    return tried.returncode == 0


class Model:
    """A GGUF file.  repacked: whether llama.cpp repacks weights for its own products; by default,
    if it survives them."""

    def __init__(self, path: str | Path, *, repacked: bool | None = None) -> None:
        llama_cpp.llama_log_set(_log, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        params = llama_cpp.llama_model_default_params()
        params.use_extra_bufts = own_products_work(path) if repacked is None else repacked
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        if not self.model:
            raise SystemExit(f"{path}: llama.cpp does not load it")
        self.vocabulary = llama_cpp.llama_model_get_vocab(self.model)
        self.words = llama_cpp.llama_vocab_n_tokens(self.vocabulary)

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text, with the one that begins a text."""
        data = text.encode()
        found = (llama_cpp.llama_token * (len(data) + 2))()
        count = llama_cpp.llama_tokenize(
            self.vocabulary, data, len(data), found, len(found), True, False
        )
        return list(found[:count])


# ---- States of a sequence, as llama.cpp writes them ----


class Reader:
    """Reads consecutive little-endian numbers and bytes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def take(self, size: int) -> bytes:
        self.place += size
        return self.data[self.place - size : self.place]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")


def repeated_rows(reader: Reader, cells: int, times: int) -> bytes:
    """Repeats K or V of a layer: a type, the bytes of a row, the rows of all cells."""
    kind, size = reader.take(4), reader.number(8)
    return kind + size.to_bytes(8, "little") + reader.take(size * cells) * times


def repeated_cache(reader: Reader, times: int) -> bytes:
    """Repeats one cache: the number of streams, which must be 1; cells with their positions, each
    in sequence 0; K and V of all layers, where V is not transposed, as with -fa on."""
    streams, cells = reader.number(4), reader.number(4)
    places = [tuple(reader.number(4) for _ in range(3)) for _ in range(cells)]
    transposed, layers = reader.number(4), reader.number(4)
    if streams != 1 or places != [(i, 1, 0) for i in range(cells)] or transposed:
        raise SystemExit("llama.cpp has a state that this benchmark does not know")
    numbers = [streams, cells * times]
    numbers += [number for i in range(cells * times) for number in (i, 1, 0)]
    numbers += [transposed, layers]
    parts = [number.to_bytes(4, "little") for number in numbers]
    parts += [repeated_rows(reader, cells, times) for _ in range(2 * layers)]
    return b"".join(parts)


def repeated_state(state: bytes, times: int) -> bytes:
    """Repeats all caches: a model with windows has two."""
    reader = Reader(state)
    parts = [reader.take(8)]  # the kind of state
    while reader.place < len(state):
        parts.append(repeated_cache(reader, times))
    return b"".join(parts)


class Context:
    """A context of a model.  k, v: types of the cache; flash: -fa on; times: collects seconds of
    nodes by op and name, which takes time itself; attended: called with the address of each
    attention node after llama.cpp has computed it and before it uses the result."""

    def __init__(
        self,
        model: Model,
        cells: int,
        k: str = "f16",
        v: str = "",
        *,
        threads: int = 1,
        flash: bool = True,
        times: bool = False,
        attended: Callable[[int], None] | None = None,
    ) -> None:
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = cells
        params.n_batch = params.n_ubatch = 512
        params.n_threads = params.n_threads_batch = threads
        params.type_k = CACHE_TYPES[k]
        params.type_v = CACHE_TYPES[v or k]
        params.flash_attn_type = int(flash)
        params.swa_full = True
        self.seconds: dict[tuple[str, str], list[float]] = {}
        self._began = 0.0
        self._attended = attended
        self._callback = llama_cpp.ggml_backend_sched_eval_callback(
            self._watch if times else self._show
        )
        if times or attended is not None:
            params.cb_eval = self._callback
        self.model = model
        self.context = llama_cpp.llama_init_from_model(model.model, params)
        if not self.context:
            raise SystemExit(f"llama.cpp makes no context for a cache of {k}, {v or k}")
        self.memory = llama_cpp.llama_get_memory(self.context)
        self.past = 0

    def _watch(self, node: int, ask: bool, data: object) -> bool:
        """Asks for each node: llama.cpp computes up to a node that was asked for."""
        now = time.perf_counter()
        if not ask:
            key = _base.ggml_op_desc(node).decode(), _base.ggml_get_name(node).decode()
            self.seconds.setdefault(key, []).append(now - self._began)
        self._began = time.perf_counter()
        return True

    def _show(self, node: int, ask: bool, data: object) -> bool:
        """Asks for attention nodes."""
        if not ask and self._attended is not None:
            self._attended(node)
        return _base.ggml_op_desc(node).decode() == ATTENTION

    def evaluate(self, tokens: list[int], outputs: int = 1) -> np.ndarray:
        """Computes at most 512 tokens; returns logits of the last `outputs` of them."""
        count = len(tokens)
        batch = llama_cpp.llama_batch_init(count, 0, 1)
        batch.n_tokens = count
        for i, token in enumerate(tokens):
            batch.token[i] = token
            batch.pos[i] = self.past + i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = i >= count - outputs
        failed = llama_cpp.llama_decode(self.context, batch)
        llama_cpp.llama_batch_free(batch)
        if failed:
            raise SystemExit(f"llama_decode: {failed}")
        self.past += count
        logits = llama_cpp.llama_get_logits(self.context)
        return np.ctypeslib.as_array(logits, (outputs, self.model.words))

    def rewind(self, past: int = 0) -> None:
        """Removes all tokens from position `past` on."""
        llama_cpp.llama_memory_seq_rm(self.memory, 0, past, -1)
        self.past = past

    def take(self, other: Context) -> None:
        """Copies the cache of a context with the same types."""
        size = llama_cpp.llama_state_seq_get_size(other.context, 0)
        state = (ctypes.c_uint8 * size)()
        llama_cpp.llama_state_seq_get_data(other.context, state, size, 0)
        self.rewind()
        if not llama_cpp.llama_state_seq_set_data(self.context, state, size, 0):
            raise SystemExit("llama.cpp does not take its own state")
        self.past = other.past

    def deepen(self, times: int) -> None:
        """Replaces the cache by `times` copies of its rows, at consecutive positions."""
        size = llama_cpp.llama_state_seq_get_size(self.context, 0)
        state = (ctypes.c_uint8 * size)()
        llama_cpp.llama_state_seq_get_data(self.context, state, size, 0)
        deep = repeated_state(bytes(state), times)
        self.rewind()
        taken = (ctypes.c_uint8 * len(deep)).from_buffer_copy(deep)
        if not llama_cpp.llama_state_seq_set_data(self.context, taken, len(deep), 0):
            raise SystemExit("llama.cpp does not take a state that is deeper than its own")
        self.past = llama_cpp.llama_memory_seq_pos_max(self.memory, 0) + 1

    def close(self) -> None:
        """Frees the context's memory."""
        llama_cpp.llama_free(self.context)


if __name__ == "__main__":  # the other process of own_products_work: a prompt, then a token
    tried = Context(Model(sys.argv[1], repacked=True), 512)
    tried.evaluate([5 + i for i in range(64)])
    tried.evaluate([5])
