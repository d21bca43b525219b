/* CacheAttend: the same bits for rows that are named in other ways, and what is refused.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <kvmill.h>

#include "fence.h"
#include "tap.h"

extern const kvmill_pack kvmill_pack_kvmill_default, kvmill_pack_kvmill_test;

static const kvmill_pack *const packs[] = {&kvmill_pack_kvmill_default, &kvmill_pack_kvmill_test};
static const kvmill_plan_options options = {
    .struct_size = sizeof(kvmill_plan_options), .packs = packs, .pack_count = 2, .threads = 2};

enum { B = 2, S = 2, H = 4, G = 2, D = 64, T = 12, PAGE = 4, C = B * T };
static const DLDataType f32 = {kDLFloat, 32, 1}, f16 = {kDLFloat, 16, 1}, i64 = {kDLInt, 64, 1},
                        boolean = {KVMILL_DL_BOOL, 8, 1};

static struct dice dice;

/* Two sequences of 12 and 9 rows, each in a cache of its own; and all of it as one cache. */
struct scene {
    kvmill_cache_attend op;
    float numbers[B * S * H * D + 2 * C * G * D], output[B * S * H * D], lse[B * S * H];
    int64_t lengths[B], ranges[B * S][2], ids[B * T / PAGE], page_starts[B + 1];
    int64_t slots[C], slot_starts[B + 1], starts[B + 1], positions[C];
    unsigned char mask[T + 1];
    DLTensor tensor[KVMILL_CACHE_ATTEND_TENSORS];
    int64_t shape[KVMILL_CACHE_ATTEND_TENSORS][4];
    const DLTensor *tensors[KVMILL_CACHE_ATTEND_TENSORS];
};

static void give(struct scene *s, int which, DLDataType type, void *data, int rank, int64_t a,
                 int64_t b, int64_t c, int64_t d) {
    memcpy(s->shape[which], (int64_t[]){a, b, c, d}, sizeof s->shape[which]);
    s->tensor[which] = (DLTensor){
        .data = data, .device = {kDLCPU, 0}, .ndim = rank, .dtype = type, .shape = s->shape[which]};
    s->tensors[which] = &s->tensor[which];
}

static void set_lists(struct scene *s) {
    for (int i = 0; i < C; i++)
        s->slots[i] = i;
    for (int i = 0; i < B * T / PAGE; i++)
        s->ids[i] = i;
    for (int b = 0; b < B; b++) {
        s->lengths[b] = b == 0 ? T : 9;
        s->page_starts[b + 1] = (b + 1) * T / PAGE;
        s->starts[b + 1] = (b + 1) * S;
        s->slot_starts[b + 1] = b == 0 ? T : T + 9;
    }
    for (int n = 0; n < B * S; n++)
        s->ranges[n][1] = n < S ? T : 9;
}

static void set_scene(struct scene *s) {
    memset(s, 0, sizeof *s);
    kvmill_cache_attend_init(&s->op, sizeof s->op);
    s->op.num_heads = H, s->op.num_kv_heads = G, s->op.key_head_dim = D;
    s->op.T1 = s->op.key_T2 = f32;
    s->op.page_size = PAGE;
    memset(s->mask, 1, sizeof s->mask);
    for (size_t i = 0; i < sizeof s->numbers / sizeof *s->numbers; i++)
        s->numbers[i] = (float)dice_range(&dice, -64, 64) / 64;
    set_lists(s);
    give(s, KVMILL_CACHE_ATTEND_QUERY, f32, s->numbers, 4, B, S, H, D);
    give(s, KVMILL_CACHE_ATTEND_ATTN_OUTPUT, f32, s->output, 4, B, S, H, D);
    give(s, KVMILL_CACHE_ATTEND_LSE, f32, s->lse, 3, B, S, H, 0);
}

static float *cache_of(struct scene *s, int v) {
    return s->numbers + B * S * H * D + v * C * G * D;
}

static void give_own_caches(struct scene *s) {
    for (int v = 0; v < 2; v++)
        give(s, KVMILL_CACHE_ATTEND_KEY + v, f32, cache_of(s, v), 4, B, T, G, D);
}

