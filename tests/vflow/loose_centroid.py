"""Mean keys, with a selection that need not be exact.

Hypothesis: near the threshold, pages hardly differ, so a third of them may be wrong.
"""
import torch
from typing import Dict

from vortex_torch.flow import vFlow, register
from vortex_torch.indexer import approxTopK, GeMM, Mean
from vortex_torch.cache import Mean as CMean
from vortex_torch.abs import ContextBase


@register("loose_centroid_cls")
class LooseCentroid(vFlow):
    def __init__(self):
        super().__init__()
        # Indexer-side ops
        self.gemm = GeMM()
        self.mean = Mean(dim=1)
        self.output_func = approxTopK(tolerate_ratio=0.35)

        # Cache-side ops
        self.reduction = CMean(dim=1)

    def forward_indexer(
        self,
        q: torch.Tensor,
        o: torch.Tensor,
        cache: Dict[str, torch.Tensor],
        ctx: ContextBase,
    ):
        q_mean = self.mean(q, ctx=ctx)                                # [1, 1, D]
        score = self.gemm(q_mean, cache["centroids"], ctx=ctx)        # [S, 1, 1]
        self.output_func(score, o, ctx=ctx)

    def forward_cache(
        self,
        cache: Dict[str, torch.Tensor],
        loc: torch.Tensor,
        ctx: ContextBase,
    ):
        self.reduction(cache["k"], cache["centroids"], loc=loc, ctx=ctx)

    def create_cache(self, block_size: int, head_dim: int):
        return {
            "centroids": (1, head_dim),
        }
