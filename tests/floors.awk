# Finds circles among files, and among rooms (the folders at the top): a file needs those whose symbols it uses.
#
#   nm -A -P -g OBJECT... | awk -f floors.awk OBJECTS -
#
# OBJECTS has lines "OBJECT FILE".  Prints what each file of a circle uses of the others.  With -v ROOMS=1, prints
# "FILE FILE SYMBOL" for each symbol that a file uses of another room.
#
# SPDX-License-Identifier: Apache-2.0

function room(file) {
    return substr(file, 1, index(file, "/") - 1)
}

# Notes that `from` needs `to` because of a symbol.
function need(from, to, symbol) {
    if (from == to) return
    if (!((from, to) in symbols)) needed[from, ++needs[from]] = to
    if (index(symbols[from, to] " ", " " symbol " ") == 0) symbols[from, to] = symbols[from, to] " " symbol
}

# Marks in reached[from, ...] what a file or room needs, directly or not.
function reach(from,   open, at, i, to) {
    stack[open = 1] = from
    while (open > 0) {
        at = stack[open--]
        for (i = 1; i <= needs[at]; i++) {
            to = needed[at, i]
            if ((from, to) in reached) continue
            reached[from, to]
            stack[++open] = to
        }
    }
}

# Prints what `from` uses of others that need it.
function show(from,   i, to) {
    for (i = 1; i <= needs[from]; i++) {
        to = needed[from, i]
        if ((to, from) in reached) print "  " from " -> " to ":" symbols[from, to]
    }
}

# Prints the circles among names[1..count].
function show_circles(names, count,   i, j) {
    for (i = 1; i <= count; i++) reach(names[i])
    for (i = 1; i <= count; i++) {
        if (names[i] in shown || !((names[i], names[i]) in reached)) continue
        print "circle:"
        for (j = i; j <= count; j++)
            if (((names[i], names[j]) in reached) && ((names[j], names[i]) in reached)) {
                shown[names[j]]
                show(names[j])
            }
    }
}

FILENAME != "-" {
    file_of[$1] = $2
    files[++file_count] = $2
    if (!(room($2) in known)) rooms[++room_count] = room($2)
    known[room($2)]
    next
}

{
    file = file_of[substr($1, 1, length($1) - 1)]
    if ($3 !~ /^[Uwv]$/) definer[$2] = file
    else {
        user[++uses] = file
        used[uses] = $2
    }
}

END {
    for (i = 1; i <= uses; i++) {
        if (!(used[i] in definer)) continue
        from = user[i]
        to = definer[used[i]]
        need(from, to, used[i])
        need(room(from), room(to), used[i])
        if (ROOMS && room(from) != room(to)) print from, to, used[i]
    }
    if (ROOMS) exit
    show_circles(files, file_count)
    show_circles(rooms, room_count)
}
