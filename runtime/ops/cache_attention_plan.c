/* Planning PMX cache attention.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../defs/arithmetic.h"
#include "../../defs/op_tables.h"
#include "../../ops/fail.h"
#include "../core/op_rules.h"
#include "../core/plan_words.h"
#include "../portable/portable.h"
#include "cache_attention_plan.h"

/* ---- Running ---- */

static const struct phase *const *phases_of(enum kvmill_cache_op which) {
    static const struct phase *const phases[][4] = {
        [KVMILL_KEY_VALUE_CACHE] = {&kvmill_write_phase, &kvmill_read_phase, NULL},
        [KVMILL_MULTI_HEAD_ATTENTION] = {&kvmill_attend_phase, &kvmill_merge_phase, NULL},
        [KVMILL_MULTI_HEAD_CACHE_ATTENTION] = {&kvmill_write_phase, &kvmill_attend_phase,
                                               &kvmill_merge_phase, NULL},
    };
    return phases[which];
}

static void destroy_cache_attention(kvmill_plan *plan) {
    free(plan);
}

static const struct plan_op cache_attention_op = {
    .begin = kvmill_cache_attention_begin,
    .parts = kvmill_phase_parts,
    .part = kvmill_phase_part,
    .work = kvmill_phase_work,
    .next = kvmill_cache_attention_next,
    .destroy = destroy_cache_attention,
};

/* ---- Kernels ---- */

static void say_by_size(struct words *words, const struct by_size *by_size) {
    kvmill_said(words, kvmill_by_size_words(by_size, words->at, words->left));
}

static void say_kernel(struct words *words, const char *what, const struct selection *selection,
                       const struct kvmill_kernel *portable) {
    const struct kvmill_kernel *kernel = selection->by_size.kernel;
    kvmill_words_add(words, "; %s with %s (%s%s)", what, kernel->symbol,
                     kernel == portable ? "" : "pack ", selection->origin);
    say_by_size(words, &selection->by_size);
}

static void select_rows(struct cache_plan *plan, const struct kernel_search *search,
                        struct words *words) {
    static const char *const writes[] = {"write K", "write V"};
    static const char *const reads[] = {"read K", "read V"};
    for (int v = 0; v < kvmill_stored_sides(&plan->geometry); v++) {
        plan->shapes[v] = kvmill_convert_shape_of(&plan->geometry, v);
        const struct wanted writer = {KVMILL_WRITE_ROWS, &plan->shapes[v],
                                      &kvmill_portable_write_rows};
        const struct wanted reader = {KVMILL_READ_ROWS, &plan->shapes[v],
                                      &kvmill_portable_read_rows};
        const struct kernel_search writers =
            kvmill_search_of_writer(search, &plan->shapes[v], plan->geometry.saturates);
        struct selection selection = kvmill_select_kernel(&writers, &writer);
        plan->writers[v] = selection.by_size;
        say_kernel(words, writes[v], &selection, &kvmill_portable_write_rows);
        if (plan->geometry.which != KVMILL_KEY_VALUE_CACHE)
            continue;
        selection = kvmill_select_kernel(search, &reader);
        plan->readers[v] = selection.by_size;
        say_kernel(words, reads[v], &selection, &kvmill_portable_read_rows);
    }
}

void kvmill_need_cache_rows(const struct cache_plan *plan, const struct kernel_search *search,
                            struct needs *needs) {
    bool reads = plan->geometry.which == KVMILL_KEY_VALUE_CACHE;
    for (int v = 0; v < kvmill_stored_sides(&plan->geometry); v++) {
        kvmill_need(needs, search, EVERY_RUN, "write rows", plan->writers[v].kernel);
        if (reads)
            kvmill_need(needs, search, EVERY_RUN, "read rows", plan->readers[v].kernel);
    }
}

static void select_tiles(struct cache_plan *plan, const struct kernel_search *search,
                         struct words *words) {
    static const char *const whats[] = {"attend", "with a mask"};
    for (int masked = 0; masked < 2; masked++) {
        struct tiles *tiles = &plan->attend.tiles[masked];
        const struct kvmill_attend_shape wanted = kvmill_attend_shape_of(&plan->geometry, masked);
        kvmill_select_tiles(search, &wanted, tiles);
        kvmill_need_tiles(&plan->base.needs, search, masked ? SOME_RUNS : EVERY_RUN, tiles);
        if (masked == 0 || tiles->wanted.terms != plan->attend.tiles[0].wanted.terms) {
            kvmill_words_add(words, "; %s with", whats[masked]);
            kvmill_describe_tiles(words, tiles);
        }
    }
}

/* ---- Words ---- */

static const char *element_name(int element) {
    return kvmill_format_parts(element)->word;
}

static void say_format(struct words *words, const char *what, const struct kvmill_format *format) {
    kvmill_words_add(words, ", %s of %d %s", what, format->dim, element_name(format->element));
    if (format->scale != 0)
        kvmill_words_add(words, " in groups of %d, scales %s", format->quant_group,
                         element_name(format->scale));
}

