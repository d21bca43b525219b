/* Sparse flows: the members of a flow that are plain data, and the tensors of its steps.

   SPDX-License-Identifier: Apache-2.0 */
#include "op_tables.h"

/* ---- The flow ---- */

#define MEMBER(NAME, KIND)                                                                         \
    .name = #NAME, .kind = (KIND), .offset = offsetof(kvmill_flow, NAME), .source = OP_VFLOW
#define READ(NAME) MEMBER(NAME, OP_POINTER), .ops = 1

static const char *const summary_words[] = {"on_complete", "incremental", NULL};
static const char *const layout_words[] = {"apart", "page", "head", NULL};
static const char *const temporary_words[] = {"float32", "bfloat16", NULL};

static const struct op_member members[] = {
    {MEMBER(struct_size, OP_SIZE)},
    {READ(attention), .needed = 1,
     .help = "The attributes of dynamic_batching.MultiHeadCacheAttention; cache_mode is 1."},
    {READ(fields), .help = "Matrices of each page, besides K and V: name, shape, dtype."},
    {MEMBER(field_count, OP_SIZE)},
    {READ(cache), .help = "The program that fills the fields from a page."},
    {READ(constants), .help = "Numbers of the index program: name, shape, values."},
    {MEMBER(constant_count, OP_SIZE)},
    {READ(index), .help = "The program that scores pages for a query."},
    {MEMBER(cache_count, OP_SIZE)},
    {MEMBER(index_count, OP_SIZE)},
    {READ(layers_skip), .help = "Layers that read all pages and keep no fields."},
    {MEMBER(layers_skip_count, OP_SIZE)},
    {MEMBER(appended, OP_INTEGER)},
    {MEMBER(field_heads, OP_POINTER)},
    {MEMBER(block_size, OP_COUNT), .ops = 1,
     .help = "Tokens of a block, which is summarised, scored and selected in place of a page; it "
             "divides page_size; 0, the default: page_size."},
    {.name = "dims",
     .kind = OP_OWN,
     .source = OP_VFLOW,
     .ops = 1,
     .help = "The flow's own names for numbers: {\"index_n_heads\": 64}; if a model's config has "
             "the same key, --model takes its number."},
    {MEMBER(select, OP_STRUCT), .ops = 1, .help = "How many pages are attended to."},
    {MEMBER(summary, OP_WORD), .ops = 1, .words = summary_words,
     .help = "on_complete, the default: fields are filled when a page's last slot is written; "
             "incremental: of a "
             "page's first rows, too."},
    {MEMBER(field_layout, OP_WORD), .ops = 1, .words = layout_words,
     .help = "apart, the default: each field in memory of its own; page: all fields of a page "
             "are adjacent; head: the same, and the pages of a kv head are adjacent, too."},
    {MEMBER(field_scales, OP_POINTER)},
    {MEMBER(powers, OP_INTEGER)},
    {MEMBER(temporaries, OP_WORD), .ops = 1, .words = temporary_words,
     .help =
         "The type to which results of ops are rounded, for the ops that read them and for topK: "
         "float32, the default, or bfloat16."},
};
#undef MEMBER

static const struct op_struct flow_struct = {
    .name = "kvmill_flow",
    .size = sizeof(kvmill_flow),
    OP_MEMBERS(members),
};

/* ---- Tensors ---- */

enum {
    DECODE = 1 << OP_FLOW_DECODE,
    APPEND = 1 << OP_FLOW_APPEND,
    INDEX = 1 << OP_FLOW_INDEX,
    ATTEND = 1 << OP_FLOW_ATTEND,
    SUMMARISE = 1 << OP_FLOW_SUMMARISE,
    SCORES = DECODE | INDEX,
    OUTPUT = DECODE | ATTEND,
    REQUESTS = SCORES | ATTEND,
    SLOTS = APPEND | SUMMARISE,
    ALL = REQUESTS | SLOTS
};

static const char dims[] =
    "B is requests, T tokens, R rows of a request, H query heads, KVH kv heads, D "
    "and E elements of a key and of a value:";

