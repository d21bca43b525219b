#!/bin/sh
# words.sh: prints doc/words.md, from the headers of templates/words.  SPDX-License-Identifier: Apache-2.0
set -e
top=$(dirname "$0")/..
cat <<'PAGE'
# Words

Templates compute with *words*: C functions on vectors of `LANES` elements. Each has a meaning in plain C, in `templates/words/meaning.h` and the headers that it
includes. An instruction set's own version of `WORD` is `SET_WORD` in the header of the set; `vector` and `vector4` are C that compilers turn into vector
instructions, for all sets and for those with four lanes, and `x86` is for all sets of x86-64. A kernel uses the last version that its set has.
`tests/words.test` compares all versions with the meaning, and `kvmill bench --words` times them.

`doc/words.sh >doc/words.md` makes this page from the headers.
PAGE
for header in "$top"/templates/words/*.h; do
    awk -v folder="$top/templates/words" -v header="$(basename "$header" .h)" -f "$top/tests/words.awk"
done | awk -F '\t' '
    function cell(text) {gsub(/\|/, "\\|", text); gsub(/\*/, "\\*", text); gsub(/  /, " ", text); return text}
    ($1, $2) in seen {next}
    {
        seen[$1, $2] = 1
        if (index($2, $1 "_") == 1) {
            word = substr($2, length($1) + 2)
            versions[word] = (versions[word] == "" ? "" : versions[word] ", ") $1
            has_versions[$1] = 1
        } else {
            count[$1]++
            names[$1, count[$1]] = $2
            types[$2] = $3
            parameters[$2] = $4
            meanings[$2] = $5
        }
    }
    function table(file, i, name) {
        print "\n## " file ".h\n\n| word | result | meaning | versions |\n|---|---|---|---|"
        for (i = 1; i <= count[file]; i++) {
            name = names[file, i]
            print "| `" name "(" parameters[name] ")` | `" substr(types[name], 1, length(types[name]) - 1) "` | " cell(meanings[name]) " | " versions[name] " |"
        }
    }
    END {
        table("meaning")
        table("codes")
        table("float16")
        for (file in count)
            if (!(file in has_versions) && file !~ /^(meaning|codes|float16)$/) {
                print file ".h has meanings, and is not in doc/words.sh" >"/dev/stderr"
                exit 1
            }
    }'
