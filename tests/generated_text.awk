# Rules for generated text: prints a line for each violation.  SPDX-License-Identifier: Apache-2.0
function wrong(what) {
    printf "%s:%d: %s: %s\n", FILENAME, FNR, what, $0
}
FNR == 1 { depth = 0; in_comment = 0; is_whole = 0; last = "" }
{
    # A name alone may take most of a line.
    named = match($0, /kvmill_[a-z0-9_]*__[a-z0-9_]*/) ? RLENGTH : 0
    if (length($0) > 120 && named <= 85) wrong("longer than 120")
    if ($0 ~ /[ \t]$/) wrong("a blank at the end")
    if ($0 ~ /\t/) wrong("a tab")
    if ($0 == "" && (last == "" || last ~ /\{$/)) wrong("a blank line too many")
    if ($0 ~ /^ *\}/ && last == "" && FNR > 1) wrong("a blank line at the end of a block")
    code = $0
    gsub(/"([^"\\]|\\.)*"/, "\"\"", code)
    gsub(/\/\*.*\*\//, "", code)
    if (in_comment || code ~ /\/\*/) {
        in_comment = code !~ /\*\//
        last = $0
        next
    }
    if (code ~ / [+-] 0([];,) ]|$)/ || code ~ /(\(|\[|, |= |return )0 \+ /) wrong("a sum with 0")
    if (code ~ / [*\/] 1([];,) ]|$)/ || code ~ /(\(|\[|, |= |return )1 \* /) wrong("a product with 1")
    if (code ~ / \* 0([];,) ]|$)/ || code ~ /(\(|\[|, |= |return )0 \* /) wrong("a product with 0")
    if (code ~ /(^|[^A-Za-z_0-9.)] ?)\([0-9]+\)/ && code !~ /(aligned|vector_size)\(/) wrong("a number in parentheses")
    if (code ~ /(\(|\[|, |= |return )[0-9]+ [-+*\/%] [0-9]+([];,) ]|$)/) wrong("numbers that could be one")
    if (code ~ /(if|while) \([0-9]+\)/) wrong("a condition on a number")
    if (code ~ / (<<|>>) 0([];,) ]|$)/) wrong("a shift by 0")
    if (code ~ /[0-9] \* \([0-9]+ \* [a-z]+\)/) wrong("two factors that could be one")
    if (code ~ /[(= ]\([a-z_0-9]+ \+ [a-z0-9_]+\)\[0\]/) wrong("a sum with an index of 0")
    if (code ~ /for \([a-z0-9_]+ [a-z_]+ = 0; [a-z_]+ < 1; [a-z_]+\+\+\)/) wrong("a loop of one turn")
    # A block that is all that another one holds.
    if (code ~ /^ *\}/) {
        if (is_whole) wrong("a block in a block")
        is_whole = code ~ /^ *\}$/ && is_inner[depth]
    } else is_whole = 0
    # Functions without statements, except that of phases without work.
    if (code ~ /^[a-z].*\)$/) name = code
    if (code == "{") statements = 0
    else if (code !~ /^ *\(void\)[a-z_0-9]+;$/ && code !~ /^\}/) statements++
    if (code == "}" && statements == 0 && name !~ /^nothing\(/) wrong("a function that does nothing")
    match($0, /^ */)
    indent = RLENGTH
    if ($0 ~ /^ *\}/) depth--
    if ($0 != "" && $0 !~ /^#/ && previous ~ /[;{}]$/ && (indent % 4 != 0 || indent < 4 * depth)) wrong("indented by " indent)
    if ($0 ~ /^[ ]*[^ }]/ && previous ~ /\{$/ && indent <= opened) wrong("not deeper than its block")
    if (previous ~ /[;{}]$/ || previous == "") start = indent
    if (code ~ /\{$/) {
        depth++
        opened = start
        is_inner[depth] = code ~ /^ *\{$/ && previous ~ /\{$/
    }
    if ($0 != "") previous = code
    last = $0
}
