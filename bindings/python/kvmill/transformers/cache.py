"""KvmillCache: a cache for transformers that keeps its rows in any of kvmill's formats.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from transformers.cache_utils import Cache, CacheLayerMixin, get_layer_types_and_kwargs

from .formats import TILE, Format, format_named
from .ops import Rows, Scores, store_and_attend
from .tensors import dtype_of

# A growing cache has room for this many rows beyond the first tokens.  A ring has as many beyond
# its window, so that a prompt can be stored and attended to in chunks of that many tokens and one
# more.
_SLACK = 256


_REFUSED = (
    "the rows of a KvmillCache were given to another attention; accepted: "
    'model.set_attn_implementation("kvmill")'
)


def _whole_tiles(rows: int) -> int:
    return -(-rows // TILE) * TILE


class NewStates:
    """Keys or values that attention "kvmill" is going to store; a layer's update() returns them.

    They are not tensors.  Any other attention that uses them gets a TypeError."""

    def __init__(self, layer: KvmillLayer, states: torch.Tensor) -> None:
        self.layer, self.states, self.is_stored = layer, states, False

    def take(self) -> torch.Tensor:
        """Return the states.  Raises ValueError if they were stored before."""
        if self.is_stored:
            raise ValueError(
                "a layer attends to what another has stored in a KvmillCache; accepted: models "
                "whose layers have rows of their own"
            )
        self.is_stored = True
        return self.states

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        raise TypeError(_REFUSED)

    @classmethod
    def __torch_function__(cls, *_):
        raise TypeError(_REFUSED)


class KvmillLayer(CacheLayerMixin):
    """A layer of a KvmillCache.

    max_cache_len: the number of columns, allocated at the start; 0: the cache grows.
    sliding_window: how many positions a query sees, including its own; 0: all.  With a window, rows
    are a ring, unless max_cache_len is not larger."""

    def __init__(
        self,
        how: tuple[Format | None, Format | None],
        group: int,
        max_cache_len: int = 0,
        sliding_window: int = 0,
        math: str = "f32",
    ) -> None:
        super().__init__()
        ring = _whole_tiles(sliding_window + _SLACK - 1) if sliding_window else 0
        self.max_cache_len = max_cache_len
        self.sliding_window = sliding_window
        self.is_sliding = sliding_window > 0
        self.is_ring = ring > 0 and not 0 < max_cache_len <= ring
        self.is_compileable = max_cache_len > 0
        self.is_croppable = True
        self.math = math
        self._capacity = ring if self.is_ring else _whole_tiles(max_cache_len)
        self._how, self._group = how, group
        self._length = 0
        self._count = torch.zeros((), dtype=torch.int64)  # the length, if there is a maximum
        self.rows: Rows | None = None

    # ---- Memory ----

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        batch, heads, tokens, dim = key_states.shape
        value_dim, T1 = value_states.shape[-1], key_states.dtype
        plain = format_named(dtype_of(T1).name)
        how = tuple(chosen or plain for chosen in self._how)
        lead = (heads, batch, self._capacity or _whole_tiles(tokens + _SLACK))
        self.rows = Rows(
            how[0].new_rows(lead, dim),
            how[0].new_scales(lead, dim, T1),
            how[1].new_rows(lead, value_dim),
            how[1].new_scales(lead, value_dim, T1),
            how,
            0 if self.is_ring else self.max_cache_len or lead[2],
        )
        self.batch_size = batch
        self.is_initialized = True
        if self.is_compileable and not torch.compiler.is_compiling():
            for tensor in (*self._tensors(), self._count):
                torch._dynamo.mark_static_address(tensor)

    def _tensors(self) -> list[torch.Tensor]:
        rows = self.rows
        tensors = (rows.keys, rows.key_scales, rows.values, rows.value_scales)
        return [tensor for tensor in tensors if tensor is not None]

    def _change(self, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """Apply a function to all tensors, [heads, batch, capacity, row]."""
        for name in ("keys", "key_scales", "values", "value_scales"):
            tensor = getattr(self.rows, name)
            if tensor is not None:
                setattr(self.rows, name, change(tensor))
        self.rows.views = None
        self.batch_size = self.rows.keys.shape[1]

    def _make_room(self, length: int) -> None:
        """Make room for `length` columns, if the cache grows."""
        if self.is_ring or self.max_cache_len or length <= self.rows.most:
            return
        capacity = self.rows.most
        more = _whole_tiles(max(length + _SLACK, 2 * capacity)) - capacity
        self._change(lambda tensor: torch.nn.functional.pad(tensor, (0, 0, 0, more)))
        self.rows.most += more

    # ---- What transformers calls ----

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args, **kwargs
    ) -> tuple[NewStates, NewStates]:
        """Return the states, which attention stores when it runs on them."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        return NewStates(self, key_states), NewStates(self, value_states)

    def get_seq_length(self) -> int | torch.Tensor:
        """Return the number of stored columns, including padding.  If the layer has a maximum, this
        is a tensor, so that what torch.compile produces does not depend on it."""
        if self.is_compileable and self.is_initialized:
            return self._count
        return self._length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        if torch.compiler.is_compiling():
            return self.max_cache_len, 0
        return int(self.get_seq_length()) + query_length, 0

    def get_max_length(self) -> int:
        return self.max_cache_len or -1

    def _set_length(self, length: int) -> None:
        self._length = length
        if self.is_compileable:
            self._count.fill_(length)

    def reset(self) -> None:
        self._set_length(0)

    def crop(self, tokens_to_remove: int) -> None:
        """Remove the last -tokens_to_remove columns.  Raises ValueError if a ring has overwritten
        rows that would then be visible."""
        length = int(self.get_seq_length())
        if not -length <= tokens_to_remove <= 0:
            raise ValueError(f"crop({tokens_to_remove}); accepted: {-length} to 0")
        slots = self._capacity if self.is_ring else length
        kept = max(slots - self.sliding_window, 0)
        if self.is_ring and length > slots and -tokens_to_remove > kept:
            raise ValueError(
                f"crop({tokens_to_remove}) of a layer with a window of {self.sliding_window}; "
                f"accepted: {-kept} to 0"
            )
        self._set_length(length + tokens_to_remove)

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        if self.is_initialized:
            self._change(lambda tensor: tensor.index_select(1, beam_idx))

    def batch_repeat_interleave(self, repeats: int) -> None:
        if self.is_initialized:
            self._change(lambda tensor: tensor.repeat_interleave(repeats, dim=1))

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        if self.is_initialized:
            self._change(lambda tensor: tensor[:, indices].contiguous())

    # ---- What attention calls ----

    def _check(self, query: torch.Tensor, spans: torch.Tensor | None) -> None:
        if spans is not None and spans.dtype != torch.int64:
            raise ValueError(
                f"attention_mask of shape {tuple(spans.shape)} with a KvmillCache; accepted: "
                "[batch, tokens] with padding on the left, and masks of no other kind; or another "
                "cache"
            )
        if query.shape[0] != self.batch_size:
            raise ValueError(
                f"a batch of {query.shape[0]} on a cache of {self.batch_size} sequences; accepted: "
                "as many; reset() keeps the batch"
            )

    def attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        spans: torch.Tensor | None,
        sinks: torch.Tensor | None,
        scores: Scores,
    ) -> torch.Tensor:
        """Store key and value, and attend, like ops.store_and_attend.  Also raises ValueError."""
        self._check(query, spans)
        if torch.compiler.is_compiling():
            return self._attend_in_graph(query, key, value, spans, sinks, scores)
        start, tokens = int(self.get_seq_length()), query.shape[2]
        self._make_room(start + tokens)
        output = store_and_attend(query, key, value, self.rows, start, spans, sinks, scores)
        self._set_length(start + tokens)
        return output

    def _attend_in_graph(self, query, key, value, spans, sinks, scores) -> torch.Tensor:
        if not self.is_compileable:
            raise TypeError("a cache that grows in torch.compile; accepted: max_cache_len=N")
        rows, (of_key, of_value) = self.rows, self.rows.how
        output = torch.ops.kvmill.store_and_attend(
            query,
            key,
            value,
            rows.keys,
            rows.key_scales,
            rows.values,
            rows.value_scales,
            self._count,
            spans,
            sinks,
            of_key.name,
            of_key.group,
            of_value.name,
            of_value.group,
            rows.most,
            scores.scale,
            scores.softcap,
            scores.window,
            scores.math,
        )
        self._count.add_(query.shape[2])
        return output


