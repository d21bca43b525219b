"""Flows after H2O: blends of two scores, and the attention that tokens have had, as vFlow classes.

SPDX-License-Identifier: Apache-2.0
"""

import torch
from kvmill.vflow import Field
from vortex_torch.cache import Fill as CFill
from vortex_torch.cache import Max as CMax
from vortex_torch.cache import Mean as CMean
from vortex_torch.cache import Min as CMin
from vortex_torch.flow import register, vFlow
from vortex_torch.indexer import Add, GeMM, Load, Max, Maximum, Mean, Multiply, Save, Softmax, Sum, Transpose, topK

USUAL = {"topk_val": 29, "page_reserved_bos": 1, "page_reserved_eos": 2, "topk_ratio": "1/16"}
TOKENS = {"page_size": 1, "topk_val": 1024, "page_reserved_bos": 4, "page_reserved_eos": 64}


@register("h2o_sparse")
class H2OSparse(vFlow):
    """Half the mean key's score, half of Quest's bound, of the mean query."""

    kvmill = USUAL

    def __init__(self):
        super().__init__()
        self.mean_query = Mean(dim=1)
        self.dot = GeMM()
        self.above = Multiply()
        self.below = Multiply()
        self.most = Maximum()
        self.bounds = Sum(dim=2)
        self.score = Add(alpha=0.5, beta=0.5)
        self.select = topK()
        self.centroid = CMean(dim=1)
        self.highest = CMax(dim=1)
        self.lowest = CMin(dim=1)

    def create_cache(self, block_size: int, head_dim: int):
        return {name: (1, head_dim) for name in ("centroid", "highest", "lowest")}

    def forward_cache(self, cache, loc, ctx):
        for op, name in ((self.centroid, "centroid"), (self.highest, "highest"), (self.lowest, "lowest")):
            op(cache["k"], cache[name], loc=loc, ctx=ctx)

    def bounds_of(self, query: torch.Tensor, cache, ctx):
        above = self.above(query, cache["highest"], ctx=ctx)
        below = self.below(query, cache["lowest"], ctx=ctx)
        return self.bounds(self.most(above, below, ctx=ctx), ctx=ctx)

    def forward_indexer(self, q: torch.Tensor, o: torch.Tensor, cache, ctx):
        mean_query = self.mean_query(q, ctx=ctx)
        dot = self.dot(mean_query, cache["centroid"], ctx=ctx)
        score = self.score(dot, self.bounds_of(mean_query, cache, ctx), ctx=ctx)
        self.select(score, o, ctx=ctx)


@register("gqa_h2o")
class GQAH2O(H2OSparse):
    """The same of each query head; the best one's counts."""

    def __init__(self):
        super().__init__()
        self.dots = GeMM()
        self.dots_of_heads = Transpose()
        self.blend = Add(alpha=0.5, beta=0.5)
        self.score = Max(dim=1)

    def forward_indexer(self, q, o, cache, ctx):
        dots = self.dots_of_heads(self.dots(q, cache["centroid"], ctx=ctx), ctx=ctx)
        blend = self.blend(dots, self.bounds_of(q, cache, ctx), ctx=ctx)
        self.select(self.score(blend, ctx=ctx), o, ctx=ctx)


@register("h2o_token")
class H2OToken(vFlow):
    """The attention that the mean query pays to a token, and a fading sum of what it has had before.
    Pages are single tokens."""

    kvmill = TOKENS

    def __init__(self, decay: float = 0.984375):
        super().__init__()
        self.mean_query = Mean(dim=1)
        self.dot = GeMM()
        self.weight = Softmax(dim=0)
        self.before = Load()
        self.score = Add(alpha=1.0, beta=decay)
        self.keep = Save()
        self.select = topK()
        self.start = CFill(alpha=0.0)

    def create_cache(self, block_size: int, head_dim: int):
        self.softmax().scale = head_dim**-0.5
        return {"heavy": Field(1, 1, dtype="float32")}

    def softmax(self):
        return self.weight

    def forward_cache(self, cache, loc, ctx):
        self.start(cache["heavy"], loc=loc, ctx=ctx)

    def selected(self, weight, o, cache, ctx):
        before = self.before(cache["heavy"], ctx=ctx)
        score = self.score(weight, before, ctx=ctx)
        self.keep(score, cache["heavy"], ctx=ctx)
        self.select(score, o, ctx=ctx)

    def forward_indexer(self, q, o, cache, ctx):
        weight = self.dot(self.mean_query(q, ctx=ctx), cache["k"], ctx=ctx)
        self.selected(self.weight(weight, ctx=ctx), o, cache, ctx)


@register("gqa_h2o_token")
class GQAH2OToken(H2OToken):
    """The same by the query head that pays it the most."""

    def __init__(self):
        super().__init__()
        self.dots = GeMM()
        self.weights = Softmax(dim=0)
        self.weight = Max(dim=2)

    def softmax(self):
        return self.weights

    def forward_indexer(self, q, o, cache, ctx):
        weights = self.weights(self.dots(q, cache["k"], ctx=ctx), ctx=ctx)
        self.selected(self.weight(weights, ctx=ctx), o, cache, ctx)
