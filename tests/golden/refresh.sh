#!/bin/sh
# Write the golden kernels anew: refresh.sh KVMILL.  The list of them is the files that are here.
set -eu
kvmill=${1:?usage: refresh.sh KVMILL (the command, as built)}
golden=$(cd "$(dirname "$0")" && pwd)
KVMILL_DATADIR=$(cd "$golden/../.." && pwd)
export KVMILL_DATADIR
for file in "$golden"/kvmill_*.c; do
    "$kvmill" explain --kernels "$golden/flows.json" --source "$(basename "$file" .c)" >"$file.new"
    mv "$file.new" "$file"
done
