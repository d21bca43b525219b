#!/bin/sh
# precompile.sh DIRECTORY COMPILER FLAGS... -- the header of the instruction sets' intrinsics for GCC, which reads it from
# there with -IDIRECTORY.  For most kernels that is half of compiling them.  The flags must be the same: with another -O
# GCC may crash.  What other compilers are to make of it is nothing: they read their own.
set -eu
directory=$1
shift
mkdir -p "$directory"
case $("$@" -dM -E -x c /dev/null) in
*__clang__*) exit 0 ;;
*__x86_64__*) header=immintrin.h ;;
*__aarch64__*) header=arm_neon.h ;;
*) exit 0 ;;
esac
echo "#include <$header>" >"$directory/intrinsics.h"
exec "$@" -fPIC -x c-header -o "$directory/$header.gch" "$directory/intrinsics.h"
