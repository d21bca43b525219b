# Functions of more than MOST lines, signature included, in C as clang-format leaves it and in Python.
# SPDX-License-Identifier: Apache-2.0

function report(last) {
    if (last - start + 1 > MOST) printf "%s:%d: %d lines\n", file, start, last - start + 1
    start = 0
}

FNR == 1 {
    if (start && python) report(end)
    start = 0
    file = FILENAME
    python = file ~ /\.py$/
}

# C: from a line that begins at its left edge to the brace that closes at it.
!python && /^[A-Za-z_]/ && !open {
    start = FNR
    has_arguments = 0
}
!python && start && /\(/ && !open { has_arguments = 1 }
!python && start && /\{$/ && !/= \{$/ && !open { open = has_arguments }
!python && /^}/ {
    if (open) report(FNR)
    open = start = 0
}
!python && /;$/ && !open { start = 0 }

# Python: from def to the last line that is further to the right.
python && start && !/^ *$/ {
    match($0, /^ */)
    if (RLENGTH <= indent && !/^ *\)/) report(end)
    else end = FNR
}
python && !start && /^ *(async )?def / {
    match($0, /^ */)
    indent = RLENGTH
    start = end = FNR
}
END { if (start && python) report(end) }
