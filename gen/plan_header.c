/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_header.h"

#include <inttypes.h>

#include "../defs/dtype.h"
#include "../spec/spec_keys.h"

/* ---- Members ---- */

static bool define_type(const char *name, DLDataType type, struct text *text) {
    return type.bits == 0 || text_print(text, "km_set_type(«%s», «%s», «%d»)", name,
                                        kvmill_dtype_code(type), type.bits);
}

static bool define_member(const struct op_member *member, const void *at, void *text) {
    switch (member->kind) {
    case OP_FLAG:
        return text_print(text, "km_set(«%s», «%d»)", member->name, *(const int32_t *)at);
    case OP_REAL:
        return text_print(text, "km_set(«%s», «%.17g»)", member->name, *(const double *)at);
    case OP_TYPE:
        return define_type(member->name, *(const DLDataType *)at, text);
    case OP_WORD:
        return text_print(text, "km_set(«%s», «\"%s\"»)", member->name, *(const char *const *)at);
    default:
        return text_print(text, "km_set(«%s», «%" PRId64 "»)", member->name, *(const int64_t *)at);
    }
}

bool spec_define_members(const struct spec *spec, struct text *text) {
    return spec_each_set_member(spec, define_member, text);
}

/* ---- Comments ---- */

bool attention_define_heads(int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t window,
                            struct text *text) {
    bool done = heads == 0 ||
                text_print(text, "%" PRId64 " query head%s on ", heads, heads == 1 ? "" : "s");
    done = done && text_print(text, "%" PRId64 " KV head%s of %" PRId64, kv_heads,
                              kv_heads == 1 ? "" : "s", head_dim);
    return done && (window == 0 || text_print(text, ", a window of %" PRId64, window));
}

bool attention_define_comment(const struct spec *spec, struct text *text) {
    const kvmill_cache_attention *op = &spec->attention.op;
    const char *layers = spec->attention.layers;
    int64_t kv_heads = op->num_kv_heads ? op->num_kv_heads : op->num_heads;
    return (!layers[0] || text_print(text, "Layers %s: ", layers)) &&
           attention_define_heads(
               attention_op_of(spec) != KVMILL_KEY_VALUE_CACHE ? op->num_heads : 0, kv_heads,
               op->head_dim, kvmill_window_of(op->left_window_size), text);
}
