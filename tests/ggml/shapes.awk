# Reads what ggml's `test-backend-ops support --output csv` prints: a line for each case of attention and of storing.
# SPDX-License-Identifier: Apache-2.0
#
#   awk -v turn=N -v shares=M -f shapes.awk             prints specs of the cases' kernels: the N-th of M shares of those that
#                                                       attend, and all that store
#   awk -v turn=N -v shares=M -v judge=1 -f shapes.awk  prints the cases that the adapter, with these kernels, should take and does
#                                                       not, or takes and should not

BEGIN {
    split("f32 float32 f16 float16 bf16 bfloat16", pairs, " ")
    for (i = 1; i in pairs; i += 2)
        elements[pairs[i]] = pairs[i + 1]
    split("q8_0 q5_1 q5_0 q4_1 q4_0 iq4_nl", names, " ")
    for (i in names)
        blocks[names[i]] = 1
}

# value KEY -- the value of a key in the case's parameters.
function value(key) {
    return match("," params, "," key "=[^,]*") ? substr("," params, RSTART + length(key) + 2, RLENGTH - length(key) - 2) : ""
}

function is_known(type) {
    return type in elements || type in blocks
}

# padded DIM TYPE -- rows of blocks are as long as the test makes them.
function padded(dim, type) {
    return type in blocks ? int((dim + 31) / 32) * 32 : dim
}

function type_of(type, before) {
    return type in blocks ? "\"" before "T2\": \"uint8\", \"" before "cache_format\": \"" type "\"" : "\"" before "T2\": \"" elements[type] "\""
}

# The spec of the kernels that a case needs; "": the case is left to ggml, because its types are unknown, ...
function attends(k, v, cap) {
    k = value("type_K")
    v = value("type_V")
    cap = value("logit_softcap") + 0
    if (!is_known(k) || !is_known(v))
        return ""
    return "\"op\": \"CacheAttend\", \"num_heads\": 1, \"key_head_dim\": " padded(value("hsk"), k) ", \"value_head_dim\": " padded(value("hsv"), v) \
        ", \"T1\": \"float32\", \"mask_T1\": \"float16\", " type_of(k, "key_") ", " type_of(v, "value_") (cap ? ", \"softcap\": " cap : "") \
        (k in blocks || v in blocks ? ", \"math\": \"near\"" : "")
}

# ... or because it copies, its rows are not of float32, or have another length than a multiple of 64.
function stores(to, dim) {
    to = value("type_dst")
    dim = params
    sub(/.*,ne=\[/, "", dim)
    if (!is_known(to) || to == "f32" || value("type_src") != "f32" || dim % 64 != 0)
        return ""
    return "\"op\": \"WriteRows\", \"head_dim\": 64, \"T1\": \"float32\", " type_of(to, "")
}

# is_todays SPEC -- whether its kernels are in the share.
function is_todays(spec) {
    if (spec in todays)
        return todays[spec]
    todays[spec] = spec ~ /WriteRows/ || attending++ % shares == turn
    specs[++count] = spec
    return todays[spec]
}

/^"kvmill"/ {
    params = $0
    sub(/^"[^"]*","[^"]*","/, "", params)
    is_taken = params ~ /^[^"]*","support","1"/
    sub(/".*/, "", params)
    spec = /"FLASH_ATTN_EXT"/ ? attends() : stores()
    wanted = spec != "" && is_todays(spec)
    if (judge && wanted != is_taken)
        print (wanted ? "not taken: " : "taken: ") params
}

END {
    if (judge)
        exit
    print "{\"kernels\": ["
    for (i = 1; i <= count; i++)
        if (todays[specs[i]])
            print (begun++ ? ",\n" : "") "  {" specs[i] "}"
    print "]}"
}
