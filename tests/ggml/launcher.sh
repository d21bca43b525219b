# A part of tests/ggml.test: kvmill llama, and the adapter in programs whose ggml loads no plugins.  SPDX-License-Identifier: Apache-2.0

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
echo 'int main(void) {return 0;}' | $CC -o nothing -x c -
expect 0 '^kvmill: not in use: this program has not asked ggml' "a program without ggml" llama -- ./nothing
expect 7 '' "the exit code is the program's" llama -- sh -c 'exit 7'
expect 143 '' "  which gets signals itself" sh -c '"$0" llama --adapter adapter/libggml-kvmill.so sleep 60 2>/dev/null & sleep 0.5; kill $!; wait $!' "$kvmill"

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
        make -C "$1" -s -j2 -f "$here/ggml.mk" GGML="$2" ARCH=$arch CC="$CC" CXX="$CXX $3" -o ggml-version.h \
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
echo 'int main(void) {return 0;}' | $CC -static -o static -x c - 2>/dev/null &&
    expect 1 '^./static: is linked statically, so no library can be loaded' "a program without a loader" llama -- ./static

# ---- What cannot be run ----

expect 1 '^kvmill llama: no program; accepted: ' "no program" llama
expect 1 'kvmill llama: --check and "./door"; accepted: one' "too much" llama --check ./door ./door
expect 1 '"nosuch": no such program in PATH' "a program that is not there" llama nosuch
expect 1 '^./nosuch: cannot read: No such file' "  by its path" llama -- ./nosuch
expect 1 '^./door.txt: is not executable' "a file" sh -c 'echo >door.txt; "$0" llama --adapter adapter/libggml-kvmill.so ./door.txt' "$kvmill"
expect 1 '^./adapter: is not executable' "a directory" llama -- ./adapter
cp door short && truncate -s 70 short
expect 1 '^./short: ' "a program that was cut short" llama -- ./short
cp door foreign && printf '\377' | dd of=foreign bs=1 seek=18 conv=notrunc 2>/dev/null
expect 1 '^./foreign: is not an executable file for this processor' "one for another processor" llama -- ./foreign
expect 1 'nowhere.so: cannot read: .*accepted: --adapter LIBRARY' "an adapter that is not there" "$kvmill" llama --adapter nowhere.so ./door
expect 1 'libggml-kvmill.so: cannot read' "  nor in this directory" "$kvmill" llama ./door
expect 1 'old.c: is not a library' "something else" "$kvmill" llama --adapter old.c ./door
expect 1 'libold.so: is not the adapter' "another library" "$kvmill" llama --adapter libold.so --check ./door
mkdir -p 'a b' && cp adapter/libggml-kvmill.so 'a b'
expect 1 'preloads no path with a space' "a path that cannot be preloaded" "$kvmill" llama --adapter 'a b/libggml-kvmill.so' ./door
if [ "$(id -u)" -eq 0 ]; then
    cp door rights && chown 65534 rights && chmod u+s rights
    expect 1 '^./rights: runs with rights that you do not have' "setuid" llama -- ./rights
fi

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
