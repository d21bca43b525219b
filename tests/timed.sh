#!/bin/sh
# timed.sh COMMAND... -- runs a test.  Appends a line to times.log: the processor seconds of the test and of what it started,
# and the last word of the command.
"$@"
status=$?
for test; do :; done
times >"times.$$"
sed 's/s//g; s/m/ /g' "times.$$" | awk -v test="$test" 'NR == 2 {printf "%.1f %s\n", 60 * ($1 + $3) + $2 + $4, test}' >>times.log
rm -f "times.$$"
exit $status
