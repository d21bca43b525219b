"""Flows of models that are trained for sparse attention, as vFlow classes.

Their index queries come with each step (Input), and their index keys with each token (Field with
appended).  vortex_torch has neither, so these classes are for kvmill alone.

SPDX-License-Identifier: Apache-2.0
"""

from kvmill.vflow import Constant, Field, Input
from vortex_torch.cache import Mean as CMean
from vortex_torch.flow import register, vFlow
from vortex_torch.indexer import GeMM, Max, Multiply, Relu, Sum, topK

TOKENS = {"page_size": 1, "summary": "incremental", "page_reserved_bos": 0, "page_reserved_eos": 0, "T1": "bfloat16"}
LATENT = {"num_heads": 128, "num_kv_heads": 1, "head_dim": 576, "value_head_dim": 512, "value_view": True}


@register("dsa")
class DSA(vFlow):
    """The sum over index heads of their weight times the positive part of their dot product with the
    token's index key (DeepSeek V3.2)."""

    kvmill = {**TOKENS, **LATENT, "softmax_scale": 0.13523377886088009, "topk_val": 2048}

    def __init__(self, heads: int = 64, dim: int = 128):
        super().__init__()
        self.dim = dim
        self.index_queries = Input((heads, dim))
        self.index_weights = Input((1, heads))
        self.dots = GeMM()
        self.positive = Relu()
        self.weighted = Multiply()
        self.score = Sum(dim=2)
        self.select = topK()

    def create_cache(self, block_size: int, head_dim: int):
        return {"index_keys": Field(block_size, self.dim, appended=True)}

    def forward_cache(self, cache, loc, ctx):
        pass

    def weighted_dots(self, cache, ctx):
        dots = self.dots(self.index_queries, cache["index_keys"], ctx=ctx)
        return self.weighted(self.positive(dots, ctx=ctx), self.index_weights, ctx=ctx)

    def forward_indexer(self, q, o, cache, ctx):
        self.select(self.score(self.weighted_dots(cache, ctx), ctx=ctx), o, ctx=ctx)


@register("dsa_float8")
class DSAFloat8(DSA):
    """The same with index keys in float8, which have a scale each."""

    def __init__(self):
        super().__init__()
        self.unscaled = Sum(dim=2)
        self.score = Multiply()

    def create_cache(self, block_size, head_dim):
        codes = {"dtype": "float8e4m3fn", "scales": "index_scales", "powers_of_two": True}
        return {
            "index_keys": Field(block_size, self.dim, appended=True, **codes),
            "index_scales": Field(block_size, 1, dtype="float32"),
        }

    def forward_indexer(self, q, o, cache, ctx):
        unscaled = self.unscaled(self.weighted_dots(cache, ctx), ctx=ctx)
        self.select(self.score(unscaled, cache["index_scales"], ctx=ctx), o, ctx=ctx)


@register("csa")
class CSA(DSA):
    """The same for the compressed entries of DeepSeek V4."""

    HEADS = {"num_heads": 64, "num_kv_heads": 1, "head_dim": 512, "value_view": True, "partial": True}
    kvmill = {**TOKENS, **HEADS, "topk_val": 512}


@register("token_index")
class TokenIndex(vFlow):
    """The sum over query heads of the positive part of their dot product with the token's key.  One
    list serves all heads of a request."""

    kvmill = {"page_size": 1, "topk_val": 2048, "page_reserved_bos": 0, "page_reserved_eos": 1, "scope": "request"}

    def __init__(self):
        super().__init__()
        self.dots = GeMM()
        self.positive = Relu()
        self.weighted = Multiply()
        self.score = Sum(dim=2)
        self.select = topK()

    def create_cache(self, block_size: int, head_dim: int):
        return {}

    def forward_cache(self, cache, loc, ctx):
        pass

    def forward_indexer(self, q, o, cache, ctx):
        weights = Constant(1.0, (1, q.shape[1]), name="weights")
        positive = self.positive(self.dots(q, cache["k"], ctx=ctx), ctx=ctx)
        weighted = self.weighted(positive, weights, ctx=ctx)
        self.select(self.score(weighted, ctx=ctx), o, ctx=ctx)


@register("msa")
class MSA(vFlow):
    """The best of a block's dot products with the index query; all kv heads share the index keys
    (MiniMax-M3)."""

    kvmill = {
        "num_heads": 64, "num_kv_heads": 4, "T1": "bfloat16", "page_size": 128,
        "topk_val": 15, "page_reserved_bos": 0, "page_reserved_eos": 1,
    }  # fmt: skip

    def __init__(self):
        super().__init__()
        self.index_query = Input((1, 128))
        self.dots = GeMM()
        self.score = Max(dim=1)
        self.select = topK()

    def create_cache(self, block_size: int, head_dim: int):
        return {"index_keys": Field(block_size, 128, appended=True, heads=1)}

    def forward_cache(self, cache, loc, ctx):
        pass

    def forward_indexer(self, q, o, cache, ctx):
        dots = self.dots(self.index_query, cache["index_keys"], ctx=ctx)
        self.select(self.score(dots, ctx=ctx), o, ctx=ctx)


@register("qsa")
class QSA(vFlow):
    """The sum over index heads of the positive part of their dot product with the mean index key of a
    block of 4 tokens (Qwen3.8-Flash-Next)."""

    kvmill = {
        "num_heads": 24, "num_kv_heads": 2, "head_dim": 256, "T1": "bfloat16", "page_size": 64, "block_size": 4,
        "topk_val": 512, "page_reserved_bos": 0, "page_reserved_eos": 1, "scope": "request",
    }  # fmt: skip

    def __init__(self):
        super().__init__()
        self.index_queries = Input((4, 128))
        self.dots = GeMM()
        self.positive = Relu()
        self.score = Sum(dim=2)
        self.select = topK()
        self.mean_key = CMean(dim=1)

    def create_cache(self, block_size: int, head_dim: int):
        return {"index_keys": Field(block_size, 128, appended=True, heads=1), "block_key": Field(1, 128, heads=1)}

    def forward_cache(self, cache, loc, ctx):
        self.mean_key(cache["index_keys"], cache["block_key"], loc=loc, ctx=ctx)

    def forward_indexer(self, q, o, cache, ctx):
        dots = self.dots(self.index_queries, cache["block_key"], ctx=ctx)
        self.select(self.score(self.positive(dots, ctx=ctx), ctx=ctx), o, ctx=ctx)
