"""Pages below the row's average are pushed to the end."""
import torch
from typing import Dict
import vortex_torch.indexer as vi
import vortex_torch.cache as vc
from vortex_torch.flow import vFlow, register
from vortex_torch.abs import ContextBase


@register("above_average_cls")
class AboveAverage(vFlow):
    def __init__(self):
        super().__init__()
        self.q_mean = vi.Mean(dim=1)
        self.gemm = vi.GeMM()
        self.average = vi.Mean(dim=0)
        self.gate = vi.WhereGreaterEqual()
        self.masked = vi.Add()
        self.output_func = vi.topK()
        self.k_mean = vc.Mean(dim=1)

    def create_cache(self, block_size: int, head_dim: int):
        return {"centroids": (1, head_dim)}

    def forward_cache(self, cache, loc, ctx):
        return self.k_mean(cache["k"], cache["centroids"], loc=loc, ctx=ctx)

    def forward_indexer(self, q, o, cache, ctx):
        assert isinstance(q, torch.Tensor) and q.dim() == 3
        score = self.gemm(self.q_mean(q, ctx=ctx), cache["centroids"], ctx=ctx)
        gate = self.gate(score, self.average(score, ctx=ctx), ctx=ctx)
        return self.output_func(self.masked(score, gate, ctx=ctx), o, ctx=ctx)
