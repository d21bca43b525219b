"""Quest's bound, gated by how far its two sides are apart."""
import torch
from typing import Dict

from vortex_torch.flow import vFlow, register
from vortex_torch.abs import ContextBase
from vortex_torch.indexer import (
    topK, Multiply, Maximum, Sum, Max, Add, Sigmoid,
)
from vortex_torch.cache import (
    Max as CMax, Min as CMin,
)


@register("gated_bound_cls")
class GatedBound(vFlow):
    def __init__(self):
        super().__init__()
        self.mul_max, self.mul_min, self.mul_gate = Multiply(), Multiply(), Multiply()
        self.maximum_op = Maximum()
        self.apart = Add(alpha=1.0, beta=-1.0)
        self.gate = Sigmoid(alpha=0.0, beta=-1.0)
        self.sum = Sum(dim=2)
        self.max_op = Max(dim=1)
        self.output_func = topK()
        self.reduction_max = CMax(dim=1)
        self.reduction_min = CMin(dim=1)

    def forward_indexer(self, q: torch.Tensor, o: torch.Tensor, cache: Dict[str, torch.Tensor], ctx: ContextBase):
        s_max = self.mul_max(q, cache["max"], ctx=ctx)
        s_min = self.mul_min(q, cache["min"], ctx=ctx)
        gate = self.gate(self.apart(s_max, s_min, ctx=ctx), ctx=ctx)
        s = self.mul_gate(self.maximum_op(s_max, s_min, ctx=ctx), gate, ctx=ctx)
        score = self.sum(s, ctx=ctx)
        aggr_score = self.max_op(score, ctx=ctx)
        self.output_func(aggr_score, o, ctx=ctx)

    def forward_cache(self, cache: Dict[str, torch.Tensor], loc: torch.Tensor, ctx: ContextBase):
        self.reduction_max(cache["k"], cache["max"], loc=loc, ctx=ctx)
        self.reduction_min(cache["k"], cache["min"], loc=loc, ctx=ctx)

    def create_cache(self, block_size: int, head_dim: int):
        return {
            "max": (1, head_dim),
            "min": (1, head_dim),
        }