static void give_one_cache(struct scene *s) {
    for (int v = 0; v < 2; v++)
        give(s, KVMILL_CACHE_ATTEND_KEY + v, f32, cache_of(s, v), 3, C, G, D, 0);
}

static void give_lengths(struct scene *s) {
    give(s, KVMILL_CACHE_ATTEND_LENGTHS, i64, s->lengths, 1, B, 0, 0, 0);
}

static void by_lengths(struct scene *s) {
    give_own_caches(s);
    give_lengths(s);
}

static void by_pages(struct scene *s) {
    give_one_cache(s);
    give_lengths(s);
    give(s, KVMILL_CACHE_ATTEND_PAGE_IDS, i64, s->ids, 1, B * T / PAGE, 0, 0, 0);
    give(s, KVMILL_CACHE_ATTEND_PAGE_STARTS, i64, s->page_starts, 1, B + 1, 0, 0, 0);
}

static void by_page_dim(struct scene *s) {
    by_pages(s);
    for (int v = 0; v < 2; v++)
        give(s, KVMILL_CACHE_ATTEND_KEY + v, f32, cache_of(s, v), 4, C / PAGE, PAGE, G, D);
}

static void by_slots(struct scene *s) {
    give_one_cache(s);
    give(s, KVMILL_CACHE_ATTEND_SLOTS, i64, s->slots, 1, T + 9, 0, 0, 0);
    give(s, KVMILL_CACHE_ATTEND_SLOT_STARTS, i64, s->slot_starts, 1, B + 1, 0, 0, 0);
}

static void by_ranges(struct scene *s) {
    give_own_caches(s);
    give(s, KVMILL_CACHE_ATTEND_RANGES, i64, s->ranges, 2, B * S, 2, 0, 0);
}

static void by_mask(struct scene *s) {
    by_lengths(s);
    s->op.mask_T1 = boolean;
    give(s, KVMILL_CACHE_ATTEND_ATTN_MASK, boolean, s->mask, 1, T, 0, 0, 0);
}

static kvmill_status run(struct scene *s, kvmill_error *error) {
    kvmill_plan *plan = NULL;
    kvmill_status status = kvmill_plan_cache_attend(&s->op, &options, &plan, error);
    if (status != KVMILL_OK)
        return status;
    void *workspace = aligned_alloc(64, (kvmill_plan_workspace_size(plan) + 63) / 64 * 64);
    status = kvmill_run(plan, s->tensors, workspace, error);
    free(workspace);
    kvmill_plan_destroy(plan);
    return status;
}

/* ---- Other names of the same rows ---- */

static void compare_places(void) {
    static void (*const places[])(struct scene *) = {by_lengths, by_pages,  by_page_dim,
                                                     by_slots,   by_ranges, by_mask};
    static const char *const names[] = {"lengths", "pages",  "a dim of pages",
                                        "slots",   "ranges", "a mask that hides nothing"};
    static struct scene first, other;
    struct dice start = dice;
    kvmill_error error;
    set_scene(&first);
    by_lengths(&first);
    ok(run(&first, &error) == KVMILL_OK, "a run by lengths");
    for (int i = 1; i < 6; i++) {
        dice = start;
        set_scene(&other);
        places[i](&other);
        bool done = run(&other, &error) == KVMILL_OK;
        if (!done)
            diag("%s", error.message);
        ok(done && memcmp(first.output, other.output, sizeof first.output) == 0 &&
               memcmp(first.lse, other.lse, sizeof first.lse) == 0,
           "the same bits by %s", names[i]);
    }
}

/* ---- Refusals ---- */

