"""As files inside of vortex_torch/flow begin."""
import torch
from typing import Dict

from .flow import vFlow
from ..indexer import topK, GeMV, Max, Mean, WhereLess, Add, Add_Mul
from ..cache import Mean as CMean
from ..abs import ContextBase
from .registry import register


@register("from_the_package_cls")
class FromThePackage(vFlow):
    """Mean keys, but pages whose score is low count for less."""

    def __init__(self):
        super().__init__()
        self.gemv = GeMV()
        self.mean = Mean(dim=1)
        self.average = Mean(dim=0)
        self.low = WhereLess()
        self.soft = Add_Mul(alpha=0.0, beta=1e-30)
        self.score = Add(alpha=1.0, beta=3.0)
        self.output_func = topK()
        self.reduction = CMean(dim=1)

    def forward_indexer(self, q: torch.Tensor, o: torch.Tensor, cache: Dict[str, torch.Tensor], ctx: ContextBase):
        score = self.gemv(self.mean(q, ctx=ctx), cache["centroids"], ctx=ctx)
        low = self.soft(self.low(self.average(score, ctx=ctx), score, ctx=ctx), ctx=ctx)
        self.output_func(self.score(score, low, ctx=ctx), o, ctx=ctx)

    def forward_cache(self, cache: Dict[str, torch.Tensor], loc: torch.Tensor, ctx: ContextBase):
        self.reduction(cache["k"], cache["centroids"], loc=loc, ctx=ctx)

    def create_cache(self, page_size: int, head_dim: int):
        return {"centroids": (1, head_dim)}
