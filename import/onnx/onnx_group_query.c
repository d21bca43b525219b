/* GroupQueryAttention of com.microsoft, the domain of ONNX Runtime, and of kvmill's own, over
   caches in blocks. kvmill has no such op.  The specs are for the kernels that bindings/onnxruntime
   runs a node with: CacheAttend, and WriteRows for blocks.  ops/served/group_query_served.h decides
   which nodes are served.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "../../ops/cache_attend.h"
#include "../../ops/served/group_query_served.h"
#include "onnx_ops.h"

_Static_assert((int)ONNX_GROUP_QUERY_PAST == (int)KVMILL_GROUP_QUERY_PAST_KEY,
               "the past has the same number in both lists");

bool onnx_is_group_query(const struct onnx_node *node) {
    return strcmp(node->domain, "com.microsoft") == 0 &&
           strcmp(node->op, "GroupQueryAttention") == 0;
}

bool onnx_is_cache_group_query(const struct onnx_node *node) {
    return strcmp(node->domain, "kvmill") == 0 && strcmp(node->op, "GroupQueryAttention") == 0;
}

/* ---- The node's attributes ---- */

enum { WORD = KVMILL_GROUP_QUERY_WORD };

struct member {
    const char *name;
    size_t place;
};
#define PLACE(name)                                                                                \
    { #name, offsetof(struct kvmill_group_query, name) }
static const struct member integers[] = {KVMILL_GROUP_QUERY_INTEGERS(PLACE)};
static const struct member words[] = {KVMILL_GROUP_QUERY_WORDS(PLACE)};
#undef PLACE

static bool read_said(const struct onnx_call *call, struct kvmill_group_query *said,
                      struct error *error) {
    bool done = true;
    kvmill_group_query_init(said);
    said->scale = onnx_number_of(call->node, "scale");
    said->softcap = onnx_number_of(call->node, "softcap");
    for (size_t i = 0; done && i < sizeof integers / sizeof *integers; i++) {
        int64_t *value = (int64_t *)(void *)((char *)said + integers[i].place);
        done = onnx_integer_of(call->model, call->node, integers[i].name, *value, value, error);
    }
    for (size_t i = 0; done && i < sizeof words / sizeof *words; i++) {
        char *word = (char *)said + words[i].place, otherwise[WORD];
        memcpy(otherwise, word, WORD);
        done = onnx_word_of(call->model, call->node, words[i].name, otherwise, word, WORD, error);
    }
    return done;
}

/* ---- The node, as ops/served/group_query_served.h has it ---- */

enum { INPUTS = KVMILL_GROUP_QUERY_OUTPUT, OUTPUTS = KVMILL_GROUP_QUERY_TENSORS - INPUTS };

struct neutral {
    struct kvmill_group_query said;
    DLTensor tensors[INPUTS];
    const DLTensor *inputs[INPUTS];
    const char *formats[2];
    struct kvmill_group_query_node node;
    struct kvmill_group_query_heads heads;
};

static bool set_neutral(const struct onnx_call *call, struct neutral *neutral,
                        struct error *error) {
    bool blocks = onnx_is_cache_group_query(call->node);
    *neutral = (struct neutral){.formats = {NULL}};
    for (int i = 0; i < INPUTS; i++) {
        const struct onnx_value *value = onnx_input(call, i);
        neutral->tensors[i] = onnx_tensor_of(value);
        neutral->inputs[i] = value != NULL ? &neutral->tensors[i] : NULL;
        if (value != NULL)
            neutral->tensors[i].dtype = value->dtype;
    }
    for (int side = 0; blocks && side < 2; side++)
        neutral->formats[side] = onnx_block_format(call, side);
    neutral->node = (struct kvmill_group_query_node){
        .said = &neutral->said,
        .inputs = neutral->inputs,
        .formats = blocks ? neutral->formats : NULL,
    };
    for (int i = 0; i < OUTPUTS; i++)
        if (onnx_output(call, i) != NULL)
            neutral->node.outputs |= (uint64_t)1 << (INPUTS + i);
    return read_said(call, &neutral->said, error);
}

/* Whether the model says what a decision depends on. */
static bool is_complete_group_query(const struct onnx_call *call, char *words, size_t size) {
    static const int typed[] = {KVMILL_GROUP_QUERY_QUERY, KVMILL_GROUP_QUERY_PAST_KEY,
                                KVMILL_GROUP_QUERY_PAST_VALUE};
    const struct onnx_value *query = onnx_input(call, KVMILL_GROUP_QUERY_QUERY);
    bool known = query != NULL && query->has_shape && query->rank > 0 &&
                 query->dims[query->rank - 1] != KVMILL_DYNAMIC;
    for (size_t i = 0; i < sizeof typed / sizeof *typed; i++)
        known = known &&
                (onnx_input(call, typed[i]) == NULL || onnx_input(call, typed[i])->dtype.bits != 0);
    if (!known)
        snprintf(words, size,
                 "accepted: known types of query and caches, and a known last dim of query");
    return known;
}

static bool serves(const struct onnx_call *call, char *words, size_t size) {
    struct neutral neutral;
    struct error error = {0};
    kvmill_error reason;
    bool read = set_neutral(call, &neutral, &error);
    if (read && kvmill_group_query_check(&neutral.node, &neutral.heads, &reason) == KVMILL_OK)
        return true;
    snprintf(words, size, "%s", read ? reason.message : error.text);
    return false;
}

/* ---- The specs ---- */

/* Reads a node that is served. */
static bool read_served(const struct onnx_call *call, struct neutral *neutral,
                        struct error *error) {
    kvmill_error reason;
    return set_neutral(call, neutral, error) &&
           (kvmill_group_query_check(&neutral->node, &neutral->heads, &reason) == KVMILL_OK ||
            onnx_fail(error, call->model, call->node, "%s", reason.message));
}

static bool add_group_query(const struct onnx_call *call, struct spec_list *list,
                            struct error *error) {
    struct neutral neutral;
    struct spec *spec = onnx_begin_spec(call, list, error);
    if (spec == NULL || !read_served(call, &neutral, error) ||
        !spec_begin(spec, kvmill_op_of(OP_CACHE_ATTEND, 0), error))
        return false;
    const kvmill_cache_attend op = kvmill_group_query_attend(&neutral.node, &neutral.heads);
    spec->cache_attend = kvmill_cache_attend_resolve(&op);
    return spec_check(spec, error);
}

static bool add_store(const struct onnx_call *call, int side, struct spec_list *list,
                      struct error *error) {
    struct neutral neutral;
    return read_served(call, &neutral, error) &&
           onnx_add_block_store(call, side, neutral.heads.dim,
                                neutral.inputs[KVMILL_GROUP_QUERY_QUERY]->dtype, list, error);
}

static bool add_key_store(const struct onnx_call *call, struct spec_list *list,
                          struct error *error) {
    return add_store(call, 0, list, error);
}

static bool add_value_store(const struct onnx_call *call, struct spec_list *list,
                            struct error *error) {
    return add_store(call, 1, list, error);
}

#define GROUP_QUERY                                                                                \
    .name = "GroupQueryAttention", .is_complete = is_complete_group_query, .serves = serves
static const struct onnx_op value_store = {GROUP_QUERY, .spec = "WriteRows",
                                           .add = add_value_store};
static const struct onnx_op key_store = {GROUP_QUERY, .spec = "WriteRows", .add = add_key_store,
                                         .next = &value_store};
const struct onnx_op onnx_cache_group_query = {GROUP_QUERY, .spec = "CacheAttend",
                                               .add = add_group_query, .next = &key_store};
const struct onnx_op onnx_group_query = {GROUP_QUERY, .spec = "CacheAttend",
                                         .add = add_group_query};
