# A part of tests/ggml.test: kvmill llama, and the adapter in programs whose ggml loads no plugins; tests/llama.test has the
# rest.  SPDX-License-Identifier: Apache-2.0

quiet() { # COMMAND... -- without a plugin that the user names
    env -u GGML_BACKEND_PATH -u KVMILL_VERBOSE "$@"
}
llama() {
    quiet "$kvmill" llama --adapter "$scratch/adapter/libggml-kvmill.so" "$@"
}
says() { # WORDS NAME -- the last expect printed WORDS, too
    check "$2" grep -Eq -- "$1" all.log
}

# ---- Programs as llama.cpp's are by default: linked with shared libraries, CPU backend and all ----

check "a program that does what llama.cpp's do" program door "$tree/build"
expect 0 '^attention by CPU$' "without kvmill" quiet ./door
expect 0 '^attention by CPU$' "  and with GGML_BACKEND_PATH, which it does not heed" ./door
expect 0 '^attention by kvmill$' "kvmill llama" llama -- ./door
says '^kvmill llama: /.*libggml-kvmill.so is preloaded into ./door; LLAMA_ARG_FLASH_ATTN=on$' "  says what it does"
says "^kvmill: in use: version 2 of ggml's interface, /.*libggml.so$" "  and then where kvmill is in use"
check "  the device is there once" test "$(grep -c '^device kvmill$' out.log)" -eq 1
expect 0 '^attention by kvmill$' "by its name in PATH, and without --" env PATH="$scratch:$PATH" "$kvmill" llama --adapter adapter/libggml-kvmill.so door
expect 0 '^attention by kvmill$' "the adapter of this directory" sh -c 'cd adapter && "$0" llama ../door' "$kvmill"
expect 0 '^attention by kvmill$' "a program that loads plugins, too" env LD_PRELOAD="$scratch/adapter/libggml-kvmill.so" ./door again
check "  has the device once" test "$(grep -c '^device kvmill$' out.log)" -eq 1
expect 0 '^attention by kvmill$' "a program that another one starts" llama -- sh -c './door; true'
expect 0 'LLAMA_ARG_FLASH_ATTN=off$' "what the environment says of flash attention stays" \
    env LLAMA_ARG_FLASH_ATTN=off "$kvmill" llama --adapter adapter/libggml-kvmill.so ./door off
expect 0 'preloaded into ./door$' "  and what the program's arguments say" llama -- ./door off -fa off
says '^kvmill: not in use: ggml offered no attention; -fa on' "a program without flash attention is told so"
expect 0 '^attention by CPU$' "small attention is left to ggml" env KVMILL_GGML_LEAST=300000 "$kvmill" llama --adapter adapter/libggml-kvmill.so ./door
says '^kvmill: not in use: all attention was small' "  which is said"
echo 'int main(void) {return 0;}' | $CC -o nothing -x c -
expect 0 '^kvmill: not in use: this program has not asked ggml' "a program without ggml" llama -- ./nothing

# As Python's packages load llama.cpp: in sight of nobody.
# shellcheck disable=SC2086
$CC -std=gnu11 -D_GNU_SOURCE -O1 -shared -fPIC -Dmain=run -I"$GGML/include" -I"$srcdir/include" -o libdoor.so "$here/door.c" "$here/engine.c" "$here/node.c" \
    "$srcdir/tests/tap.c" -L"$tree/build" -lggml -Wl,-rpath,"$tree/build" -L"$builddir/.libs" -lkvmill -Wl,-rpath,"$builddir/.libs" -lm -pthread
echo '#include <dlfcn.h>
int main(int argc, char **argv) {return ((int (*)(int, char **))dlsym(dlopen(argv[1], RTLD_NOW | RTLD_LOCAL), "run"))(1, argv);}' |
    $CC -w -o loads -x c - -ldl
expect 0 '^attention by kvmill$' "a program that loads llama.cpp later, as Python does" llama -- ./loads "$scratch/libdoor.so"

# ---- Builds whose backends are plugins (GGML_BACKEND_DL), and those of another version ----

# Only what names a backend or the version is compiled again.
variant() { # DIRECTORY SOURCE FLAGS
    mkdir -p "$1" && cp -r "$tree/build/core" "$tree/build/cpu" "$tree/build/ggml-version.h" "$1" &&
        rm "$1/core/ggml-backend-reg.cpp.o" "$1/cpu/ggml-cpu.cpp.o" &&
        make -C "$1" -s -j2 -f "$here/ggml.mk" GGML="$2" ARCH=$arch CC="$ggml_cc" CXX="$CXX $3" -o ggml-version.h \
            $(cd "$1" && find core cpu -name '*.o' | sed 's/^/-o /') core/ggml-backend-reg.cpp.o cpu/ggml-cpu.cpp.o
}
with_plugins() {
    other ggml-backend-reg.cpp 's/GGML_USE_CPU/GGML_USE_NONE/' && variant dl "$scratch/other" "-DGGML_BACKEND_DL -DGGML_BACKEND_SHARED -DGGML_BACKEND_BUILD" &&
        (cd dl && $CXX -shared -Wl,-soname,libggml.so -o libggml.so core/*.o -pthread -ldl -lm &&
            $CXX -shared -o libggml-cpu.so cpu/*.o cpu/*/*.o cpu/*/*/*.o -L. -lggml "-Wl,-rpath,$PWD") && cp door dl
}
check "a ggml with plugins" with_plugins
plugged() {
    quiet env LD_LIBRARY_PATH="$scratch/dl" "$@"
}
expect 0 '^attention by kvmill$' "kvmill llama, with plugins" plugged "$kvmill" llama --adapter adapter/libggml-kvmill.so dl/door
check "  the device is there once" test "$(grep -c '^device kvmill$' out.log)" -eq 1
expect 0 '^attention by kvmill$' "GGML_BACKEND_PATH, with plugins" env LD_LIBRARY_PATH="$scratch/dl" dl/door
expect 0 '^plugins +are loaded' "kvmill llama --check, with plugins" plugged "$kvmill" llama --adapter adapter/libggml-kvmill.so --check dl/door
other ggml-backend-impl.h 's/\(API_VERSION\) [0-9]*/\1 4/'
variant four "$scratch/other" "" >build.log 2>&1 &&
    (cd four && $CXX -shared -Wl,-soname,libggml.so -o libggml.so core/*.o cpu/*.o cpu/*/*.o cpu/*/*/*.o -pthread -ldl -lm)
