#!/bin/sh
# refresh.sh KVMILL -- generates the kernels of this folder again.  The files in the folder are the list of them.
set -eu
kvmill=${1:?usage: refresh.sh KVMILL (the command, as built)}
generated=$(cd "$(dirname "$0")" && pwd)
KVMILL_DATADIR=$(cd "$generated/.." && pwd)
export KVMILL_DATADIR
for file in "$generated"/kvmill_*.c; do
    "$kvmill" explain --kernels "$generated/programs.json" --source "$(basename "$file" .c)" >"$file.new"
    mv "$file.new" "$file"
done
sh "$generated/explained.sh" "$kvmill" >"$generated/explained.txt.new"
mv "$generated/explained.txt.new" "$generated/explained.txt"