static void no_heads(struct scene *s) {
    s->op.num_heads = 0;
}
static void odd_kv_heads(struct scene *s) {
    s->op.num_kv_heads = 3;
}
static void query_of_codes(struct scene *s) {
    s->op.T1 = (DLDataType){kDLInt, 8, 1};
}
static void long_output(struct scene *s) {
    s->op.output_T1 = f16;
}
static void mask_of_integers(struct scene *s) {
    s->op.mask_T1 = i64;
}
static void no_group(struct scene *s) {
    s->op.key_T2 = (DLDataType){kDLInt, 8, 1};
    s->op.key_quant_bit = 8;
    s->op.key_T3 = f32;
}
static void small_softcap(struct scene *s) {
    s->op.softcap = -1;
}
static void nothing(struct scene *s) {
    s->tensors[KVMILL_CACHE_ATTEND_LENGTHS] = NULL;
}
static void lengths_and_slots(struct scene *s) {
    by_slots(s);
}
static void slots_alone(struct scene *s) {
    s->tensors[KVMILL_CACHE_ATTEND_LENGTHS] = NULL;
    by_slots(s);
    s->tensors[KVMILL_CACHE_ATTEND_SLOT_STARTS] = NULL;
}
static void long_length(struct scene *s) {
    s->lengths[1] = T + 1;
}
static void negative_length(struct scene *s) {
    s->lengths[0] = -1;
}
static void far_slot(struct scene *s) {
    s->tensors[KVMILL_CACHE_ATTEND_LENGTHS] = NULL;
    by_slots(s);
    s->slots[T + 8] = C;
}
static void far_page(struct scene *s) {
    by_pages(s);
    s->ids[5] = C / PAGE;
}
static void few_pages(struct scene *s) {
    by_pages(s);
    s->page_starts[1] = 2;
}
static void late_start(struct scene *s) {
    by_pages(s);
    s->page_starts[0] = 1;
}
static void long_range(struct scene *s) {
    s->tensors[KVMILL_CACHE_ATTEND_LENGTHS] = NULL;
    by_ranges(s);
    s->ranges[2][1] = T + 1;
}
static void turned_range(struct scene *s) {
    s->tensors[KVMILL_CACHE_ATTEND_LENGTHS] = NULL;
    by_ranges(s);
    s->ranges[3][0] = 10;
}
static void missing_mask(struct scene *s) {
    s->op.mask_T1 = boolean;
}
static void surplus_mask(struct scene *s) {
    give(s, KVMILL_CACHE_ATTEND_ATTN_MASK, boolean, s->mask, 1, T, 0, 0, 0);
}
static void wide_mask(struct scene *s) {
    by_mask(s);
    give(s, KVMILL_CACHE_ATTEND_ATTN_MASK, boolean, s->mask, 2, 3, 4, 0, 0);
}
static void half_key(struct scene *s) {
    s->tensor[KVMILL_CACHE_ATTEND_KEY].dtype = f16;
}
static void other_value(struct scene *s) {
    s->shape[KVMILL_CACHE_ATTEND_VALUE][1] = T - 1;
}
static void output_on_query(struct scene *s) {
    s->tensor[KVMILL_CACHE_ATTEND_ATTN_OUTPUT].data = s->numbers;
}
static void far_position(struct scene *s) {
    s->positions[1] = INT64_MAX;
    give(s, KVMILL_CACHE_ATTEND_POSITIONS, i64, s->positions, 1, B * S, 0, 0, 0);
}
static void few_positions(struct scene *s) {
    give(s, KVMILL_CACHE_ATTEND_POSITIONS, i64, s->positions, 1, S, 0, 0, 0);
}
static void slopes_without_alibi(struct scene *s) {
    give(s, KVMILL_CACHE_ATTEND_ALIBI_SLOPES, f32, s->numbers, 1, H, 0, 0, 0);
}
static void starts_of_dense(struct scene *s) {
    give(s, KVMILL_CACHE_ATTEND_QUERY_STARTS, i64, s->starts, 1, B + 1, 0, 0, 0);
}

