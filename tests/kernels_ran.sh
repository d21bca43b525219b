#!/bin/sh
# kernels_ran.sh RAN ISA PACK... -- run in a build directory.  Compares the kernels in packs (directories) that this CPU can
# run, for instruction sets up to ISA ("": all), with the symbols in RAN, which programs wrote with KVMILL_RAN=RAN.  Fails if a
# kernel did not run.
set -u
ran=$1 isa=$2
shift 2
allowed=$(./kvmill isas | awk -v last="$isa" 'NR > 1 && $4 == "yes" {print $1} $1 == last {exit}')
find "$@" -name 'kvmill_*__*.c' | sed 's|.*/||; s/\.c$//' | sort -u | awk -v ran="$ran" -v isas="$allowed" -v last="$isa" '
    BEGIN {
        count = split(isas, isa, " ")
        for (i = 1; i <= count; i++)
            allowed[isa[i]] = 1
        while ((getline symbol <ran) > 0)
            seen[symbol] = 1
    }
    {
        how = $0
        sub(/.*__/, "", how)
        sub(/_.*/, "", how)
        if (!(how in allowed))
            next
        all++
        if ($0 in seen) {
            there[how]++
            good++
        } else
            print "did not run: " $0
    }
    END {
        printf "kernels that ran%s: %d of %d", last == "" ? "" : ", up to " last, good, all
        for (i = 1; i <= count; i++)
            printf "%s %s %d", i == 1 ? ":" : ",", isa[i], there[isa[i]]
        print ""
        exit good < all || all == 0
    }'
