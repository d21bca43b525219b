#!/bin/sh
# precompile.sh DIRECTORY COMPILER FLAGS... -- the header of the instruction sets' intrinsics, compiled once: reading it is
# half of compiling most kernels.  Prints the options with which that compiler reads it from there.  The flags must be the
# same: with another -O GCC may crash, and clang refuses it.
set -eu
directory=$1
shift
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)
case $("$@" -dM -E -x c /dev/null) in
*__clang__*__x86_64__*) header=immintrin.h name=intrinsics.h options="-include $directory/intrinsics.h" ;;
*__clang__*) exit 0 ;;
*__x86_64__*) header=immintrin.h name=$header options=-I$directory ;;
*__aarch64__*) header=arm_neon.h name=$header options=-I$directory ;;
*) exit 0 ;;
esac
echo "#include <$header>" >"$directory/intrinsics.h"
"$@" -fPIC -x c-header -o "$directory/$name.gch" "$directory/intrinsics.h"
echo "$options"
