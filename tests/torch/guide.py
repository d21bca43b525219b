"""Runs the program in doc/guide/transformers.md on a terminal, with a model in a directory.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Thread

import models
import transformers
from tap import Tap
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

GUIDE = Path(__file__).parents[2] / "doc/guide/transformers.md"


def save_model(directory: str) -> None:
    """Save the model, and a tokenizer for the guide's words and numbers."""
    models.make("Llama").save_pretrained(directory)
    words = ["<pad>", "Once", "upon", "a", "time"]
    words += [f"{number}" for number in range(len(words), models.VOCABULARY)]
    numbers = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(WordLevel(numbers, unk_token="<pad>"))
    tokenizer.pre_tokenizer = Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<pad>"
    ).save_pretrained(directory)


def program(directory: str) -> str:
    (block,) = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    assert '"..."' in block
    return block.replace('"..."', repr(directory))


def run_on_terminal(text: str, **environment: str) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run a program.  Returns how it ended, and what its standard error printed on a terminal."""
    ours, theirs = pty.openpty()
    shown: list[bytes] = []

    def read() -> None:
        try:
            while piece := os.read(ours, 4096):
                shown.append(piece)
        except OSError:  # the program has closed its side
            pass

    reader = Thread(target=read)
    reader.start()
    command = [sys.executable, "-W", "ignore", "-c", text]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=theirs, text=True, env={**os.environ, **environment}
    )
    os.close(theirs)
    reader.join()
    os.close(ours)
    return done, b"".join(shown).decode()


def run(tap: Tap) -> None:
    with tempfile.TemporaryDirectory() as directory:
        save_model(directory)
        done, shown = run_on_terminal(program(directory), XDG_CACHE_HOME=directory)
    made = done.stdout.split()
    generated = made[:4] == ["Once", "upon", "a", "time"] and len(made) == 44
    ran = done.returncode == 0 and generated
    tap.result(ran, "the guide's program runs", done.stdout if ran else done.stdout + shown)
    told = "generating pack model_" in shown and " CC " in shown and "next:" not in shown
    tap.result(told, "prepare() shows its progress on a terminal")
