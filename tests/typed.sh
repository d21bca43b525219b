# README and guides as they are typed: the commands of a page in their order, in a directory that has the source's configs and tests, by an
# installed kvmill, in an environment of paths and of flags for compilers; whole programs go to the files that their first lines name.  What a command
# prints first is what the page says, except for numbers; sizes of code are near.  What is not typed is a row of tests/tables/untyped.tsv: the page, how it begins,
# why, and what is typed in its place, or "-".  Sourced by example.test, which has $prefix.
untyped=$srcdir/tests/tables/untyped.tsv

# commands PAGE -- of each a line, and after a tab the line that is printed below it.
commands() {
    awk '/^```/ {fence = !fence; if (said != "") print said "\t"; said = ""; next}
        !fence {next}
        /^\$ / {if (said != "") print said "\t"; said = substr($0, 3); next}
        said != "" {print said "\t" $0; said = ""}' "$1"
}

# programs PAGE -- writes those that name a file; tells how the other blocks of C and Python begin.
programs() {
    awk '/^```/ {begins = ($0 == "```c" || $0 == "```python"); file = ""; next}
        begins && /^\/\* [a-z]*\.c \*\/$/ {file = $2}
        begins && file == "" {print}
        {begins = 0}
        file != "" {print >file}' "$1"
}

# row PAGE TEXT -- what the table says of it: why, and what is typed in its place.
row() {
    awk -F '\t' -v page="$1" -v text="$2" '$1 == page && index(text, $2) == 1 {print $3 "\t" $4; exit}' "$untyped"
}

plainly() {
    tr -s ' ' | sed 's/[0-9][0-9.]*/0/g'
}

# code_size FILE -- of the pack that a line tells the size of, in its unit.
code_size() {
    sed -n 's/.* about \([0-9]*\) [A-Za-z]* of code.*/\1/p' "$1" | head -n 1
}

# size_is_near PRINTED -- what the page says of code is today's, within a tenth.
size_is_near() {
    echo "$1" >said.log
    said=$(code_size said.log)
    is=$(code_size typed.log)
    [ -z "$said" ] || [ $((10 * (said > is ? said - is : is - said))) -le "$is" ]
}

# type_it PAGE COMMAND PRINTED
type_it() {
    env -i PATH="$prefix/bin:/usr/bin:/bin" HOME="$scratch" CFLAGS="$CFLAGS" CPPFLAGS="$CPPFLAGS" MAKEFLAGS=-j2 KVMILL_BENCH_ROTATION=16 \
        PKG_CONFIG_PATH="$prefix/lib/pkgconfig" LD_LIBRARY_PATH="$prefix/lib" sh -c "$2" >typed.log 2>&1
    result=$?
    if [ $result -eq 0 ] && [ -n "$3" ]; then
        plainly <typed.log | grep -qxF -e "$(echo "$3" | plainly)" && size_is_near "$3"
        result=$?
    fi
    ok $result "$1: $2"
    [ $result -eq 0 ] || { echo "# wanted: $3"; tail -n 20 typed.log | diag; }
}

quick_kernels -O1
tab=$(printf '\t')
for page in README.md doc/guide/generate.md doc/guide/link.md doc/guide/measure.md doc/guide/sparse.md doc/guide/stablehlo.md; do
    mkdir -p "$scratch/typed/$page" && cd "$scratch/typed/$page" || exit 1
    ln -s "$srcdir/configs" "$srcdir/tests" .
    echo '{"op": "TensorScatter", "dtype": "float16", "past_cache": [2, 1, 64, 64], "update": [2, 1, 1, 64]}' >one.json
    programs "$srcdir/$page" >parts
    commands "$srcdir/$page" >typed
    while read -r part; do
        ok "$([ -n "$(row $page "$part")" ]; echo $?)" "$page: \"$part ...\" is a part of something"
    done <parts
    while IFS=$tab read -r command printed <&3; do
        found=$(row $page "$command")
        instead=${found#*"$tab"}
        [ -z "$found" ] || command=$instead
        [ "$command" = - ] || type_it $page "$command" "$printed"
    done 3<typed
    awk -F '\t' -v page="$page" 'FILENAME != "-" {text[++n] = $0; next}
        $1 == page {found = 0; for (i = 1; i <= n; i++) found = found || index(text[i], $2) == 1; if (!found) print $2}' parts typed - <"$untyped" >stale
    ok "$(wc -l <stale)" "$page: all rows of untyped.tsv are needed"
    diag stale
done
cd "$scratch" || exit 1
