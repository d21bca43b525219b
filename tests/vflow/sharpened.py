"""Peaks of the score along the pages."""
import torch
from typing import Dict

from vortex_torch.abs import ContextBase
from vortex_torch.flow import vFlow, register
from vortex_torch.indexer import Abs, Add, Conv1d, GeMM, Mean, topK
from vortex_torch.cache import Mean as CMean


@register("sharpened_cls")
class Sharpened(vFlow):
    def __init__(self):
        super().__init__()
        self.q_mean = Mean(dim=1)
        self.gemm = GeMM()
        # weight shape [K, D_0, D_1] = [3, 1, 1]
        self.laplacian = Conv1d(
            weight=[[[-0.5]], [[1.0]], [[-0.5]]],
            dim=0,
        )
        self.curve = Abs()
        self.bonus = Add(alpha=1.0, beta=0.5)
        self.output_func = topK()
        self.k_mean = CMean(dim=1)

    def create_cache(self, block_size: int, head_dim: int):
        return {"centroids": (1, head_dim)}

    def forward_cache(self, cache: Dict[str, torch.Tensor], loc: torch.Tensor, ctx: ContextBase):
        self.k_mean(cache["k"], cache["centroids"], loc=loc, ctx=ctx)

    def forward_indexer(self, q: torch.Tensor, o: torch.Tensor, cache: Dict[str, torch.Tensor], ctx: ContextBase):
        score = self.gemm(self.q_mean(q, ctx=ctx), cache["centroids"], ctx=ctx)
        curve = self.curve(self.laplacian(score, ctx=ctx), ctx=ctx)
        self.output_func(self.bonus(score, curve, ctx=ctx), o, ctx=ctx)
