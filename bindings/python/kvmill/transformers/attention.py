"""The attention "kvmill", and the masks that transformers makes for it.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import causal_mask_function, sdpa_mask

from .cache import NewStates
from .ops import attend, scores_of
from .spans import make_spans, numbers_of

NAME = "kvmill"


# ---- Masks ----


def _closed_over(function: Callable, name: str) -> tuple:
    """Return the variables that a function from transformers' function `name` closes over, or ()
    for other functions."""
    if not getattr(function, "__qualname__", "").startswith(f"{name}.<locals>."):
        return ()
    return tuple(cell.cell_contents for cell in function.__closure__ or ())


def _window_of(mask_function: Callable) -> int | None:
    """Return the size of a causal sliding window, including the query's own position; 0 for causal
    without a window; None if the function hides anything else."""
    if mask_function is causal_mask_function:
        return 0
    for parts in _closed_over(mask_function, "and_masks"):
        if isinstance(parts, tuple) and len(parts) == 2 and parts[1] is causal_mask_function:
            for window in _closed_over(parts[0], "sliding_window_overlay"):
                return window
    return None


def _spans(attention_mask, offset, *sizes: int) -> torch.Tensor | None:
    if torch.compiler.is_compiling():
        at = offset if isinstance(offset, torch.Tensor) else torch.tensor(offset)
        return torch.ops.kvmill.make_spans(attention_mask, at, *sizes)
    return make_spans(attention_mask, int(offset), *sizes)


def _hides_nothing(spans: torch.Tensor, kv_length: int) -> bool:
    """Whether all keys are present and there is no window.  False while torch.compile traces,
    because the numbers are not known."""
    if torch.compiler.is_compiling():
        return False
    numbers = numbers_of(spans)
    return not numbers[:, ::2].any() and numbers[0, 1] == kv_length


def make_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | torch.Tensor = 0,
    kv_offset: int = 0,
    mask_function: Callable = causal_mask_function,
    attention_mask: torch.Tensor | None = None,
    **others: object,
) -> torch.Tensor | None:
    """Return the attention_mask for attention "kvmill".  transformers calls this once for all layers of
    a kind.

    The result is one of:

    * None: causal, without padding, and the queries are the last positions.
    * int64 [B, 1, 1, 3]: spans (spans.py).
    * bool [B, 1, S, T]: any other mask, such as one with padding that is not on the left.
    """
    window = _window_of(mask_function)
    if window is not None:
        spans = _spans(attention_mask, q_offset, batch_size, q_length, kv_offset, window)
        if spans is not None:
            return None if _hides_nothing(spans, kv_length) else spans
    return sdpa_mask(
        batch_size,
        q_length,
        kv_length,
        q_offset,
        kv_offset,
        mask_function,
        attention_mask,
        **{**others, "allow_is_causal_skip": False},
    )


# ---- Attention ----

_ACCEPTED = {
    "device of query": "cpu",
    "dropout": "0.0: training is not supported",
    "output_attentions": "False: scores are not kept",
    "position_bias": "None",
    "gradients": "none: torch.no_grad() or torch.inference_mode()",
}


def _refuse_what_is_given(**given: object) -> None:
    for name, value in given.items():
        if value:
            words = name.replace("_of_", " of ")
            raise ValueError(f"attention kvmill: {words}: {value}; accepted: {_ACCEPTED[words]}")


def _wants_gradients(*states: torch.Tensor) -> bool:
    return any(tensor.requires_grad for tensor in states)


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor | NewStates,
    value: torch.Tensor | NewStates,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    sliding_window: int | None = None,
    s_aux: torch.Tensor | None = None,
    is_causal: bool | None = None,
    output_attentions: bool = False,
    position_bias: torch.Tensor | None = None,
    **_: object,
) -> tuple[torch.Tensor, None]:
    """The attention function for transformers' AttentionInterface.

    query: [B, H, S, D].  key, value: [B, G, T, D] and [B, G, T, E], or what a KvmillCache returned.
    attention_mask: what make_mask returned, or a mask of four dims.  Returns [B, S, H, E] and None.
    Raises ValueError, TypeError and KvmillError for what is not supported."""
    is_new = isinstance(key, NewStates)
    keys, values = (key.take(), value.take()) if is_new else (key, value)
    gradients = torch.is_grad_enabled() and _wants_gradients(query, keys, values)
    if not query.is_cpu or dropout or output_attentions or position_bias is not None or gradients:
        _refuse_what_is_given(
            device_of_query="" if query.is_cpu else query.device,
            dropout=dropout,
            output_attentions=output_attentions,
            position_bias="" if position_bias is None else tuple(position_bias.shape),
            gradients=gradients,
        )
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    math = key.layer.math if is_new else "f32"
    scores = scores_of(scale, softcap or 0, sliding_window or 0, math)
    if is_new:
        return key.layer.attend(query, keys, values, attention_mask, s_aux, scores), None
    is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    run = _attend_in_graph if torch.compiler.is_compiling() else attend
    return run(query, keys, values, attention_mask, s_aux, scores, bool(is_causal)), None


def _attend_in_graph(query, key, value, mask, sinks, scores, is_causal) -> torch.Tensor:
    return torch.ops.kvmill.attend(
        query,
        key,
        value,
        mask,
        sinks,
        is_causal,
        scores.scale,
        scores.softcap,
        scores.window,
        scores.math,
    )


def register() -> None:
    """Register the attention "kvmill" with transformers.  Importing kvmill.transformers calls
    this."""
    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, make_mask)
