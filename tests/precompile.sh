#!/bin/sh
# precompile.sh DIRECTORY COMPILER FLAGS... -- precompiles the header of the instruction sets' intrinsics, because reading it is
# half of the time that most kernels take to compile.  Prints the options with which the compiler uses it.  The flags must be
# the same later: with another -O level GCC may crash, and clang refuses the file.
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
