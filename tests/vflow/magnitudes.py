"""Magnitudes: temporaries in the cache program, defaults of torch's types, decorators."""
import math
import torch
from typing import Dict, Optional
from vortex_torch.flow import vFlow, register
from vortex_torch.indexer import topK, Mean, GeMM, Abs, Log, Max, L2Norm, Add
from vortex_torch.cache import Mean as CMean, Abs as CAbs, L2Norm as CL2Norm, Add_Mul as CAdd_Mul
from vortex_torch.abs import ContextBase


@register("magnitudes_cls")
class Magnitudes(vFlow):
    """Keys without their signs."""

    def __init__(self, dtype: torch.dtype = torch.bfloat16, device: Optional[torch.device] = None):
        super().__init__()
        self.q_abs = Abs(alpha=0.0, beta=1.0)
        self.q_abs_mean = Mean(dim=1)
        self.gemm = GeMM()
        self.q_norm = L2Norm(dim=2)
        self.q_best = Max(dim=1)
        self.log_norm = Log(alpha=math.e)
        self.blend = Add(alpha=1.0, beta=0.25)
        self.output_func = topK()
        self.k_abs = CAbs(alpha=0.0, beta=1.0)
        self.abs_mean = CMean(dim=1)
        self.k_norms = CL2Norm(dim=2)
        self.half = CAdd_Mul(beta=0.5)
        self.norm_mean = CMean(dim=1)

    def create_cache(self, block_size: int, head_dim: int):
        return {"abs_centroids": (1, head_dim), "half_norm": (1, 1)}

    @torch.no_grad()
    def forward_cache(self, cache: Dict[str, torch.Tensor], loc: torch.Tensor, ctx: ContextBase):
        abs_k = self.k_abs(cache["k"], None, loc=loc, ctx=ctx)
        self.abs_mean(abs_k, cache["abs_centroids"], loc=loc, ctx=ctx)
        norms = self.k_norms(cache["k"], output=None, loc=loc, ctx=ctx)
        halves = self.half(norms, None, loc=loc, ctx=ctx)
        self.norm_mean(x=halves, output=cache["half_norm"], loc=loc, ctx=ctx)

    @torch.inference_mode()
    def forward_indexer(self, q: torch.Tensor, o: torch.Tensor, cache: Dict[str, torch.Tensor], ctx: ContextBase):
        unused = self.q_best(self.q_norm(q, ctx=ctx), ctx=ctx)
        score = self.gemm(self.q_abs_mean(self.q_abs(q, ctx=ctx), ctx=ctx), cache["abs_centroids"], ctx=ctx)
        size = self.log_norm(cache["half_norm"], ctx=ctx)
        self.output_func(self.blend(score, size, ctx=ctx), o, ctx=ctx)
