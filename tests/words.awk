# Lists the functions of a header of templates/words and of those that it includes, in their order:
#   awk -v folder=templates/words -v header=avx2 -f words.awk
# prints FILE NAME TYPE PARAMETERS COMMENT, separated by tabs.  FILE has no ".h"; COMMENT is the one before the function.  With
# -v names=1, it prints the headers' names instead.
function read(file, path, line, comment, name, head) {
    if (file in seen)
        return
    seen[file] = 1
    if (names)
        print file
    path = folder "/" file ".h"
    while ((getline line <path) > 0) {
        if (line ~ /^#ifndef LANE_COUNT/)
            getline line <path # what a header includes if it is read alone
        else if (line ~ /^#include "[a-z0-9_]+\.h"/) {
            split(line, quoted, "\"")
            read(substr(quoted[2], 1, length(quoted[2]) - 2))
        } else if (line ~ /^\/\* / || (is_open[file] && line ~ /^   /)) {
            comment = is_open[file] ? comment " " substr(line, 4) : substr(line, 4)
            is_open[file] = line !~ /\*\/$/
            sub(/ \*\/$/, "", comment)
        } else if (line ~ /^static inline /) {
            head = substr(line, 15, index(line, ") {") - 14)
            match(head, /[a-z0-9_]+\(/)
            name = substr(head, RSTART, RLENGTH - 1)
            if (!names)
                print file "\t" name "\t" substr(head, 1, RSTART - 1) "\t" substr(head, RSTART + RLENGTH, length(head) - RSTART - RLENGTH) "\t" comment
            comment = ""
        } else if (line !~ /^#define|^ /)
            comment = ""
    }
    close(path)
}
BEGIN {
    read(header)
}
