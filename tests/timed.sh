#!/bin/sh
# timed.sh COMMAND... -- runs a test.  Its processor time, with all that it starts, becomes a line of times.log:
# seconds, and the last word of the command.
"$@"
status=$?
for test; do :; done
times >"times.$$"
sed 's/s//g; s/m/ /g' "times.$$" | awk -v test="$test" 'NR == 2 {printf "%.1f %s\n", 60 * ($1 + $3) + $2 + $4, test}' >>times.log
rm -f "times.$$"
exit $status
