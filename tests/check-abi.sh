#!/bin/sh
# check-abi.sh LIBRARY STORED [--refresh] -- compares the interface of a built library with that of a release, by libabigail.  With
# --refresh, stores the interface if it has changed.  SPDX-License-Identifier: Apache-2.0
library=$1 stored=$2 refresh=$3
top=$(dirname "$0")/..

skip() {
    if [ "$refresh" = --refresh ]; then
        echo "check-abi: $stored stays as it is: $1"
        exit 2
    fi
    echo "check-abi: skipped, $1"
    exit 0
}
for program in abidw abidiff; do
    command -v $program >/dev/null || skip "needs $program (Debian: abigail-tools)"
done
case $(uname -m) in
x86_64) ;;
*) skip "the stored interface is that of x86_64" ;;
esac

new=$(mktemp) || exit 2
trap 'rm -f "$new" "$new.log"' EXIT
abidw --headers-dir "$top/include" --drop-private-types --exported-interfaces-only --no-elf-needed --no-show-locs \
    --no-corpus-path --no-comp-dir-path "$library" >"$new" || exit 2
grep -q "<function-decl name='kvmill_" "$new" || skip "the library has no debugging information (CFLAGS without -g)"
if [ "$refresh" = --refresh ] && [ ! -e "$stored" ]; then
    cp "$new" "$stored"
    exit
fi
abidiff "$stored" "$new" 2>"$new.log"
result=$?
if [ $((result & 3)) -ne 0 ] || [ -s "$new.log" ]; then
    cat "$new.log" >&2
    exit 2
fi
if [ $result -eq 0 ]; then
    echo "check-abi: ${library##*/}: the interface is that of the last release"
    exit
fi
if [ "$refresh" = --refresh ]; then
    cp "$new" "$stored"
    exit
fi
if [ $((result & 8)) -ne 0 ]; then
    echo "check-abi: programs of the last release break: another soname, LIBKVMILL_VERSION or LIBKVMILL_SPECS_VERSION in configure.ac"
    exit 1
fi
echo "check-abi: something was added or changed, as above: LIBKVMILL_VERSION or LIBKVMILL_SPECS_VERSION, then make refresh-abi"
exit 1