static void say_problem(struct words *words, const struct kvmill_cache_geometry *geometry) {
    kvmill_words_add(words, "%s, %" PRId64 " heads", kvmill_cache_op_of(geometry)->name,
                     geometry->heads);
    if (geometry->ratio != 1)
        kvmill_words_add(words, " on %" PRId64, geometry->kv_heads);
    kvmill_words_add(words, ", activations %s", element_name(geometry->activation));
    say_format(words, "K", &geometry->key);
    say_format(words, "V", &geometry->value);
    if (geometry->value_view)
        kvmill_words_add(words, ", a view of K");
    if (geometry->which != KVMILL_MULTI_HEAD_ATTENTION)
        kvmill_words_add(words, ", layout %" PRId64 "%s%s", geometry->layout,
                         geometry->paged ? ", paged" : "", geometry->circular ? ", circular" : "");
    if (geometry->which != KVMILL_KEY_VALUE_CACHE)
        kvmill_words_add(words, ", math %s", kvmill_math_names[geometry->math]);
}

static int words_so_far(const struct cache_plan *plan, const struct words *words) {
    return (int)(words->at - plan->base.description);
}

static void select_kernels(struct cache_plan *plan, const struct kernel_search *search) {
    struct words words = {plan->base.description, sizeof plan->base.description};
    say_problem(&words, &plan->geometry);
    plan->said_problem = words_so_far(plan, &words);
    if (plan->geometry.which != KVMILL_MULTI_HEAD_ATTENTION) {
        select_rows(plan, search, &words);
        kvmill_need_cache_rows(plan, search, &plan->base.needs);
    }
    plan->said_rows = words_so_far(plan, &words);
    if (plan->geometry.which == KVMILL_KEY_VALUE_CACHE)
        return;
    select_tiles(plan, search, &words);
    plan->base.workspace_size = kvmill_attend_lay_out(&plan->attend);
}

/* ---- Plans ---- */

static void set_slopes(struct cache_plan *plan) {
    const struct kvmill_cache_geometry *geometry = &plan->geometry;
    for (int64_t head = 0; geometry->alibi && head < geometry->heads; head++)
        plan->slopes[head] =
            (float)(geometry->alibi_scale *
                    kvmill_alibi_slope(geometry->alibi_heads, geometry->alibi_first + head));
}

static struct cache_plan *allocate(const kvmill_cache_attention *op,
                                   const struct kvmill_cache_geometry *geometry, int threads) {
    size_t slopes = geometry->alibi ? (size_t)geometry->heads * sizeof(float) : 0;
    struct cache_plan *plan = calloc(1, sizeof *plan + slopes);
    if (plan == NULL)
        return NULL;
    plan->base.op = &cache_attention_op;
    plan->base.tensor_count = KVMILL_CACHE_ATTENTION_TENSORS;
    plan->base.threads = threads;
    plan->geometry = *geometry;
    plan->layout = *kvmill_cache_layout_of(geometry);
    plan->attend = kvmill_attend_plan_of(geometry, threads);
    plan->phases = phases_of(geometry->which);
    if (op->partial && geometry->which != KVMILL_KEY_VALUE_CACHE)
        plan->attend.output = KVMILL_F32;
    plan->attend.empty = op->empty_is_nan ? NAN : 0;
    set_slopes(plan);
    kvmill_described_rules(kvmill_cache_op_of(geometry), op, plan->rules);
    return plan;
}

kvmill_status kvmill_make_cache_plan(const kvmill_cache_attention *op, enum kvmill_cache_op which,
                                     const kvmill_plan_options *options, struct cache_plan **plan,
                                     kvmill_error *error) {
    struct kvmill_cache_geometry geometry;
    struct kernel_search search;
    kvmill_status status = kvmill_cache_attention_check(op, which, &geometry, error);
    if (status == KVMILL_OK)
        status = kvmill_open_search(options, &search, error);
    if (status != KVMILL_OK)
        return status;
    *plan = allocate(op, &geometry, options->threads);
    if (*plan == NULL)
        return kvmill_fail(error, KVMILL_E_MEMORY, "out of memory for a plan");
    select_kernels(*plan, &search);
    return kvmill_succeed(error);
}

static kvmill_status plan_op(const kvmill_cache_attention *given, enum kvmill_cache_op which,
                             const kvmill_plan_options *options, kvmill_plan **plan,
                             kvmill_error *error) {
    struct cache_plan *made;
    kvmill_cache_attention op;
    struct plan_call call = {
        .part = &kvmill_cache_attention_attributes, .given = given, .op = &op, .plan = plan};
    kvmill_status status = kvmill_plan_read_arguments(&call, "op", options, error);
    if (status == KVMILL_OK)
        status = kvmill_make_cache_plan(&op, which, &call.options, &made, error);
    return status == KVMILL_OK ? kvmill_plan_finish(&made->base, plan, error) : status;
}

kvmill_status kvmill_plan_key_value_cache(const kvmill_cache_attention *op,
                                          const kvmill_plan_options *options, kvmill_plan **plan,
                                          kvmill_error *error) {
    return plan_op(op, KVMILL_KEY_VALUE_CACHE, options, plan, error);
}

kvmill_status kvmill_plan_multi_head_attention(const kvmill_cache_attention *op,
                                               const kvmill_plan_options *options,
                                               kvmill_plan **plan, kvmill_error *error) {
    return plan_op(op, KVMILL_MULTI_HEAD_ATTENTION, options, plan, error);
}

kvmill_status kvmill_plan_multi_head_cache_attention(const kvmill_cache_attention *op,
                                                     const kvmill_plan_options *options,
                                                     kvmill_plan **plan, kvmill_error *error) {
    return plan_op(op, KVMILL_MULTI_HEAD_CACHE_ATTENTION, options, plan, error);
}
