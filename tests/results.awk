# Prints what an export has measured, for each kernel and problem, without figures; without finals, whose candidates
# have more than `most` samples.
function flush() {
    if (line != "")
        print line
    line = ""
}
/^(spec|problem) / { flush(); what[$1] = $0 }
/^result / { flush(); line = what["spec"] " " what["problem"] " " $0 }
/^samples / && NF - 1 > most { line = "" }
END { flush() }
