# Functions that write arrays to files with printf, that run a spec in all ways, and that check refusals; sourced after tap.sh.

# npy FILE DESCR FORTRAN SHAPE BYTES... -- an array of format version 1; bytes are decimal.
npy() {
    file=$1
    dict="{'descr': '$2', 'fortran_order': $3, 'shape': ($4), }"
    shift 4
    dict=$(printf '%-117s' "$dict") # 10 + 117 + 1 is a multiple of 64
    {
        printf '\223NUMPY\001\000\166\000%s\n' "$dict"
        # shellcheck disable=SC2059
        [ $# -eq 0 ] || printf "$(printf '\\%03o' "$@")"
    } >"$file"
}

# words FILE SHAPE NUMBERS... -- int64; each number is below 65536, or is -1.
words() {
    file=$1 shape=$2
    shift 2
    bytes=
    for word in "$@"; do
        if [ "$word" -lt 0 ]; then
            bytes="$bytes 255 255 255 255 255 255 255 255"
        else
            bytes="$bytes $((word % 256)) $((word / 256)) 0 0 0 0 0 0"
        fi
    done
    # shellcheck disable=SC2086
    npy "$file" '<i8' False "$shape" $bytes
}

# count FROM TO -- the numbers from FROM to TO.
count() {
    awk "BEGIN {for (i = $1; i <= $2; i++) print i}"
}

# bytes_of FILE -- prints the data in decimal on one line.
bytes_of() {
    tail -c +129 "$1" | od -An -v -tu1 | xargs
}

# holds FILE BYTES... -- whether the data is exactly these bytes.
holds() {
    file=$1
    shift
    [ "$(bytes_of "$file")" = "$*" ] || {
        echo "got    $(bytes_of "$file")"
        echo "wanted $*"
        return 1
    }
}

# halves FILE SHAPE HIGH-BYTES... -- float16 with low bytes of 0: 60 is 1, 64 is 2, 66 is 3, 68 is 4.
halves() {
    file=$1 shape=$2
    shift 2
    bytes=
    for high in "$@"; do
        bytes="$bytes 0 $high"
    done
    # shellcheck disable=SC2086
    npy "$file" '<f2' False "$shape" $bytes
}

# singles FILE SHAPE HEX... -- float32, given by their high halves.
singles() {
    file=$1 shape=$2
    shift 2
    bytes=
    for high in "$@"; do
        bytes="$bytes 0 0 $((0x$high % 256)) $((0x$high / 256))"
    done
    # shellcheck disable=SC2086
    npy "$file" '<f4' False "$shape" $bytes
}

# numbers FILE SHAPE NUMBERS... -- int32.
numbers() {
    file=$1 shape=$2
    shift 2
    # shellcheck disable=SC2046
    npy "$file" '<i4' False "$shape" $(for number in "$@"; do echo "$number 0 0 0"; done)
}

# refuse WORDS ARGUMENTS... -- kvmill run exits with 1 and prints WORDS, and present.npy is not written.
refuse() {
    words=$1
    shift
    rm -f present.npy
    expect 1 "$words" "refused: $(echo "$*" | cut -c1-100)" "$kvmill" run "$@"
    check "  and no output is written" test ! -e present.npy
}

# refusals -- calls refuse for each line "WORDS @ ARGUMENTS" of standard input.
refusals() {
    while read -r line; do
        # shellcheck disable=SC2086
        refuse "${line%% @ *}" ${line#* @ }
    done
}

# attend NAME OPTIONS... -- runs in all ways, with new outputs; `gives` checks them.
attend() {
    what=$1
    shift
    for way in '' --portable '--threads 3'; do
        rm -f out.npy lse.npy
        # shellcheck disable=SC2086
        check "$what: run $way" "$kvmill" run "$@" $way
        gives
    done
}
