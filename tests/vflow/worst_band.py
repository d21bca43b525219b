"""Four mean keys per block; the worst of them counts."""
import torch
from typing import Dict

from vortex_torch.flow import vFlow, register
from vortex_torch.indexer import topK, Mean, Multiply, Sum, Min
from vortex_torch.cache import MeanInterleave as CMeanInterleave
from vortex_torch.abs import ContextBase


_GROUP = 4


@register("worst_band_cls")
class WorstBand(vFlow):
    def __init__(self):
        super().__init__()
        self.q_mean = Mean(dim=1)
        self.mul = Multiply()
        self.sum_band = Sum(dim=2)
        self.min_band = Min(dim=1)
        self.output_func = topK()

        self.k_mini = CMeanInterleave(dim=1, k=_GROUP)

    def create_cache(self, block_size: int, head_dim: int):
        return {"mini": (block_size // _GROUP, head_dim)}

    def forward_cache(self, cache, loc, ctx: ContextBase):
        self.k_mini(cache["k"], cache["mini"], loc=loc, ctx=ctx)

    def forward_indexer(self, q, o, cache, ctx: ContextBase):
        qm = self.q_mean(q, ctx=ctx)
        prod = self.mul(qm, cache["mini"], ctx=ctx)
        bands = self.sum_band(prod, ctx=ctx)
        self.output_func(self.min_band(bands, ctx=ctx), o, ctx=ctx)
