#!/bin/sh
# explained.sh KVMILL -- prints the words of `kvmill explain` for each kernel of this folder, without the size of its code.
kvmill=${1:?usage: explained.sh KVMILL (the command, as built)}
for file in "$(dirname "$0")"/kvmill_*.c; do
    "$kvmill" explain "$(basename "$file" .c)"
done | sed 's/; about [0-9]* bytes of code\.$/./'
