# Compares the words of an instruction set with their meanings; sourced by tests that run them.

word_flags="-std=gnu11 -O1 -ffp-contract=off"

# words_of ISA TEMPLATES COMPILER RUN [OPTIONS [WORD]] -- prints TAP for all words, or one.  RUN: an emulator, or empty.
words_of() {
    chain=$1
    case $1 in
    neoni8mm) chain="neon $1" ;;
    avxvnni) chain="avx2 $1" ;;
    avx512vnni) chain="avx512 $1" ;;
    avx512fp16) chain="avx512 avx512vnni $1" ;;
    esac
    isa_files=
    for part in $chain; do isa_files="$isa_files $2/isa/$part.m4"; done
    for mode in isa meaning; do
        # shellcheck disable=SC2086
        echo "m4_define(«km_mode», «$mode»)m4_dnl" |
            "$M4" -P -E -E "$2/lib/base.m4" "$2/lib/words.m4" "$2/lib/vocabulary.m4" - $isa_files "$2/isa/contract.m4" \
                "$2/lib/kernel.m4" "$srcdir/tests/words.c.m4" >"words_$mode.c" || return 1
    done
    compile="$3 $word_flags -fPIC -Wall -Wextra -Werror -Wno-psabi -Wno-unused-function -Iheaders ${5:-}"
    compile="$compile -Iinclude -I$srcdir/include -I$srcdir/tests"
    # shellcheck disable=SC2086
    [ -f words.o ] || $compile -c "$srcdir/tests/words.c" "$srcdir/tests/tap.c" "$srcdir/tests/fence.c" || return 1
    # shellcheck disable=SC2086
    cmp -s words_meaning.c meant.c || { $compile -c words_meaning.c && cp words_meaning.c meant.c; } || return 1
    # shellcheck disable=SC2086
    $compile -o words words_isa.c words_meaning.o words.o tap.o fence.o -lm || return 1
    # shellcheck disable=SC2086
    $4 ./words ${6:-}
}

# test_words ISA COMPILER RUN OPTIONS TEMPLATES -- reports one result; names the words that are wrong or had no case.
test_words() {
    words_of "$1" "${5:-$srcdir/templates}" "$2" "$3" "${4:-}" >log 2>&1
    result=$?
    tested=$(grep -c '^ok .*: [1-9][0-9]* cases' log)
    [ $result -eq 0 ] && [ "$tested" -ge 85 ]
    result=$?
    ok $result "$1: $tested words do what they mean"
    [ $result -eq 0 ] || grep -v '^ok' log | head -n 20 | diag
}
