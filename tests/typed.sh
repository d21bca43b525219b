# Runs README and guides as a user types them: the commands of a page in order, in a directory with the source's configs and
# tests, with an installed kvmill, in an environment that has only paths and compiler flags.  Whole programs are written to the
# files that their first lines name.  The first output of a command must be what the page shows, except for numbers; sizes of
# code must be close.  tests/tables/untyped.tsv lists what is not typed: the page, how the text begins, why, and what is typed
# instead, or "-".  Sourced by example.test, which sets $prefix.
untyped=$srcdir/tests/tables/untyped.tsv

# commands PAGE -- prints a line for each command: the command, a tab, and the line of output shown below it.
commands() {
    awk '/^```/ {fence = !fence; if (said != "") print said "\t"; said = ""; next}
        !fence {next}
        /^\$ / {if (said != "") print said "\t"; said = substr($0, 3); next}
        said != "" {print said "\t" $0; said = ""}' "$1"
}

# programs PAGE -- writes the programs that name a file; prints how the other blocks of C and Python begin.
programs() {
    awk '/^```/ {begins = ($0 == "```c" || $0 == "```python"); file = ""; next}
        begins && /^\/\* [a-z]*\.c \*\/$/ {file = $2}
        begins && file == "" {print}
        {begins = 0}
        file != "" {print >file}' "$1"
}

# row PAGE TEXT -- prints the reason and the replacement from the table.
row() {
    awk -F '\t' -v page="$1" -v text="$2" '$1 == page && index(text, $2) == 1 {print $3 "\t" $4; exit}' "$untyped"
}

plainly() {
    tr -s ' ' | sed 's/[0-9][0-9.]*/0/g'
}

# code_size FILE -- prints the size of a pack's code in a line of the page, in its unit.
code_size() {
    sed -n 's/.* about \([0-9]*\) [A-Za-z]* of code.*/\1/p' "$1" | head -n 1
}

# size_is_near PRINTED -- whether the size of code on the page is within a tenth of today's.
size_is_near() {
    echo "$1" >said.log
    said=$(code_size said.log)
    is=$(code_size typed.log)
    [ -z "$said" ] || [ $((10 * (said > is ? said - is : is - said))) -le "$is" ]
}

# type_it PAGE COMMAND PRINTED -- runs a command, and compares the output with the page.
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
