# Makes specs of the shapes that ggml's test-backend-ops tries: reads what `test-backend-ops support --output csv` prints, and
# prints a file of specs.  SPDX-License-Identifier: Apache-2.0
#
# Types that kvmill does not know are left out.  Rows of blocks are as long as test-backend-ops makes them: a multiple of a block.

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

function padded(dim, type) {
    return type in blocks ? int((dim + 31) / 32) * 32 : dim
}

function format_of(type, before) {
    return type in blocks ? "\"" before "T2\": \"uint8\", \"" before "cache_format\": \"" type "\"" : "\"" before "T2\": \"" elements[type] "\""
}

function add(spec) {
    if (!(spec in seen))
        specs[++count] = spec
    seen[spec] = 1
}

{ params = $0; sub(/^"[^"]*","[^"]*","/, "", params); sub(/".*/, "", params) }

/"FLASH_ATTN_EXT"/ && is_known(value("type_K")) && is_known(value("type_V")) {
    k = value("type_K"); v = value("type_V"); cap = value("logit_softcap") + 0
    add("\"op\": \"CacheAttend\", \"num_heads\": 1, \"key_head_dim\": " padded(value("hsk"), k) ", \"value_head_dim\": " padded(value("hsv"), v) \
        ", \"T1\": \"float32\", \"mask_T1\": \"float16\", " format_of(k, "key_") ", " format_of(v, "value_") \
        (cap ? ", \"softcap\": " cap : "") (k in blocks || v in blocks ? ", \"math\": \"near\"" : ""))
}

/"SET_ROWS"/ && value("type_src") == "f32" && value("type_dst") != "f32" && is_known(value("type_dst")) {
    add("\"op\": \"WriteRows\", \"head_dim\": 64, \"T1\": \"float32\", " substr(format_of(value("type_dst"), ""), 1))
}

END {
    print "{\"kernels\": ["
    for (i = 1; i <= count; i++)
        print "  {" specs[i] "}" (i < count ? "," : "")
    print "]}"
}