static const struct refusal {
    const char *message;
    kvmill_status status;
    void (*change)(struct scene *s);
} refusals[] = {
    {"num_heads is 0; accepted: 1 to 1048576", KVMILL_E_ATTRIBUTE, no_heads},
    {"num_kv_heads is 3; accepted: 0, or a divisor of num_heads, 4", KVMILL_E_ATTRIBUTE,
     odd_kv_heads},
    {"T1 is int8; accepted: float32, float16, bfloat16", KVMILL_E_DTYPE, query_of_codes},
    {"output_T1 is float16; accepted: T1's, float32", KVMILL_E_DTYPE, long_output},
    {"mask_T1 is int64; accepted: bool, float32, float16, bfloat16", KVMILL_E_DTYPE,
     mask_of_integers},
    {"key_quant_group is 0; accepted: divisors of key_head_dim, 64", KVMILL_E_ATTRIBUTE, no_group},
    {"softcap is -1; accepted: 0 or more, a finite float32", KVMILL_E_ATTRIBUTE, small_softcap},
    {"0 of lengths, ranges, page_ids and slots are given; accepted: one, or page_ids with lengths",
     KVMILL_E_NULL, nothing},
    {"2 of lengths, ranges, page_ids and slots are given; accepted: one, or page_ids with lengths",
     KVMILL_E_SHAPE, lengths_and_slots},
    {"slot_starts is NULL; a tensor is required with slots", KVMILL_E_NULL, slots_alone},
    {"lengths[1] is 13; accepted: 0 to 12", KVMILL_E_INDEX_RANGE, long_length},
    {"lengths[0] is -1; accepted: 0 to 12", KVMILL_E_INDEX_NEGATIVE, negative_length},
    {"slots[20] is 24; accepted: 0 to 23", KVMILL_E_INDEX_RANGE, far_slot},
    {"page_ids[5] is 6; accepted: 0 to 5", KVMILL_E_INDEX_RANGE, far_page},
    {"page_starts[0] to [1] are 2 pages; accepted: 3 or more, for lengths[0], 12", KVMILL_E_SHAPE,
     few_pages},
    {"page_starts[0] is 1; accepted: 0 to 0", KVMILL_E_INDEX_RANGE, late_start},
    {"ranges[2, 1] is 13; accepted: 0 to 12", KVMILL_E_INDEX_RANGE, long_range},
    {"ranges[3, 1] is 9; accepted: 10 to 12", KVMILL_E_INDEX_RANGE, turned_range},
    {"attn_mask is NULL; a tensor is required", KVMILL_E_NULL, missing_mask},
    {"attn_mask is given; accepted: NULL, this CacheAttend has none", KVMILL_E_SHAPE, surplus_mask},
    {"attn_mask has shape [3, 4]; accepted: [2, ?]", KVMILL_E_SHAPE, wide_mask},
    {"key has type float16; accepted: float32", KVMILL_E_DTYPE, half_key},
    {"value has shape [2, 11, 2, 64]; accepted: [2, 12, 2, 64]", KVMILL_E_SHAPE, other_value},
    {"query overlaps attn_output; accepted: memory of its own", KVMILL_E_ALIAS, output_on_query},
    {"positions[1] is 9223372036854775807; accepted: -4611686018427387904 to 4611686018427387904",
     KVMILL_E_INDEX_RANGE, far_position},
    {"positions has shape [2]; accepted: [4]", KVMILL_E_SHAPE, few_positions},
    {"alibi_slopes is given; accepted: NULL, this CacheAttend has none", KVMILL_E_SHAPE,
     slopes_without_alibi},
    {"query has shape [2, 2, 4, 64]; accepted: [?, 4, 64]", KVMILL_E_SHAPE, starts_of_dense},
};

static void refuse_all(void) {
    static struct scene s;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *refusal = &refusals[i];
        kvmill_error error;
        set_scene(&s);
        by_lengths(&s);
        refusal->change(&s);
        float before = s.output[0];
        kvmill_status status = run(&s, &error);
        if (!ok(status == refusal->status && strcmp(error.message, refusal->message) == 0 &&
                    s.output[0] == before,
                "refused: %s", refusal->message))
            diag("%d: %s", (int)status, status == KVMILL_OK ? "done" : error.message);
    }
}

int main(void) {
    dice = dice_for(dice_seed(), "cache attend cases");
    compare_places();
    refuse_all();
    return done_testing();
}
