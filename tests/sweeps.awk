# Prints sweeps that nobody measured, as the text of a tuning database, for tests of its readers.
#   awk -f sweeps.awk -v cpu=NAME -v compiler=... -v flags=... -v templates=... -v day=1 -v faster=1.0
# busy=2: everything took twice as long while the default was measured alone, and limits are half as high.
# There are two works of 3 x 4 x 2 candidates.  tile=8 strip=4 path=half is the best of both; one in eleven fails.

function random() { # 0 to 1, the same everywhere
    seed = (seed * 16807) % 2147483647
    return seed / 2147483647
}

function samples(word, seconds, i, line) {
    line = word
    for (i = 0; i < 15; i++)
        line = line sprintf(" %.6g", seconds * (1 + 0.01 * (random() - 0.5)))
    print line
}

function candidate(tile, strip, path, base, slow, fails, is_default) {
    is_default = tile == 2 && strip == 2 && path == "float"
    fails = !is_default && (tile + strip * 3 + length(path)) % 11 == 10
    slow = 1 + 0.1 * (8 - tile) / 6 + 0.1 * (strip > 4 ? strip - 4 : 4 - strip) + (path == "half" ? 0 : 0.2)
    print "result " (fails ? "compile" : "measured") " tile=" tile " strip=" strip " path=" path
    if (is_default)
        print "default"
    printf "time 2026-01-%02dT00:00:%02d.%06dZ\n", day, tile, strip
    print "code " 1000 + 100 * tile
    print "limit " (base > 2e-3 ? "flops " 2.5e+11 / busy : "bytes " 3e+10 / busy)
    print "environment governor=performance"
    if (fails) {
        print "message <too> many & \"registers\""
    } else {
        samples("samples", base * slow / faster * (is_default ? busy : 1))
        if (!is_default)
            samples("baseline", base * 1.5 / faster)
    }
    count++
}

function sweep(problem, bytes, flops, base, tile, strip) {
    print "\nsweep\ncpu " cpu "\ncompiler " compiler "\nflags " flags "\ntemplates " templates
    print "isa avx2\nspec kvmill_attend_f16_f16_f16_d128_e128_none_g0_none_j0_r4_plain_f32__avx2_columns"
    print "problem " problem "\nthreads 2\nbytes " bytes "\nflops " flops
    for (tile = 2; tile <= 8; tile += 3)
        for (strip = 1; strip <= 8; strip *= 2) {
            candidate(tile, strip, "float", base)
            candidate(tile, strip, "half", base)
        }
}

BEGIN {
    seed = 1 + day
    if (faster == "")
        faster = 1
    if (busy == "")
        busy = 1
    print "kvmill-tune 1"
    sweep("decode 4096 tokens", 16777216, 67108864, 1.1e-3)
    sweep("prefill 512 tokens", 2097152, 1073741824, 9e-3)
    print "\nend " count
}
