"""Latent attention: a page by the best half of it, without the rotated part of the rows."""
import torch
from typing import Dict

from vortex_torch.flow import vFlowMLA, register
from vortex_torch.indexer import topK, GeMM, Mean, Max, MaskSlice, Multiply
from vortex_torch.cache import MeanInterleave as CMeanInterleave
from vortex_torch.abs import ContextBase


@register("latent_parts_cls")
class LatentParts(vFlowMLA):
    def __init__(self):
        super().__init__()
        self.mean = Mean(dim=1)
        self.rope_mask = MaskSlice(start=0, end=0, dim=2, alpha=1.0, beta=0.0)
        self.mul = Multiply()
        self.gemm = GeMM()
        self.best = Max(dim=1)
        self.output_func = topK()
        self.reduction = CMeanInterleave(dim=1, k=4)

    def forward_indexer(self, q: torch.Tensor, o: torch.Tensor, cache: Dict[str, torch.Tensor], ctx: ContextBase):
        q_mean = self.mean(q, ctx=ctx)                           # [B, 1, latent_dim]
        q_nope = self.mul(q_mean, self.rope_mask(q_mean, ctx=ctx), ctx=ctx)
        score = self.gemm(q_nope, cache["centroids"], ctx=ctx)   # [S, 2, 1]
        self.output_func(self.best(score, ctx=ctx), o, ctx=ctx)

    def forward_cache(self, cache: Dict[str, torch.Tensor], loc: torch.Tensor, ctx: ContextBase):
        self.reduction(cache["latent"], cache["centroids"], loc=loc, ctx=ctx)

    def create_cache(self, block_size: int, kv_lora_rank: int, qk_rope_head_dim: int):
        self.rope_mask.end = kv_lora_rank
        return {"centroids": (block_size // 4, kv_lora_rank + qk_rope_head_dim)}
