#!/bin/sh
# newer_libc.sh DIRECTORY -- unpacks the C library and its companions of Debian 13 in DIRECTORY/root, from where this machine gets
# its packages: prebuilt libraries need a newer one than Debian 12 has.  Nothing is installed.  Exits with 1 and a line with the
# reason if they cannot be had.
set -u
packages="libc6 libstdc++6 libgomp1 libgcc-s1"
fail() {
    echo "$1"
    exit 1
}
[ ! -e "$1/complete" ] || exit 0
command -v apt-get dpkg-deb >/dev/null || fail "no apt-get"
mkdir -p "$1" && cd "$1" || exit 1
mkdir -p lists/partial cache/archives/partial root
archive=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -v '^ *#' | grep -oE 'https?://[^ ]*/debian/?( |$)' | head -n 1)
[ -n "$archive" ] || fail "this machine gets no packages of Debian"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive trixie main" >sources.list
get() {
    apt-get -q -o Dir::Etc::sourcelist="$PWD/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$PWD/lists" \
        -o Dir::State::status=/dev/null -o Dir::Cache="$PWD/cache" -o Acquire::Languages=none "$@" >>get.log 2>&1
}
# shellcheck disable=SC2086
get update && get download $packages || fail "packages of Debian 13 cannot be fetched: see $PWD/get.log"
for package in *.deb; do
    dpkg-deb -x "$package" root || exit 1
done
rm -rf lists cache ./*.deb
touch complete
