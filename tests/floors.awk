# Finds circles among files, and among rooms (the folders at the top): a file needs those whose symbols it uses.
#
#   nm -A -P -g OBJECT... | awk -f floors.awk OBJECTS -
#
# OBJECTS has lines "OBJECT FILE".  Prints the files of each circle, and then, for each pair of them, the symbols that the
# first uses of the second.  With -v ROOMS=1, prints "ROOM ROOM FILE FILE SYMBOL" for all symbols that come from other rooms.
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

# Prints what `from` uses of others in its circle.
function show(from, leader,   i, to) {
    for (i = 1; i <= needs[from]; i++) {
        to = needed[from, i]
        if (leaders[to] == leader) print "    " from " -> " to ":" symbols[from, to]
    }
}

# Prints the circles among names[1..count].
function circles(names, count,   i, j, size, list) {
    for (i = 1; i <= count; i++) reach(names[i])
    for (i = 1; i <= count; i++) {
        if (names[i] in leaders || !((names[i], names[i]) in reached)) continue
        size = 0
        for (j = i; j <= count; j++)
            if (((names[i], names[j]) in reached) && ((names[j], names[i]) in reached)) {
                leaders[names[j]] = names[i]
                list[++size] = names[j]
            }
        print "circle of " size ":"
        for (j = 1; j <= size; j++) show(list[j], names[i])
    }
}

FILENAME != "-" {
    files[$1] = $2
    if (!($2 in known)) all[++file_count] = $2
    known[$2]
    if (!(room($2) in known_room)) rooms[++room_count] = room($2)
    known_room[room($2)]
    next
}

{
    object = substr($1, 1, length($1) - 1)
    if ($3 ~ /^[Uwv]$/) {
        users[++uses] = files[object]
        used[uses] = $2
    } else definer[$2] = files[object]
}

END {
    for (i = 1; i <= uses; i++) {
        from = users[i]
        symbol = used[i]
        if (!(symbol in definer)) continue
        to = definer[symbol]
        need(from, to, symbol)
        if (room(from) == room(to)) continue
        need(room(from), room(to), symbol)
        if (ROOMS) print room(from), room(to), from, to, symbol
    }
    if (ROOMS) exit
    circles(all, file_count)
    circles(rooms, room_count)
}
