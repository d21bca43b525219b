"""The default configs of every model type of Transformers through `kvmill plan --layers`.

What a layer stores is read here from the fields of the class, as Transformers' own caches read
them.  What only a model's code says, and what kvmill refuses, is in tests/tables/model_configs.tsv.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tap import Tap

STATES = {"linear_attention", "conv", "mlp", "moe"}
SLIDING = {
    "sliding_attention",
    "hybrid_sliding",
    "compressed_sparse_attention",
    "heavily_compressed_attention",
}
# Attention to the whole cache; indexers and states are kept beside it.
FULL = {"full_attention", "indexed_attention", "minimax_m3_sparse", "hybrid", "chunked_attention"}


@dataclass(frozen=True)
class Layer:
    """The cache of a layer; window 0: none."""

    heads: int
    kv_heads: int
    key: int
    value: int
    window: int = 0


def field(config: Any, *names: str) -> Any:
    """The first of these fields that is set."""
    for name in names:
        value = config._getattr_without_heterogeneous_validation(name, None)
        if value is not None:
            return value
    return None


def kinds_of(config: Any) -> list[str | None]:
    """The words of the layers; None where the class has none.  A layer that reads another's cache has no cache."""
    words = field(config, "layer_types", "layers_block_type")
    kinds = list(words or [None] * field(config, "num_hidden_layers"))
    for i, mode in enumerate(field(config, "kv_sharing_modes") or []):
        if mode and mode.startswith("reuse"):
            kinds[i] = "mlp"
    shared = field(config, "num_kv_shared_layers") or 0
    return kinds[: len(kinds) - shared] + ["mlp"] * shared


def shape_of(config: Any, prefix: str = "") -> Layer:
    """The heads of a config, or of its sliding layers, if these have a prefix."""
    heads = field(config, f"{prefix}num_attention_heads", "num_attention_heads")
    if field(config, "kv_lora_rank"):
        rank = field(config, "kv_lora_rank")
        return Layer(heads, 1, rank + field(config, "qk_rope_head_dim"), rank)
    key = field(config, f"{prefix}head_dim", "head_dim") or field(config, "hidden_size") // heads
    kv_heads = field(config, f"{prefix}num_key_value_heads", "num_key_value_heads") or heads
    return Layer(heads, kv_heads, key, field(config, f"{prefix}v_head_dim", "v_head_dim") or key)


def window_of(config: Any, kind: str | None) -> int:
    """The window of a layer.  Without words, a window that is set applies to every layer."""
    window = field(config, "sliding_window") or 0
    if kind in FULL or window <= 0:
        return 0
    return window if window < (field(config, "max_position_embeddings") or window + 1) else 0


def layer_of(config: Any, kind: str | None) -> Layer | None:
    if kind in STATES:
        return None
    assert kind is None or kind in FULL or kind in SLIDING, f"what does {kind} store?"
    shape = shape_of(config, "swa_" if kind in SLIDING else "")
    return replace(shape, window=window_of(config, kind))


def layers_of(config: Any) -> list[Layer | None]:
    return [layer_of(part, kind) for part, kind in zip(config.per_layer_config, kinds_of(config))]


# ---- What kvmill says ----


