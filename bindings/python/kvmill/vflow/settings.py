"""What a flow needs besides its class: sizes, and how many pages are selected.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any

from .errors import nearest, refuse

# Attention that the caller does not describe is that of the flows that ship with kvmill.
_USUAL_ATTENTION = {"num_heads": 32, "num_kv_heads": 8, "head_dim": 128, "cache_layout": 4, "T1": "float16"}

# Attention of classes that are for latent attention, if the caller does not describe it: DeepSeek V3's.
LATENT_ATTENTION = {"num_heads": 128, "num_kv_heads": 1, "head_dim": 576, "value_head_dim": 512, "value_view": True}


@dataclass(frozen=True)
class Settings:
    """Arguments of load.  The defaults are those of vortex_torch."""

    place: str
    page_size: int = 16
    block_size: int | None = None
    topk_val: int | str = 30
    page_reserved_bos: int = 1
    page_reserved_eos: int = 1
    topk_ratio: Any = 0
    cap: int | None = None
    dense_below: int | None = None
    order: str | None = None
    scope: str | None = None
    summary: str | None = None
    temporaries: str | None = None
    field_layout: str | None = None
    layers_skip: list[int] | None = None
    name: str | None = None
    attention: dict[str, Any] = field(default_factory=dict)

    def size(self, name: str) -> int:
        value = self.page_size if name == "page_size" else self.attention[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            refuse(f"{name} is {value!r}; accepted: a positive integer", self.place)
        return value

    @property
    def value_dim(self) -> int:
        return self.size("value_head_dim") if "value_head_dim" in self.attention else self.size("head_dim")

    @property
    def block(self) -> int:
        """Tokens of a block, which is what a class calls a page or a block."""
        page, block = self.size("page_size"), self.block_size
        if block is None:
            return page
        if isinstance(block, bool) or not isinstance(block, int) or block < 1 or page % block != 0:
            refuse(f"block_size is {block!r}; accepted: a divisor of page_size, {page}", self.place)
        return block

    @property
    def group(self) -> int:
        """The rows of q: query heads of a kv head."""
        heads, kv_heads = self.size("num_heads"), self.size("num_kv_heads")
        if heads % kv_heads != 0:
            refuse(f"num_heads is {heads}; accepted: a multiple of num_kv_heads, {kv_heads}", self.place)
        return 1 if self.scope == "query_head" else heads // kv_heads

    def ratio(self) -> str | int:
        """Return topk_ratio as a flow file has it: a fraction, so that 0.1 of 30 pages is 3."""
        try:
            ratio = Fraction(str(self.topk_ratio))
        except (ValueError, ZeroDivisionError):
            refuse(f"topk_ratio is {self.topk_ratio!r}; accepted: 0 to 1, as 0.0625 or \"1/16\"", self.place)
        if not 0 <= ratio <= 1 or ratio.denominator >= 2**31:
            refuse(f"topk_ratio is {self.topk_ratio!r}; accepted: 0 to 1, as 0.0625 or \"1/16\"", self.place)
        return int(ratio) if ratio in (0, 1) else f"{ratio.numerator}/{ratio.denominator}"

    def may_score(self) -> bool:
        """Whether some page may have to be scored."""
        return self.topk_val not in (0, "all") or self.ratio() != 0

    def select_spec(self) -> dict[str, Any]:
        own = {
            "topk_val": self.topk_val,
            "reserved_bos": self.page_reserved_bos,
            "reserved_eos": self.page_reserved_eos,
            "topk_ratio": self.ratio() or None,
            "cap": self.cap,
            "dense_below": self.dense_below,
            "order": self.order,
            "scope": self.scope,
        }
        return {name: value for name, value in own.items() if value is not None}

    def attention_spec(self) -> dict[str, Any]:
        return {**self.attention, "page_size": self.page_size}

    def other_specs(self) -> dict[str, Any]:
        """Return the keys that a flow file has at its top."""
        names = ("name", "block_size", "summary", "temporaries", "field_layout", "layers_skip")
        own = {name: getattr(self, name) for name in names}
        return {name: value for name, value in own.items() if value is not None}


SETTINGS = tuple(own.name for own in fields(Settings) if own.name not in ("place", "attention"))


def check_names(given: Iterable[str], place: str, known: Sequence[str]) -> None:
    """Refuse names that are not known, where attention is that of a model."""
    for name in given:
        if name not in known:
            refuse(f'"{name}" is not a setting; {nearest(name, known)}accepted: {", ".join(known)}', place)


def settings_of(place: str, *sources: Mapping[str, Any]) -> Settings:
    """Return settings from several sources, later ones over earlier ones.  place: where messages are
    about.  What is no setting is an attribute of attention."""
    given: dict[str, Any] = {}
    for source in sources:
        given |= {name: value for name, value in source.items() if value is not None}
    own = {name: value for name, value in given.items() if name in SETTINGS}
    attention = {name: value for name, value in given.items() if name not in SETTINGS}
    return Settings(place, **own, attention={**_USUAL_ATTENTION, **attention})
