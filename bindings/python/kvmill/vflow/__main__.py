"""`python -m kvmill.vflow FILE.py:CLASS[,NAME=VALUE...]` prints a flow file.

With --document, the command kvmill gets {"flow": ..., "places": ...}, after it has written the
attention of a model to standard input; or a message, and exit code 1.

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import sys

if sys.version_info < (3, 11):
    sys.stdout.write("Python %d.%d; accepted: 3.11 or newer, which KVMILL_PYTHON may name" % sys.version_info[:2])
    sys.exit(2)

if not __package__:  # the command runs this file
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from kvmill.vflow.errors import VFlowError
from kvmill.vflow.settings import SETTINGS, check_names
from kvmill.vflow.sources import Source, opened
from kvmill.vflow.tracing import Trace, trace

_GEOMETRY = ("num_heads", "num_kv_heads", "head_dim", "value_head_dim", "T1")
_OF_PAGES = ("cache_layout", "cache_format")


def traced(text: str, attention: dict[str, object]) -> Trace:
    """What the user's file prints goes to standard error."""
    output, sys.stdout = sys.stdout, sys.stderr
    try:
        with opened(text) as (cls, source):
            return trace(cls, source.settings, attention)
    finally:
        sys.stdout = output


def write_document(text: str) -> int:
    model = json.load(sys.stdin)
    try:
        check_names(Source(text).settings, text, (*SETTINGS, *_OF_PAGES))
        found = traced(text, {name: model[name] for name in _GEOMETRY if name in model})
    except VFlowError as error:
        sys.stdout.write(str(error))
        return 1
    json.dump({"flow": found.spec, "places": found.places}, sys.stdout)
    return 0


def print_flow(text: str) -> int:
    try:
        found = traced(text, {})
    except VFlowError as error:
        print(error, file=sys.stderr)
        return 1
    print(found.text, end="")
    return 0


def main() -> int:
    words = sys.argv[1:]
    if len(words) == 2 and words[0] == "--document":
        return write_document(words[1])
    if len(words) == 1 and not words[0].startswith("-"):
        return print_flow(words[0])
    print("Usage: python -m kvmill.vflow FILE.py:CLASS[,NAME=VALUE...]", file=sys.stderr)
    return 0 if words in (["-h"], ["--help"]) else 1


if __name__ == "__main__":
    sys.exit(main())
