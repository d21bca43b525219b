"""An older file: page_size, GeMV, torch's own mean, a scale that create_cache sets."""
from __future__ import annotations
import torch
from typing import Dict, Optional, Tuple

from vortex_torch.flow import vFlow, register
from vortex_torch.indexer import topK, GeMV, Softmax, Add, Load, Save
from vortex_torch.cache import Fill as CFill
from vortex_torch.abs import ContextBase


@register("older_tokens_cls")
class OlderTokens(vFlow):
    def __init__(self, decay: float = 0.984375, scale: Optional[float] = None):
        super().__init__()
        self._scale = scale
        self.gemv = GeMV()
        self.softmax = Softmax(dim=0, scale=1.0)
        self.load = Load()
        self.add = Add(alpha=1.0, beta=decay)
        self.save = Save()
        self.output_func = topK()
        self.zero_init = CFill(alpha=0.0)

    def forward_indexer(self, q: torch.Tensor, o: torch.Tensor, cache: Dict[str, torch.Tensor], ctx: ContextBase):
        q_mean = q.mean(dim=1, keepdim=True)
        score = self.gemv(q_mean, cache["k"], ctx=ctx)
        self.softmax(score, ctx=ctx)
        old = self.load(cache["hh_score"], ctx=ctx)
        score = self.add(score, old, ctx=ctx)
        self.save(score, cache["hh_score"], ctx=ctx)
        self.output_func(score, o, ctx=ctx)

    def forward_cache(self, cache: Dict[str, torch.Tensor], loc: torch.Tensor, ctx: ContextBase):
        self.zero_init(cache["hh_score"], loc=loc, ctx=ctx)

    def create_cache(self, page_size: int, head_dim: int) -> Dict[str, Tuple[int, int]]:
        self.softmax.scale = self._scale if self._scale is not None else 1.0 / (head_dim ** 0.5)
        return {"hh_score": (1, 1)}
