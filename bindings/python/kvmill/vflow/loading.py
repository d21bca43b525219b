"""Loads a class as a kvmill.Flow.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from ..errors import KvmillError
from ..flow import Flow
from .errors import VFlowError
from .sources import opened
from .tracing import Trace, trace


class VFlow(Flow):
    """A sparse flow that was made of a class.

    json: the text of a flow file.  spec: the same as a dict.
    """

    def __init__(self, traced: Trace) -> None:
        self.spec, self.json = traced.spec, traced.text
        try:
            super().__init__(traced.spec)
        except KvmillError as error:
            raise VFlowError(_at_its_place(traced, error.message)) from error


def _at_its_place(traced: Trace, message: str) -> str:
    """Replace the JSON path in a message by the line of the class that it is about."""
    found = re.match(r"flow: (/\S*): ", message)
    path = found[1] if found else ""
    words = message[found.end() :] if found else message
    step = re.match(r"/(cache|index)/(\d+)", path)
    op = f"{traced.spec[step[1]][int(step[2])]['op']}: " if step else f"{path.lstrip('/')}: " if path else ""
    return f"{traced.place_of(path)}: {op}{words}"


def load(
    flow: Any,
    *,
    page_size: int | None = None,
    block_size: int | None = None,
    head_dim: int | None = None,
    topk_val: int | str | None = None,
    page_reserved_bos: int | None = None,
    page_reserved_eos: int | None = None,
    topk_ratio: float | str | Fraction | None = None,
    **more: int | float | str | bool | Sequence[int],
) -> VFlow:
    """Return the flow of a vFlow class, whose methods run once, on tensors without numbers.

    flow: a class, an instance of one, or "FILE.py:CLASS", where CLASS may also be the name by which the
    class is registered.
    page_size: tokens of a page.  block_size: tokens of the blocks that are scored, if a page has several;
    create_cache then gets this size.
    topk_val (a number or "all"), page_reserved_bos, page_reserved_eos, topk_ratio: how many pages are
    selected.
    more: cap, dense_below, order, scope, summary, temporaries, field_layout, layers_skip and name, as in a
    flow file; and attributes of attention, such as num_heads=32, T1="bfloat16".

    What is not given is taken from the class's attribute `kvmill`, a dict of these arguments, if it has
    one.  The rest is as in vortex_torch (16, 30, 1, 1, 0), with heads of 128, 32 on 8.

    Raises VFlowError, with the file and line, if kvmill cannot express the class, and OSError as
    kvmill.Flow.
    """
    sizes = {"page_size": page_size, "block_size": block_size, "head_dim": head_dim}
    select = {"topk_val": topk_val, "topk_ratio": topk_ratio}
    select |= {"page_reserved_bos": page_reserved_bos, "page_reserved_eos": page_reserved_eos}
    if not isinstance(flow, str):
        return VFlow(trace(flow, sizes, select, more))
    with opened(flow) as (cls, source):
        return VFlow(trace(cls, source.settings, sizes, select, more))
