"""Only some groups of channels; ops in lists, a mixin, a register of its own."""
import torch
import torch.nn as nn
from typing import Dict, List

from vortex_torch.flow import vFlow
from vortex_torch.flow.registry import register as _raw_register, _REGISTRY
from vortex_torch.indexer import topK, Mean, GeMM, Add, Multiply, MaskSlice
from vortex_torch.cache import Mean as CMean
from vortex_torch.abs import ContextBase

GROUP_SIZE = 4


def register(name):
    def deco(cls):
        if name not in _REGISTRY:
            _raw_register(name)(cls)
        return cls
    return deco


class _ChannelMask:
    GROUPS: List[int] = [0, 2, 3]

    def _init_channels(self):
        self._mask_ops = [
            MaskSlice(start=g * GROUP_SIZE, end=(g + 1) * GROUP_SIZE, dim=2, alpha=1.0, beta=0.0)
            for g in self.GROUPS
        ]
        self._add_ops = [Add() for _ in self.GROUPS[1:]]
        self._mul = Multiply()

    def _mask_q(self, q, ctx):
        m = self._mask_ops[0](q, ctx=ctx)
        for op, add in zip(self._mask_ops[1:], self._add_ops):
            m = add(m, op(q, ctx=ctx), ctx=ctx)
        return self._mul(q, m, ctx=ctx)


@register("channel_groups_cls")
class ChannelGroups(_ChannelMask, vFlow):
    def __init__(self):
        super().__init__()
        self._init_channels()
        self.mean = Mean(dim=1); self.gemm = GeMM()
        self.output_func = topK(); self.reduction = CMean(dim=1)

    def weights(self) -> "nn.Parameter | None":
        return None

    def forward_indexer(self, q: torch.Tensor, o: torch.Tensor, cache: Dict[str, torch.Tensor], ctx: ContextBase):
        q = self._mask_q(q, ctx)
        self.output_func(self.gemm(self.mean(q, ctx=ctx), cache["centroids"], ctx=ctx), o, ctx=ctx)

    def forward_cache(self, cache, loc, ctx):
        self.reduction(cache["k"], cache["centroids"], loc=loc, ctx=ctx)

    def create_cache(self, block_size, head_dim):
        return {"centroids": (1, head_dim)}