expect 1 "not in use: version 4 of ggml's interface for backends; accepted: 2 to 3" "a later version of the interface" \
    env LD_LIBRARY_PATH="$scratch/four" ./attention "$GGML_BACKEND_PATH" 64
four() {
    quiet env LD_LIBRARY_PATH="$scratch/four" "$kvmill" llama --adapter adapter/libggml-kvmill.so "$@"
}
expect 0 '^attention by CPU$' "  in a program, which goes on without kvmill" four ./door
says "^kvmill: not in use: version 4 of ggml's interface" "  and says so"
expect 1 '^./door: cannot use kvmill: version 4' "  as kvmill llama --check does" four --check ./door

# ---- kvmill llama --check ----

expect 0 '^kvmill +is used' "kvmill llama --check" llama --check ./door
says "^ggml +/.*/libggml.so$" "  names ggml's library"
says '^plugins +are not loaded' "  and says that GGML_BACKEND_PATH has no effect"
check "  on standard output alone" test ! -s err.log
expect 0 '^kvmill +is used' "of a library" llama --check "$tree/build/libggml.so"
expect 0 '^ggml +/.*/libggml.so$' "of one that needs ggml" llama --check ./libdoor.so
expect 1 'loads no ggml when it starts' "of a program without ggml" llama --check env
# shellcheck disable=SC2046
$CXX -o inside -x c++ - $(find "$tree/build/core" "$tree/build/cpu" -name '*.o' | sed 's/^/-x none /') -pthread -ldl -lm <<'EOT'
extern "C" void ggml_backend_load_all(void);
int main() {ggml_backend_load_all();}
EOT
for command in -- --check; do
    expect 1 '^./inside: ggml is linked statically into it.*BUILD_SHARED_LIBS' "ggml is a part of the program: $command" llama $command ./inside
done
expect 1 'libold.so: is not the adapter' "another library than the adapter" "$kvmill" llama --adapter libold.so --check ./door

# ---- kvmill llama --calibrate ----

expect 0 "^$scratch/measured: written\$" "kvmill llama --calibrate" env KVMILL_CALIBRATION="$scratch/measured" "$kvmill" llama --adapter adapter/libggml-kvmill.so --calibrate ./door
for number in asleep ggml_split; do
    check "  $number is the last of the values that were tried" \
        grep -q "^$number $(sed -n "s/^$number .* with \([0-9]*\): [0-9.]* times as fast\$/\1/p" out.log)\$" measured
done
says '^ggml_split +[0-9]+; with 75000: [0-9.]+ times as fast' "  from the first one on"
check "  which is where it stops" awk '/times as fast/ {
    n = gsub(/times as fast/, ""); last = $0; sub(/.*: /, "", last); wins = last >= 1
    if (!wins && n < 6) bad = 1} END {exit bad}' out.log
check "  numbers of kernels are presets" grep -qx 'gather_streams 4' measured
calibrated_four() {
    KVMILL_CALIBRATION=$scratch/none four --calibrate ./door
}
expect 1 '^./door: cannot use kvmill: version 4' "--calibrate of another version" calibrated_four
mkdir -p bare && printf '{"kernels": [{"op": "CacheAttend", "num_heads": 1, "num_kv_heads": 1, "key_head_dim": 40, "T1": "float32", "mask_T1": "float16", "key_T2": "float32"}]}' >bare.json
compile bare "$srcdir" bare.json >build.log 2>&1
expect 1 'cannot use kvmill: .*has no kernels for f16, q8_0 or q4_0 caches' "  of an adapter without kernels to measure" \
    env KVMILL_CALIBRATION="$scratch/none" "$kvmill" llama --adapter bare/libggml-kvmill.so --calibrate ./door
check "  which writes nothing" test ! -e none

# ---- The guide's commands, as they are printed, with another program than llama-cli ----

mkdir -p typed bin && cp door bin/llama-cli && cp "$srcdir/tests/fuzz/seeds/gguf/windows.seed" typed/model.gguf && ln -s "$kvmill" bin/kvmill
cat >bin/pkg-config <<EOT
#!/bin/sh
case \$1 in
--cflags) echo "-I$srcdir/include" ;;
--libs) echo "-L$builddir/.libs -lkvmill" ;;
*) echo "$builddir/.libs" ;;
esac
EOT
chmod +x bin/pkg-config
sed -n '/^## Three commands/,/^## /{/^```sh/,/^```$/{/^```/d;p;};}' "$srcdir/doc/guide/llama.cpp.md" | sed "s|KVMILL/|$srcdir/|" >typed/commands
check "the guide has three commands" test "$(wc -l <typed/commands)" -eq 3
expect 0 "^kvmill: in use: version 2" "  which work as they are printed" \
    quiet env PATH="$scratch/bin:$PATH" MAKEFLAGS="ISAS=$best CFLAGS=-O0" CPPFLAGS="-I$headers" sh -ec 'cd typed && . ./commands'
says '^attention by ' "  up to the program"
