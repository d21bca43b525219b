"""Spans: causal masks with padding on the left and possibly a window.

The *span* of a sequence is three numbers.  The first two are the columns that hold tokens, [first,
end): columns before them are padding, and columns after them do not exist yet.  The third is how
many columns a query sees, including its own; 0: all.  The queries are at the last columns.  Spans
are a tensor of four dims, because transformers does not change masks of four dims.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import numpy as np
import torch

_last: tuple[torch.Tensor | None, np.ndarray] = None, np.empty((0, 3), np.int64)


def numbers_of(spans: torch.Tensor) -> np.ndarray:
    """Return the first column, end and window of each sequence, [B, 3], without a copy."""
    global _last
    last = _last  # all layers of a step ask for the same spans
    if last[0] is not spans:
        _last = last = spans, spans.numpy().reshape(-1, 3)
    return last[1]


def make_spans(
    attention_mask: torch.Tensor | None,
    offset: int,
    batch: int,
    tokens: int,
    kv_offset: int,
    window: int,
) -> torch.Tensor | None:
    """Return spans, int64 [B, 1, 1, 3], of a step that begins at column `offset`, where the first
    key is at column kv_offset.

    attention_mask: bool [B, columns], true for tokens; None: all are tokens.

    Returns None if padding is not on the left, or if the mask does not have all columns of the
    step."""
    end = offset + tokens
    spans = torch.empty((batch, 1, 1, 3), dtype=torch.int64)
    numbers = numbers_of(spans)
    numbers[:] = -kv_offset, end - kv_offset, window
    if attention_mask is None:
        return spans
    seen = attention_mask.numpy()[:, :end]
    first = end - seen.sum(axis=1)
    begins = seen.argmax(axis=1)
    is_left = (begins == first) | (first == end)
    if seen.shape[1] < end or not is_left.all():
        return None
    numbers[:, 0] += first
    return spans
