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

# One fault in four is built, unless KVMILL_ALL_FAULTS is set: all take hours together.  The others are planted
# only, so that one whose text has moved is seen.
faults_seen=0
sampled() {
    faults_seen=$((faults_seen + 1))
    [ $((faults_seen % 4)) -eq 0 ] || [ -n "${KVMILL_ALL_FAULTS:-}" ]
}
