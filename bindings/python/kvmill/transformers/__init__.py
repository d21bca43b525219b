"""kvmill for Hugging Face's transformers: the attention "kvmill", and caches in any format.

    import kvmill.transformers

    pack = kvmill.transformers.prepare(model, format="int8")  # builds kernels, once
    cache = kvmill.transformers.KvmillCache(model.config, format="int8")
    model.generate(**inputs, past_key_values=cache)

Importing this module registers the attention "kvmill" with transformers, for
model.set_attn_implementation("kvmill") and attn_implementation="kvmill".  The module requires torch
and transformers, which `import kvmill` does not.  doc/guide/transformers.md says what is supported.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
    import transformers as _transformers  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"kvmill.transformers needs the packages torch and transformers, and {error.name} is not "
        "installed; accepted: pip install torch transformers"
    ) from error

from .attention import register
from .cache import KvmillCache
from .packs import describe_plans, use_packs, use_threads
from .prepare import prepare

register()

__all__ = ["KvmillCache", "describe_plans", "prepare", "register", "use_packs", "use_threads"]
