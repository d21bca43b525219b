"""Models with random weights, which are small except for the shapes of their heads.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import transformers

VOCABULARY = 64
WINDOW = 24

_SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
    "tie_word_embeddings": False,
}
_MIXED = {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]}


def _heads(heads: int, kv_heads: int, dim: int) -> dict[str, int]:
    return {"num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": dim}


@dataclass(frozen=True)
class Row:
    """reference: the attention to compare with; sdpa supports neither soft-caps nor sinks."""

    kind: str
    options: dict[str, object]
    reference: str = "sdpa"


ROWS = {
    "Llama": Row("Llama", _heads(32, 8, 128)),
    "Qwen3": Row("Qwen3", _heads(32, 8, 128)),
    "Phi-4": Row("Phi3", _heads(40, 10, 128)),
    "Gemma3": Row("Gemma3Text", {**_heads(8, 4, 256), **_MIXED, "query_pre_attn_scalar": 256}),
    "Gemma2": Row(
        "Gemma2", {**_heads(8, 4, 256), **_MIXED, "attn_logit_softcapping": 2.0}, reference="eager"
    ),
    "gpt-oss": Row(
        "GptOss",
        {**_heads(64, 8, 64), **_MIXED, "num_local_experts": 2, "num_experts_per_tok": 1},
        reference="eager",
    ),
    # This model passes the window of its layers only to masks.
    "Qwen2-MoE": Row(
        "Qwen2Moe",
        {
            **_heads(8, 2, 64),
            **_MIXED,
            "use_sliding_window": True,
            "max_window_layers": 1,
            "num_experts": 2,
            "num_experts_per_tok": 1,
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 32,
        },
    ),
}


def make(name: str, dtype: torch.dtype = torch.float32) -> transformers.PreTrainedModel:
    row = ROWS[name]
    config = getattr(transformers, f"{row.kind}Config")(**{**_SMALL, **row.options})
    torch.manual_seed(5)
    kind = row.kind.removesuffix("Text")
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval().to(dtype)
    return model
