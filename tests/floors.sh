# Which room (a folder at the top) knows which: by includes, and by the symbols of the objects that the build made.  Sourced by
# house.test, at the top of the source tree.

# ---- Includes ----

# Prints "MODULE OTHER FILE" for each header that a file includes; a module is a header together with the source of the same
# name.
included() {
    grep -nE '^#include "' $(code) | sed -n 's/^\([^:]*\):[0-9]*:#include "\([^"]*\)".*/\1 \2/p' | awk '
        {
            count = split($1, part, "/")
            up = split($2, word, "/")
            depth = count - 1
            path = ""
            for (i = 1; i <= up; i++)
                if (word[i] == "..") depth--
                else path = path "/" word[i]
            for (i = depth; i >= 1; i--) path = "/" part[i] path
            print $1, substr(path, 2)
        }' | while read -r file header; do
        [ ! -f "$header" ] || echo "${file%.[ch]} ${header%.h}"
    done | sort -u
}
included >"$scratch/included"
none "no circle of modules" sh -c "awk '\$1 != \$2' '$scratch/included' | tsort 2>&1 >/dev/null"
none "ops/served includes nothing else, and bindings nothing else of ops" \
    awk '($1 ~ "^ops/served/" && $2 !~ "^ops/served/") || ($1 ~ "^bindings/" && $2 ~ "^ops/" && $2 !~ "^ops/served/")' "$scratch/included"

headers() {
    find base bench bindings defs examples gen import include libspecs mlir ops runtime spec tests tools tune -name '*.h' ! -name '*.pb-c.h'
}
headers_of_one_name() {
    headers | sed 's,.*/,,' | sort | uniq -d
}
none "no two headers have the same name" headers_of_one_name

# ---- Static names ----

# Prints the names of static functions that structs of functions have in more than three files: a backtrace says them alone.
hooks_of_one_name() {
    code | grep '\.c$' | xargs awk '
        FNR == 1 {split("", defined)}
        /^static .*\(/ {
            name = $0
            sub(/\(.*/, "", name)
            sub(/.*[ *]/, "", name)
            defined[name]
        }
        /\.[a-z_]+ = [a-z_]+/ {
            line = $0
            while (match(line, /\.[a-z_]+ = [a-z_]+[,}]?/)) {
                name = substr(line, RSTART, RLENGTH)
                line = substr(line, RSTART + RLENGTH)
                sub(/.* /, "", name)
                sub(/[,}]$/, "", name)
                if (name in defined && !((FILENAME, name) in seen)) {
                    seen[FILENAME, name]
                    files[name] = files[name] " " FILENAME
                    if (++count[name] == 4) many[name]
                }
            }
        }
        END {for (name in many) print name ":" files[name]}'
}
none "functions in structs say whose they are" hooks_of_one_name

# ---- Symbols ----

# Prints "OBJECT FILE" for each source: the newest object that was made of it.
objects() {
    code | grep '\.c$' | sort >"$scratch/sources"
    (cd "$builddir" && find . -name '*.o' -printf '%T@ %p\n') | sort -n | awk -v place="$builddir" '
        NR == FNR {source[$1]; next}
        {
            file = substr($2, 3)
            sub(/\.libs\//, "", file)
            sub(/\/[^\/]*-/, "/", file)
            sub(/\.o$/, ".c", file)
            if (file in source) object[file] = place substr($2, 2)
        }
        END {for (file in object) print object[file], file}' "$scratch/sources" - | sort -k 2
}
# symbols [OPTIONS] -- runs floors.awk on all objects.
symbols() {
    cut -d ' ' -f 1 "$scratch/objects" | xargs nm -A -P -g | awk "$@" -f tests/floors.awk "$scratch/objects" -
}
: >"$scratch/used"
if command -v nm >/dev/null; then
    printf '%s\n' 'b.o ops/b.c' 'a.o ops/a.c' >"$scratch/planted"
    circle() {
        printf '%s\n' 'a.o: up T 0 1' 'a.o: down U' 'b.o: down T 0 1' "b.o: $1 U" | awk -f tests/floors.awk "$scratch/planted" -
    }
    test -n "$(circle up)" && test -z "$(circle malloc)"
    ok $? "tests/floors.awk finds a circle of two files, and none where there is none"

    objects >"$scratch/objects"
    cut -d ' ' -f 2 "$scratch/objects" | sort | comm -13 - "$scratch/sources" >"$scratch/without"
    [ ! -s "$scratch/without" ] || sed 's/^/no object here, so not looked at: /' "$scratch/without" | diag
    # Files that depend on a condition are named in Makefile.am; libspecs is only shared; users build the bindings.
    unbuilt() {
        grep -vE '^(bindings|libspecs)/' "$scratch/without" | while read -r file; do
            grep -qwF "$file" Makefile.am || echo "$file"
        done
    }
    none "every source has an object" unbuilt
    none "no circle of symbols among the objects of $(wc -l <"$scratch/objects") files, nor among rooms" symbols
    # Everybody may use what public headers declare.
    sed -n 's/^[a-z][a-z0-9_ *]*[ *]\(kvmill_[a-z0-9_]*\)(.*/\1/p' include/*.h >"$scratch/public"
    symbols -v ROOMS=1 | awk 'NR == FNR {public[$1]; next} !($3 in public)' "$scratch/public" - >"$scratch/used"
fi

# ---- Rooms ----

# What a room may know, in addition to itself and include/.
while read -r room known; do
    awk -v room="$room" -v known="$known" 'BEGIN {
        may[room]
        count = split(known, word, " ")
        for (i = 1; i <= count; i++) may[word[i]]
    } {
        split($1, from, "/")
        split($2, to, "/")
        if (from[1] == room && to[1] != "include" && !(to[1] in may)) print
    }' "$scratch/included" "$scratch/used" >"$scratch/wrong"
    none "$room knows nothing but $room${known:+, }$(echo "$known" | sed 's/ /, /g')" cat "$scratch/wrong"
done <<'TABLE'
base
defs
ops defs
runtime defs ops
mlir base defs ops
spec base defs mlir ops
gen base defs ops spec
import base defs gen mlir ops spec
tune base defs gen
bench base defs gen ops runtime spec tune
bindings base ops
libspecs base mlir ops spec
tools base bench defs gen import mlir ops runtime spec tune
TABLE