def planned(command: str, path: Path) -> tuple[list[Layer | None], str]:
    """The layers that kvmill plans, or none and its message."""
    run = subprocess.run(
        [command, "plan", "--layers", "--json", "--model", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode in (0, 1), f"exit {run.returncode}: {run.stderr}"
    if run.returncode == 1:
        assert run.stderr.startswith(f"{path}: /"), run.stderr
        return [], run.stderr
    layers: list[Layer | None] = []
    for item in json.loads(run.stdout)["layers"]:
        layers += [layer_from(item)] * (item["last"] - item["first"] + 1)
    return layers, run.stderr


def layer_from(item: dict[str, Any]) -> Layer | None:
    if item["kind"] == "no cache":
        return None
    return Layer(
        item["query_heads"],
        item["kv_heads"],
        item["key_elements"],
        item["value_elements"],
        item.get("window_tokens", 0),
    )


def shown(layers: list[Layer | None]) -> str:
    """Runs of equal layers, to compare by eye."""
    runs: list[list[Any]] = []
    for layer in layers:
        if not runs or runs[-1][1] != layer:
            runs.append([0, layer])
        runs[-1][0] += 1
    return "; ".join(f"{count} x {layer}" for count, layer in runs)


# ---- What the table adds to the fields ----


def repeated(layers: list[Layer | None], first: int, end: int, times: int) -> list[Layer | None]:
    return layers + layers[first:end] * (times - 1)


def with_sliding_kv_heads(layers: list[Layer | None], heads: int) -> list[Layer | None]:
    return [replace(layer, kv_heads=heads) if layer and layer.window else layer for layer in layers]


def without(layers: list[Layer | None], config: Any, name: str) -> list[Layer | None]:
    return [None if i in field(config, name) else layer for i, layer in enumerate(layers)]


def with_local_layers(layers: list[Layer | None], config: Any) -> list[Layer | None]:
    """GPT Neo: words of its own, and a window of its own."""
    return [
        replace(layer, window=config.window_size if word == "local" else 0)
        for layer, word in zip(layers, config.attention_layers)
        if layer
    ]


def changed(layers: list[Layer | None], config: Any, rule: str) -> list[Layer | None]:
    name, _, argument = rule.partition("=")
    if name == "mlp_between":
        return [part for layer in layers for part in (layer, None)]
    if name == "loop":
        first, end, times = (field(config, key) for key in argument.split(","))
        return repeated(layers, first, end, times)
    if name == "loop_of_pairs":
        first, count, times = (field(config, key) for key in argument.split(","))
        return repeated(layers, 2 * first, 2 * (first + count), times)
    if name == "sliding_kv_heads":
        return with_sliding_kv_heads(layers, int(argument))
    if name == "kv_heads":
        return [layer and replace(layer, kv_heads=int(argument)) for layer in layers]
    if name == "without":
        return without(layers, config, argument)
    assert name == "local_layers", f"unknown rule {rule}"
    return with_local_layers(layers, config)


@dataclass(frozen=True)
class Row:
    outcome: str  # "refused" or "planned"
    words: str  # of the refusal, a regular expression; or rules for the layers, joined by ";"


def read_table(path: Path) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    with open(path, encoding="utf-8") as file:
        for types, outcome, words, _why in csv.reader(
            (line for line in file if line.strip() and not line.startswith("#")),
            delimiter="\t",
            quoting=csv.QUOTE_NONE,
        ):
            for name in types.split():
                assert name not in rows, f"{name} twice"
                rows[name] = Row(outcome, words)
    return rows


# ---- The default configs ----


def is_decoder(name: str, decoder: Any) -> bool:
    """Whether Transformers has a class that generates text with it."""
    from transformers.models.auto import modeling_auto as auto

    known = (
        auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
        auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
        auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES,
    )
    named = any(kind in names for names in known for kind in (name, decoder.model_type))
    return named and field(decoder, "num_hidden_layers") is not None


def default_configs() -> dict[str, Any]:
    """Every config that its class makes without arguments."""
    from transformers.models.auto import configuration_auto as auto

    configs = {}
    for name in sorted(auto.CONFIG_MAPPING_NAMES):
        with contextlib.suppress(Exception):
            configs[name] = auto.CONFIG_MAPPING[name]()
    return configs


def check_refused(message: str, words: str) -> None:
    assert message and re.search(words, message), f"{message or 'planned'}; expected {words!r}"


def check_planned(config: Any, layers: list[Layer | None], message: str, rules: str) -> None:
    assert layers, message
    decoder = config.get_text_config(decoder=True)
    expected = layers_of(decoder)
    for rule in filter(None, rules.split(";")):
        expected = changed(expected, decoder, rule)
    assert layers == expected, f"got {shown(layers)}\nexpected {shown(expected)}"


def check_default(command: str, path: Path, config: Any, row: Row | None) -> None:
    layers, message = planned(command, path)
    if row is None and not is_decoder(path.stem, config.get_text_config(decoder=True)):
        return  # no decoder: refused with a place, or planned as its keys say
    if row is None and getattr(config, "is_encoder_decoder", False):
        row = Row("refused", "encoder and a decoder")
    if row is not None and row.outcome == "refused":
        check_refused(message if not layers else "", row.words)
    else:
        check_planned(config, layers, message, row.words if row else "")


def check_all(tap: Tap, command: str, folder: Path, table: dict[str, Row]) -> None:
    configs = default_configs()
    tap.result(len(configs) > 800, f"{len(configs)} default configs are made")
    wrong = []
    for name, config in configs.items():
        path = folder / f"{name}.json"
        path.write_text(config.to_json_string(), encoding="utf-8")
        try:
            check_default(command, path, config, table.get(name))
        except Exception as error:  # noqa: BLE001 -- the others are checked, too
            wrong.append(f"{name}: {type(error).__name__} {error}")
    tap.result(
        not wrong, "default configs are planned as their classes say, or refused", "\n".join(wrong)
    )
    unknown = sorted(set(table) - set(configs))
    tap.result(not unknown, "the table names only configs that are made", " ".join(unknown))


# ---- Configs of checkpoints ----


def class_config(path: Path) -> Any:
    """The file as Transformers reads it, or None if it has no class for it or refuses it."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    values = json.loads(path.read_text(encoding="utf-8"))
    with contextlib.suppress(Exception):
        return CONFIG_MAPPING[values["model_type"]].from_dict(values)
    return None


def check_files(tap: Tap, command: str, table: dict[str, Row]) -> None:
    """The configs of the source tree: kvmill reads in a file what its class reads."""
    top = Path(__file__).parents[2]
    files = sorted(top.glob("tests/configs/*.json")) + sorted(top.glob("configs/models/*.json"))
    count = 0
    wrong = []
    for path in files:
        config = class_config(path)
        row = table.get(config.model_type) if config else None
        if config is None:
            continue
        count += 1
        try:
            check_default(command, path, config, row if row and row.outcome == "planned" else None)
        except Exception as error:  # noqa: BLE001 -- the others are checked, too
            wrong.append(f"{path.name}: {type(error).__name__} {error}")
    tap.result(
        count > 40 and not wrong,
        f"{count} configs of checkpoints, as their classes read them",
        "\n".join(wrong),
    )


def run(tap: Tap, command: str) -> None:
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    table = read_table(Path(__file__).parent.parent / "tables" / "model_configs.tsv")
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        check_all(tap, command, Path(folder), table)
        check_files(tap, command, table)