/* Types and conditions are members of the flow's attention. */
static const struct op_tensor tensors[] = {
    {.name = "query",
     .index = KVMILL_CACHE_ATTENTION_QUERY,
     .in = REQUESTS,
     .needed = REQUESTS,
     .rows = true,
     .type = "T1",
     .shape = "T H D",
     .help = "New queries."},
    {.name = "current_key",
     .index = KVMILL_CACHE_ATTENTION_CURRENT_KEY,
     .in = APPEND,
     .needed = APPEND,
     .rows = true,
     .type = "T1",
     .shape = "T KVH D",
     .help = "New keys."},
    {.name = "current_value",
     .index = KVMILL_CACHE_ATTENTION_CURRENT_VALUE,
     .in = APPEND,
     .needed = APPEND,
     .when = {{"!value_view"}},
     .rows = true,
     .type = "T1",
     .shape = "T KVH E",
     .help = "New values."},
    {.name = "seqstarts",
     .index = KVMILL_CACHE_ATTENTION_SEQSTARTS,
     .in = ATTEND,
     .type = "int64",
     .shape = "B+1",
     .help = "Where each request's tokens begin; without it each has one."},
    OP_CACHES(ALL, SLOTS),
    OP_SINKS(KVMILL_CACHE_ATTENTION_SINKS, OUTPUT),
    {OP_ATTN_OUTPUT(KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, OUTPUT, "float32", "partial"),
     .shape = "T H E"},
    {OP_LSE(KVMILL_CACHE_ATTENTION_LSE, OUTPUT), .when = {{"partial"}}, .shape = "T H"},
    {.name = "seq_len",
     .index = KVMILL_FLOW_SEQ_LEN,
     .in = REQUESTS,
     .needed = REQUESTS,
     .type = "int64",
     .shape = "B",
     .help = "Tokens of each request, new ones included."},
    {.name = "page_indptr",
     .index = KVMILL_FLOW_PAGE_INDPTR,
     .in = REQUESTS,
     .needed = REQUESTS,
     .type = "int64",
     .shape = "B+1",
     .help = "Where each request's pages begin in page_ids."},
    {.name = "page_ids",
     .index = KVMILL_FLOW_PAGE_IDS,
     .in = REQUESTS,
     .needed = REQUESTS,
     .type = "int32",
     .help = "Pages of the requests, one after the other."},
    {.name = "slot_mapping",
     .index = KVMILL_FLOW_SLOT_MAPPING,
     .in = SLOTS,
     .needed = SLOTS,
     .type = "int64",
     .shape = "T",
     .help = "The cache's row for each token, -1: none."},
    {.name = "sel_indptr",
     .index = KVMILL_FLOW_SEL_INDPTR,
     .in = ATTEND,
     .out = SCORES,
     .optional = DECODE,
     .type = "int64",
     .shape = "B*R+1",
     .help = "Where the list of each row begins in sel."},
    {.name = "sel",
     .index = KVMILL_FLOW_SEL,
     .in = ATTEND,
     .out = SCORES,
     .optional = DECODE,
     .type = "int32",
     .help = "Pages that are selected, as the request counts them."},
    {.name = "block_ids",
     .index = KVMILL_FLOW_BLOCK_IDS,
     .out = SCORES,
     .optional = SCORES,
     .type = "int32",
     .or_type = "int64",
     .help = "The same as vFlow lists them."},
    {.name = "scores",
     .index = KVMILL_FLOW_SCORES,
     .out = SCORES,
     .optional = SCORES,
     .type = "float32",
     .help = "Of all pages of each row; NaN: not scored."},
    {.name = "topk_vals",
     .index = KVMILL_FLOW_TOPK_VALS,
     .in = SCORES,
     .type = "int64",
     .shape = "B",
     .help = "Pages to select of each request; -1: as the flow says."},
};

/* ---- The op, and its steps ---- */

const struct op kvmill_flow_op_def = {
    .name = "flow",
    .family = OP_FLOW,
    .source = OP_VFLOW,
    .dynamic = true,
    .named = true,
    .parts = {&flow_struct},
    OP_TENSORS(tensors),
    .dims = dims,
    .help = "Attention over a paged cache that reads only some of the pages.",
};

#define STEP(NAME, NUMBER, HELP)                                                                   \
    {                                                                                              \
        .name = (NAME), .family = OP_FLOW, .number = (NUMBER), .dynamic = true,                    \
        .source = OP_VFLOW, .parts = {&kvmill_cache_attention_attributes}, OP_TENSORS(tensors),    \
        .help = (HELP)                                                                             \
    }
const struct op kvmill_flow_steps[OP_FLOW_STEPS] = {
    STEP("decode", OP_FLOW_DECODE, "Select pages and attend to them."),
    STEP("append", OP_FLOW_APPEND, "Store new tokens, and fill the fields of pages."),
    STEP("index", OP_FLOW_INDEX, "Select pages."),
    STEP("attend", OP_FLOW_ATTEND, "Attend to pages that are selected, or to all."),
    STEP("summarise", OP_FLOW_SUMMARISE, "Fill the fields of pages whose tokens are in the cache."),
};
