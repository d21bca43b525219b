"""Flows that score no page, as vFlow classes: they read all pages, or the first and the last ones.

SPDX-License-Identifier: Apache-2.0
"""

from vortex_torch.flow import register, vFlow


@register("dense")
class Dense(vFlow):
    """All pages."""

    kvmill = {"topk_val": "all"}

    def create_cache(self, block_size: int, head_dim: int):
        return {}

    def forward_cache(self, cache, loc, ctx):
        pass

    def forward_indexer(self, q, o, cache, ctx):
        pass


@register("hca")
class HCA(Dense):
    """All of a compressed stream (DeepSeek V4)."""

    HEADS = {"num_heads": 64, "num_kv_heads": 1, "head_dim": 512, "value_view": True, "partial": True}
    kvmill = {**HEADS, "T1": "bfloat16", "topk_val": "all"}


@register("sinks_and_window")
class SinksAndWindow(Dense):
    """The first page, and the last 64 (StreamingLLM)."""

    kvmill = {"topk_val": 0, "page_reserved_bos": 1, "page_reserved_eos": 64}
