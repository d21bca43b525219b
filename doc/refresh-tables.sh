#!/bin/sh
# refresh-tables.sh DESCRIBE [OUT]: what DESCRIBE (doc/describe_ops of a build) prints, put into the manual page, the Python
# binding and the one for ONNX Runtime, or into copies of them below OUT.  SPDX-License-Identifier: Apache-2.0
set -e
top=$(dirname "$0")/..
out=${2:-$top}
if [ ! -x "${1-}" ] || [ -d "$1" ]; then
    echo "refresh-tables.sh: \"${1-}\" is not a program; accepted: doc/describe_ops of a build tree" >&2
    exit 1
fi
mkdir -p "$out/doc" "$out/bindings/python/kvmill" "$out/bindings/onnxruntime"
"$1" python >"$out/bindings/python/kvmill/tables.py"
"$1" pmx >"$out/bindings/onnxruntime/pmx_signatures.h"
awk -v describe="$1" '
    /^\.\\" End of what describe_ops prints/ { inside = 0 }
    !inside { print }
    /^\.\\" describe_ops manual / { inside = 1; fflush(); system("\"" describe "\" manual " $4) }
' "$top/doc/kvmill-specs.5" >"$out/doc/kvmill-specs.5.new"
mv "$out/doc/kvmill-specs.5.new" "$out/doc/kvmill-specs.5"
