# Compares the words of an instruction set with their meanings; sourced by tests that run them.

word_flags="-std=gnu11 -O1 -ffp-contract=off"

# features_of ISA -- prints the CPU features that the instruction set needs, and those that it extends, one a line.
features_of() {
    "$kvmill" isas | awk -v name="$1" '{extended[$1] = $3; features[$1] = $5}
        END {for (; name in features; name = extended[name]) if (features[name] != "-") print features[name]}' | tr ',' '\n'
}

# target_flags ISA -- prints the compiler's options for it.
target_flags() {
    case $("$kvmill" isas | awk -v name="$1" '$1 == name {print $2}') in
    aarch64) features_of "$1" | sed 's/^/-march=armv8.2-a+/' ;;
    *) features_of "$1" | sed 's/^/-m/' ;;
    esac
}

# words_of ISA TEMPLATES COMPILER RUN [OPTIONS [WORD]] -- prints TAP for all versions of words that the instruction set has, or
# for those of one word.  RUN: an emulator, or empty.
words_of() {
    awk -v folder="$2/words" -v header="$1" -f "$srcdir/tests/words.awk" >words.list || return 1
    awk -v header="$1" -f "$srcdir/tests/words_calls.awk" words.list >words_isa.c || return 1
    compile="$3 $word_flags -fPIC -Wall -Wextra -Werror -Wno-psabi -Wno-unused-function -Iheaders ${5:-}"
    compile="$compile -Iinclude -I$srcdir/include -I$srcdir/tests"
    # shellcheck disable=SC2086
    [ -f words.o ] || $compile -c "$srcdir/tests/words.c" "$srcdir/tests/words_rules.c" "$srcdir/tests/tap.c" "$srcdir/tests/fence.c" || return 1
    # shellcheck disable=SC2046,SC2086
    $compile $(target_flags "$1") -I"$2/words" -o words words_isa.c words.o words_rules.o tap.o fence.o -lm || return 1
    # shellcheck disable=SC2086
    $4 ./words ${6:-}
}

# test_words ISA COMPILER RUN OPTIONS TEMPLATES -- reports one result; names the words that are wrong or had no case.
test_words() {
    words_of "$1" "${5:-$srcdir/templates}" "$2" "$3" "${4:-}" >log 2>&1
    result=$?
    tested=$(grep -c '^ok .*: [1-9][0-9]* cases' log)
    versions=$(awk -F '\t' 'index($2, $1 "_") == 1' words.list | wc -l)
    [ $result -eq 0 ] && [ "$tested" -eq "$versions" ] && [ "$tested" -ge 30 ]
    result=$?
    ok $result "$1: $tested versions of words do what they mean"
    [ $result -eq 0 ] || grep -v '^ok' log | head -n 20 | diag
}

# ---- Headers, for tests/house.test, in the source tree ----

# set_of HEADER -- prints the first instruction set whose header is this one, or includes it.
set_of() {
    every_isa | while read -r isa; do
        ! awk -v folder=templates/words -v header="$isa" -v names=1 -f tests/words.awk | grep -qx "$1" || { echo "$isa"; break; }
    done
}

# compilers_for ISA -- prints the commands that compile for its CPU, one a line.
compilers_for() {
    case $("$kvmill" isas | awk -v name="$1" '$1 == name {print $2}') in
    aarch64) printf '%s\n' ${NEON_CC:+"$NEON_CC"} ${CLANG:+"$CLANG --target=aarch64-linux-gnu"} ;;
    *) printf '%s\n' "$CC" ${CLANG:+"$CLANG"} ;;
    esac
}

# check_header HEADER -- reports whether a header compiles alone, with the features that its instruction set has in the table.
check_header() {
    isa=$(set_of "$(basename "$1" .h)")
    compilers_for "${isa:-none}" >"$scratch/compilers"
    while read -r compiler; do
        # shellcheck disable=SC2046
        [ -z "$compiler" ] || $compiler $(target_flags "$isa") -std=gnu11 -fsyntax-only -Wall -Wextra -Werror -Wno-psabi \
            -Wno-unused-function "$1" || echo "$1: $compiler"
    done <"$scratch/compilers" >"$scratch/found" 2>&1
    test -n "$isa" && test ! -s "$scratch/found"
    ok $? "$1 compiles alone, for $isa, by $(grep -c . "$scratch/compilers") compilers"
    diag "$scratch/found"
}

# bare_words HEADER... -- prints the functions that have no comment above them.
bare_words() {
    awk '/^static inline / && before !~ /\*\/$/ {print FILENAME ": " $0} {before = $0}' "$@"
}
