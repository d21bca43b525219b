# A part of tests/ggml.test: the adapter in prebuilt libraries of llama.cpp's releases.  With KVMILL_LATEST_LLAMA=1 also in the
# latest, whatever that is, so that a new version of ggml's interface is noticed here first.  SPDX-License-Identifier: Apache-2.0

lacks() { # REASON -- of this part alone
    [ "${KVMILL_REQUIRE_CONFORMANCE:-0}" = 1 ] && ok 1 "releases of llama.cpp: $1" || echo "# skipped, releases of llama.cpp: $1"
}
fetch_release() { # VERSION [DIGEST] -- to $release
    release=$tree/releases/$1
    [ ! -e "$release/complete" ] || return 0
    rm -rf "$release" && mkdir -p "$release" && echo "llama-cpp-py-sync${2:+==$1 --hash=sha256:$2}" >"$release/requirements.txt" &&
        "$(pip_python "$builddir")" -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: -d "$release" \
            ${2:+--require-hashes} -r "$release/requirements.txt" && (cd "$release" && "${PYTHON:-python3}" -m zipfile -e ./*.whl . && rm ./*.whl) &&
        ln -sf libggml.so.0 "$release/llama_cpp_py_sync/libggml.so" && touch "$release/complete"
}

# Runs a program with a release's libraries, and with a newer C library if this machine's is too old for them.
needs_libc() {
    LD_LIBRARY_PATH=$release/llama_cpp_py_sync ldd ./attention 2>&1 | grep -q "version .GLIBC.* not found"
}
with_release() { # PRELOADED PROGRAM
    libraries=$release/llama_cpp_py_sync
    if needs_libc; then
        newer=$(dirname "$tree/libc/root/usr/lib/"*/libc.so.6)
        LD_PRELOAD=$1 "$newer"/ld-linux-x86-64.so.2 --library-path "$newer:$libraries" "$2"
    else
        LD_PRELOAD=$1 LD_LIBRARY_PATH=$libraries "$2"
    fi
}
try_release() { # VERSION [DIGEST]
    fetch_release "$@" >fetch.log 2>&1 || { lacks "$1 cannot be fetched" && return; }
    ! needs_libc || reason=$(sh "$here/newer_libc.sh" "$tree/libc") || { lacks "$1: $reason" && return; }
    for part in attention store walk; do
        expect 0 '^ok' "release $1: $part" with_release '' ./$part
        check "  without a failure" test "$(grep -c '^not ok' out.log)" -eq 0
    done
    expect 0 '^attention by kvmill$' "release $1: kvmill preloaded" quiet_release ./door
}
quiet_release() (
    unset GGML_BACKEND_PATH
    with_release "$scratch/adapter/libggml-kvmill.so" "$1"
)
if [ $arch = x86 ]; then
    while read -r version digest; do
        try_release "$version" "$digest" </dev/null
    done <<EOT
$(grep -v '^#' "$here/releases.tsv")
EOT
    [ "${KVMILL_LATEST_LLAMA:-0}" != 1 ] || { rm -rf "$tree/releases/latest" && try_release latest; }
fi
