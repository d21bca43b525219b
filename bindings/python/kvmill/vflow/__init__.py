"""Sparse flows from classes: vFlow programs, in the form of vortex_torch.

    flow = kvmill.vflow.load("my_flow.py:MyFlow", page_size=16, topk_val=30)    # or a class
    print(flow.json)                                                            # a flow file
    decode = flow.plan("decode", batch=1, pages=2048)

The class's methods create_cache, forward_cache and forward_indexer run once, on tensors without
numbers; what they call becomes the flow.  A file is imported as it is.  Where vortex_torch or torch
are not installed, modules with the same names stand in for them while it is.  An installed package is
always used instead.  To import such a file yourself:

    with kvmill.vflow.stand_ins():
        from my_flow import MyFlow

`python -m kvmill.vflow my_flow.py:MyFlow` prints the flow file, and `kvmill generate --flow
my_flow.py:MyFlow` generates a pack of it.

Field, Input, Constant and Union say what vortex_torch cannot, but a flow file can.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import VFlowError
from .op_table import Union
from .programs import Constant, Field, Input
from .stand_ins import stand_ins

if TYPE_CHECKING:
    from .loading import VFlow, load

__all__ = ["Constant", "Field", "Input", "Union", "VFlow", "VFlowError", "load", "stand_ins"]


def __getattr__(name: str) -> Any:
    """load and VFlow need the library, which the rest does not."""
    if name not in ("VFlow", "load"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import loading

    return getattr(loading, name)
