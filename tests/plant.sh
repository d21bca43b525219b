# Planting faults in copies of the sources; sourced by the tests that see whether others notice.

# plant FILE FROM TO -- replace the first FROM (fixed text) by TO.
plant() {
    "$PYTHON" - "$@" <<'PYTHON'
import sys
name, old, new = sys.argv[1:]
text = open(name, encoding="utf8").read()
if old not in text:
    sys.exit(f"{name}: {old!r} is not there")
open(name, "w", encoding="utf8").write(text.replace(old, new, 1))
PYTHON
}

# copy_sources DIRECTORY... -- of the source tree, without what a build has left there.
copy_sources() {
    (cd "$srcdir" && find "$@" -name '*.[ch]') | while read -r source; do
        mkdir -p "$(dirname "$source")"
        cp "$srcdir/$source" "$source"
    done
}

# One fault in eight is built, unless KVMILL_ALL_FAULTS is set: all take hours together.  KVMILL_FAULTS_TURN says which
# eighth.  The others are planted only, so that one whose text has moved is seen.
faults_of=8
faults_turn=${KVMILL_FAULTS_TURN:-0}
faults_seen=0
sampled() {
    faults_seen=$((faults_seen + 1))
    [ $((faults_seen % faults_of)) -eq "$faults_turn" ] || [ -n "${KVMILL_ALL_FAULTS:-}" ]
}
