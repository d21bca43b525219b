"""Agreement with the mean key and with the mean value."""
import torch
from typing import Dict
from vortex_torch.flow import vFlow, register
from vortex_torch.indexer import topK, Mean, GeMM, Multiply, Minimum, Sum, Silu
from vortex_torch.cache import Mean as CMean, Min as CMin
from vortex_torch.abs import ContextBase


@register("keys_and_values_cls")
class KeysAndValues(vFlow):
    def __init__(self):
        super().__init__()
        self.q_mean = Mean(dim=1)
        self.gemm_k = GeMM(); self.gemm_v = GeMM()
        self.gate = Silu(alpha=0.0, beta=-1.0)
        self.combine = Multiply()
        self.capped = Minimum()
        self.floor = Sum(dim=2)
        self.output_func = topK()
        self.k_mean = CMean(dim=1); self.v_mean = CMean(dim=1); self.k_min = CMin(dim=1)

    def create_cache(self, block_size: int, head_dim: int):
        return {name: (1, head_dim) for name in ("k_centroids", "v_centroids", "k_lows")}

    def forward_cache(self, cache, loc, ctx: ContextBase):
        self.k_mean(cache["k"], cache["k_centroids"], loc=loc, ctx=ctx)
        self.v_mean(cache["v"], cache["v_centroids"], loc=loc, ctx=ctx)
        self.k_min(cache["k"], cache["k_lows"], loc=loc, ctx=ctx)

    def forward_indexer(self, q, o, cache, ctx: ContextBase):
        qm = self.q_mean(q, ctx=ctx)
        sk = self.gemm_k(qm, cache["k_centroids"], ctx=ctx)
        sv = self.gate(self.gemm_v(qm, cache["v_centroids"], ctx=ctx), ctx=ctx)
        both = self.combine(sk, sv, ctx=ctx)
        cap = self.floor(cache["k_lows"], ctx=ctx)
        self.output_func(self.capped(both, cap, ctx=ctx), o, ctx=ctx)
