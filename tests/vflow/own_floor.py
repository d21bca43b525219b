"""How far a page's score is above its own lowest, and above a slow average."""
import torch
from typing import Dict

from vortex_torch.flow import vFlow, register
from vortex_torch.indexer import topK, Mean, GeMM, Load, Save, Minimum, Maximum, Add
from vortex_torch.cache import Mean as CMean, Fill as CFill
from vortex_torch.abs import ContextBase


@register("own_floor_cls")
class OwnFloor(vFlow):
    HIGH = 1.0e6   # no minimum seen yet
    DECAY = 0.5

    def __init__(self):
        super().__init__()
        self.q_mean = Mean(dim=1)
        self.gemm = GeMM()
        self.load_min = Load()
        self.load_avg = Load()
        self.update_min = Minimum()
        self.update_avg = Add(alpha=self.DECAY, beta=1 - self.DECAY)
        self.save_min = Save()
        self.save_avg = Save()
        self.elevation = Add(alpha=1.0, beta=-1.0)
        self.surprise = Add(alpha=1.0, beta=-1.0)
        self.either = Maximum()
        self.output_func = topK()

        self.k_mean = CMean(dim=1)
        self.init_min = CFill(alpha=self.HIGH)
        self.init_avg = CFill()

    def create_cache(self, block_size: int, head_dim: int):
        return {
            "centroids": (1, head_dim),
            "min_score": (1, 1),
            "avg_score": (1, 1),
        }

    def forward_cache(self, cache, loc, ctx: ContextBase):
        self.k_mean(cache["k"], cache["centroids"], loc=loc, ctx=ctx)
        self.init_min(cache["min_score"], loc=loc, ctx=ctx)
        self.init_avg(cache["avg_score"], loc=loc, ctx=ctx)

    def forward_indexer(self, q, o, cache, ctx: ContextBase):
        current = self.gemm(self.q_mean(q, ctx=ctx), cache["centroids"], ctx=ctx)
        low = self.update_min(current, self.load_min(cache["min_score"], ctx=ctx), ctx=ctx)
        last = self.load_avg(cache["avg_score"], ctx=ctx)
        self.save_min(low, cache["min_score"], ctx=ctx)
        self.save_avg(self.update_avg(last, current, ctx=ctx), cache["avg_score"], ctx=ctx)
        up = self.elevation(current, low, ctx=ctx)
        new = self.surprise(current, last, ctx=ctx)
        self.output_func(self.either(up, new, ctx=ctx), o, ctx=ctx)