class KvmillCache(Cache):
    """The keys and values of a model's layers, for attention "kvmill" only.

    config: the model's.
    format: the format of keys, a value of `kvmill generate --cache`: "float32", "float16", "bfloat16",
        "float8e4m3fn", "float8e5m2", "int8", "int4", "int8_tiles", "int4_tiles", "q8_0", "q4_0",
        "q5_1"; default: the model's type.
    value_format: the format of values; default: that of keys.
    group: the number of elements that share a scale in int8 and int4; it must divide the head size.
    max_cache_len: the number of columns, allocated at the start, as torch.compile requires; longer
        sequences are refused.  By default the cache grows.
    math: the arithmetic of attention: "f32", "near" or "fast", as in kvmill.h.

    Layers with a sliding window keep little more than the window.  Memory is on the CPU.  Only one
    thread at a time may use a cache.  Raises ValueError for arguments that are not accepted.
    """

    def __init__(
        self,
        config,
        *,
        format: str | None = None,
        value_format: str | None = None,
        group: int = 32,
        max_cache_len: int | None = None,
        math: str = "f32",
    ) -> None:
        if max_cache_len is not None and max_cache_len < 1:
            raise ValueError(f"max_cache_len {max_cache_len}; accepted: None, or 1 or more")
        words = format, value_format or format
        how = tuple(None if word is None else format_named(word, group) for word in words)
        types, details = get_layer_types_and_kwargs(config.get_text_config(decoder=True))
        windows = {"full_attention": 0, "sliding_attention": None}
        layers = []
        for i, (kind, detail) in enumerate(zip(types, details, strict=True)):
            if kind not in windows:
                raise ValueError(f"layer {i} is {kind}; accepted: {', '.join(windows)}")
            window = detail.get("sliding_window") or 0
            layers.append(KvmillLayer(how, group, max_cache_len or 0, window, math))
        super().__init__(layers=layers)
