"""Flows that score a page by bounds on its scores (Quest), as vFlow classes.

SPDX-License-Identifier: Apache-2.0
"""

from typing import Dict

import torch
from vortex_torch.abs import ContextBase
from vortex_torch.cache import Max as CMax
from vortex_torch.cache import MaxInterleave as CMaxInterleave
from vortex_torch.cache import Mean as CMean
from vortex_torch.cache import Min as CMin
from vortex_torch.cache import MinInterleave as CMinInterleave
from vortex_torch.flow import register, vFlow
from vortex_torch.indexer import GeMM, Kron, MaskSlice, Max, Maximum, Mean, Multiply, Sum, topK

USUAL = {"topk_val": 29, "page_reserved_bos": 1, "page_reserved_eos": 2, "topk_ratio": "1/16"}


@register("gqa_quest")
class Quest(vFlow):
    """The best query head's bound: no key of the page has a larger dot product with it."""

    kvmill = USUAL

    def __init__(self):
        super().__init__()
        self.above = Multiply()
        self.below = Multiply()
        self.most = Maximum()
        self.bounds = Sum(dim=2)
        self.score = Max(dim=1)
        self.select = topK()
        self.highest = CMax(dim=1)
        self.lowest = CMin(dim=1)

    def create_cache(self, block_size: int, head_dim: int):
        return {"highest": (1, head_dim), "lowest": (1, head_dim)}

    def forward_cache(self, cache: Dict[str, torch.Tensor], loc: torch.Tensor, ctx: ContextBase):
        self.highest(cache["k"], cache["highest"], loc=loc, ctx=ctx)
        self.lowest(cache["k"], cache["lowest"], loc=loc, ctx=ctx)

    def bounds_of(self, query: torch.Tensor, cache: Dict[str, torch.Tensor], ctx: ContextBase):
        above = self.above(query, cache["highest"], ctx=ctx)
        below = self.below(query, cache["lowest"], ctx=ctx)
        return self.bounds(self.most(above, below, ctx=ctx), ctx=ctx)

    def forward_indexer(self, q: torch.Tensor, o: torch.Tensor, cache: Dict[str, torch.Tensor], ctx: ContextBase):
        score = self.score(self.bounds_of(q, cache, ctx), ctx=ctx)
        self.select(score, o, ctx=ctx)


@register("quest_growing")
class QuestGrowing(Quest):
    """Quest with bounds of the last page, too, which is not complete."""

    kvmill = {**USUAL, "summary": "incremental"}


@register("masked_quest")
class MaskedQuest(Quest):
    """Quest without the first eight channels."""

    FIRST = 8

    def __init__(self):
        super().__init__()
        self.mask = MaskSlice(start=self.FIRST, end=self.FIRST, dim=2, alpha=1.0, beta=0.0)
        self.masked_query = Multiply()

    def create_cache(self, block_size, head_dim):
        self.mask.end = head_dim
        return super().create_cache(block_size, head_dim)

    def forward_indexer(self, q, o, cache, ctx):
        masked = self.masked_query(q, self.mask(q, ctx=ctx), ctx=ctx)
        self.select(self.score(self.bounds_of(masked, cache, ctx), ctx=ctx), o, ctx=ctx)


@register("lserve_sparse")
class LServe(Quest):
    """The best bound of a query head on 16 tokens."""

    kvmill = {**USUAL, "page_size": 64}
    PART = 16

    def __init__(self):
        super().__init__()
        self.above = Kron(dim=1)
        self.below = Kron(dim=1)
        self.highest = CMaxInterleave(dim=1, k=self.PART)
        self.lowest = CMinInterleave(dim=1, k=self.PART)

    def create_cache(self, block_size, head_dim):
        parts = block_size // self.PART
        return {"highest": (parts, head_dim), "lowest": (parts, head_dim)}


@register("quest_and_centroid")
class QuestAndCentroid(Quest):
    """Quest, and then ten of the other pages by their mean keys."""

    def __init__(self):
        from kvmill.vflow import Union

        super().__init__()
        self.bound = Max(dim=1)
        self.mean = Mean(dim=1)
        self.likeness = GeMM()
        self.select = Union(second=10)
        self.mean_key = CMean(dim=1)

    def create_cache(self, block_size, head_dim):
        return {**super().create_cache(block_size, head_dim), "centroid": (1, head_dim)}

    def forward_cache(self, cache, loc, ctx):
        super().forward_cache(cache, loc, ctx)
        self.mean_key(cache["k"], cache["centroid"], loc=loc, ctx=ctx)

    def forward_indexer(self, q, o, cache, ctx):
        bound = self.bound(self.bounds_of(q, cache, ctx), ctx=ctx)
        likeness = self.likeness(self.mean(q, ctx=ctx), cache["centroid"], ctx=ctx)
        self.select(bound, likeness, o, ctx=ctx)
