"""Flows that score a page by the mean of its keys, as vFlow classes.

Each class is the flow of configs/flows that it is registered as.  Its attribute `kvmill` has what a flow
file has besides programs: `kvmill generate --flow centroids.py:BlockSparse` uses it, vortex_torch does not.

SPDX-License-Identifier: Apache-2.0
"""

from typing import Dict

import torch
from vortex_torch.abs import ContextBase
from vortex_torch.cache import Fill as CFill
from vortex_torch.cache import L2Norm as CL2Norm
from vortex_torch.cache import Mean as CMean
from vortex_torch.cache import MeanInterleave as CMeanInterleave
from vortex_torch.flow import register, vFlow
from vortex_torch.indexer import Add, GeMM, Load, Max, Mean, Multiply, Save, Softmax, Sum, topK

USUAL = {"topk_val": 29, "page_reserved_bos": 1, "page_reserved_eos": 2, "topk_ratio": "1/16"}


@register("block_sparse")
class BlockSparse(vFlow):
    """The dot product of the mean key and the mean query."""

    kvmill = USUAL

    def __init__(self):
        super().__init__()
        self.mean_query = Mean(dim=1)
        self.score = GeMM()
        self.select = topK()
        self.mean_key = CMean(dim=1)

    def create_cache(self, block_size: int, head_dim: int):
        return {"centroid": (1, head_dim)}

    def forward_cache(self, cache: Dict[str, torch.Tensor], loc: torch.Tensor, ctx: ContextBase):
        self.mean_key(cache["k"], cache["centroid"], loc=loc, ctx=ctx)

    def forward_indexer(self, q: torch.Tensor, o: torch.Tensor, cache: Dict[str, torch.Tensor], ctx: ContextBase):
        mean_query = self.mean_query(q, ctx=ctx)
        score = self.score(mean_query, cache["centroid"], ctx=ctx)
        self.select(score, o, ctx=ctx)


@register("gqa_block_sparse")
class GQABlockSparse(BlockSparse):
    """The best query head's share of attention, if each page were its mean key."""

    def __init__(self):
        super().__init__()
        self.dots = GeMM()
        self.weights = Softmax(dim=0, scale=0.09)
        self.score = Max(dim=2)

    def forward_indexer(self, q, o, cache, ctx):
        weights = self.dots(q, cache["centroid"], ctx=ctx)  # a row of each page, a column of each head
        self.weights(weights, ctx=ctx)  # in place
        self.select(self.score(weights, ctx=ctx), o, ctx=ctx)


@register("centered_block_sparse")
class CenteredBlockSparse(BlockSparse):
    """The mean head's dot product, less its mean over the pages."""

    def __init__(self):
        super().__init__()
        self.dots = GeMM()
        self.mean_dot = Mean(dim=2)
        self.centre = Mean(dim=0)
        self.score = Add(alpha=1.0, beta=-1.0)

    def forward_indexer(self, q, o, cache, ctx):
        dots = self.dots(q, cache["centroid"], ctx=ctx)
        mean_dot = self.mean_dot(dots, ctx=ctx)
        centre = self.centre(mean_dot, ctx=ctx)
        self.select(self.score(mean_dot, centre, ctx=ctx), o, ctx=ctx)


@register("running_avg_block_sparse")
class RunningAverage(BlockSparse):
    """The dot product, and half of the last step's score."""

    def __init__(self):
        super().__init__()
        self.dot = GeMM()
        self.before = Load()
        self.score = Add(alpha=1.0, beta=0.5)
        self.keep = Save()
        self.start = CFill(alpha=0.0)

    def create_cache(self, block_size, head_dim):
        from kvmill.vflow import Field

        return {"centroid": (1, head_dim), "running": Field(1, 1, dtype="float32")}

    def forward_cache(self, cache, loc, ctx):
        super().forward_cache(cache, loc, ctx)
        self.start(cache["running"], loc=loc, ctx=ctx)

    def forward_indexer(self, q, o, cache, ctx):
        dot = self.dot(self.mean_query(q, ctx=ctx), cache["centroid"], ctx=ctx)
        before = self.before(cache["running"], ctx=ctx)
        score = self.score(dot, before, ctx=ctx)
        self.keep(score, cache["running"], ctx=ctx)
        self.select(score, o, ctx=ctx)


@register("venergy_gated_centroid")
class VEnergyGatedCentroid(BlockSparse):
    """The dot product, times the mean length of the page's values."""

    def __init__(self):
        super().__init__()
        self.dot = GeMM()
        self.score = Multiply()
        self.norms = CL2Norm(dim=2)
        self.mean_norm = CMean(dim=1)

    def create_cache(self, block_size, head_dim):
        return {"centroid": (1, head_dim), "energy": (1, 1)}

    def forward_cache(self, cache, loc, ctx):
        super().forward_cache(cache, loc, ctx)
        norms = self.norms(cache["v"], None, loc=loc, ctx=ctx)
        self.mean_norm(norms, cache["energy"], loc=loc, ctx=ctx)

    def forward_indexer(self, q, o, cache, ctx):
        dot = self.dot(self.mean_query(q, ctx=ctx), cache["centroid"], ctx=ctx)
        self.select(self.score(dot, cache["energy"], ctx=ctx), o, ctx=ctx)


@register("lserve_centroid")
class LServeCentroid(BlockSparse):
    """The best of the mean keys of 16 tokens each."""

    kvmill = {**USUAL, "page_size": 64}
    PART = 16

    def __init__(self):
        super().__init__()
        self.dots = GeMM()
        self.score = Max(dim=1)
        self.mean_key = CMeanInterleave(dim=1, k=self.PART)

    def create_cache(self, block_size, head_dim):
        return {"centroid": (block_size // self.PART, head_dim)}

    def forward_indexer(self, q, o, cache, ctx):
        dots = self.dots(self.mean_query(q, ctx=ctx), cache["centroid"], ctx=ctx)
        self.select(self.score(dots, ctx=ctx), o, ctx=ctx)


@register("infllm")
class InfLLM(BlockSparse):
    """The sum over four mean keys of a quarter of the page each."""

    kvmill = {"topk_val": 16, "page_reserved_bos": 8, "page_reserved_eos": 256}

    def __init__(self):
        super().__init__()
        self.dots = GeMM()
        self.score = Sum(dim=1)
        self.mean_key = CMeanInterleave(dim=1, k=1)

    def create_cache(self, block_size, head_dim):
        self.mean_key.k = block_size // 4
        return {"parts": (4, head_dim)}

    def forward_cache(self, cache, loc, ctx):
        self.mean_key(cache["k"], cache["parts"], loc=loc, ctx=ctx)

    def forward_indexer(self, q, o, cache, ctx):
        dots = self.dots(self.mean_query(q, ctx=ctx), cache["parts"], ctx=ctx)
        self.select(self.score(dots, ctx=ctx), o, ctx=ctx)
