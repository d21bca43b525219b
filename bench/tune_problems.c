/* The problems that kernels are measured on.

   SPDX-License-Identifier: Apache-2.0 */
#include "scene_onnx.h"
#include "scene_op.h"
#include "scene_rows.h"
#include "scene_windows.h"
#include "tune_work.h"

/* Leaves out flows with state, which would change from run to run. */
static bool is_steady(const struct spec *spec, struct kvmill_flow_problem *problem) {
    return kvmill_flow_verify(flow_of_spec(spec), problem, NULL) == KVMILL_OK &&
           !kvmill_flow_saves(problem);
}

static bool has_scores(const struct spec *spec, const struct run_size *size) {
    struct kvmill_flow_problem problem;
    (void)size;
    return is_steady(spec, &problem) && kvmill_flow_scores(&problem.budget);
}

static bool has_no_state(const struct spec *spec, const struct run_size *size) {
    struct kvmill_flow_problem problem;
    (void)size;
    return is_steady(spec, &problem);
}

static bool has_result(const struct spec *spec, const struct run_size *size) {
    static struct scene scene;
    struct error ignored;
    return scene_begin(&scene, spec, size, 0, false, &ignored) && windows_move(&scene);
}

static bool has_rows(const struct spec *spec, const struct run_size *size) {
    struct run_size ignored;
    return rows_size(spec, size->batch, rows_scene_op.rotation, &ignored);
}

/* ---- Kinds ---- */

enum { NONTEMPORAL = 1 }; /* of rivals that copy */

static const struct tune_kind decode = {
    .op = &attention_scene_op, .kernel = &decode_words, .rival = rival_read, .which = READ_BY_8};
static const struct tune_kind prefill = {
    .op = &attention_scene_op, .kernel = &prefill_words, .rival = rival_add, .in_flops = true};
static const struct tune_kind store = {.op = &attention_scene_op,
                                       .kernel = &write_words,
                                       .rival = rival_store,
                                       .which = NONTEMPORAL,
                                       .step = STEP_STORE};
static const struct tune_kind in_place = {.op = &rows_scene_op,
                                          .kernel = &store_words,
                                          .rival = rival_rows,
                                          .which = NONTEMPORAL,
                                          .in_place = true,
                                          .serves = has_rows};
static const struct tune_kind functional = {.op = &rows_scene_op,
                                            .kernel = &keep_words,
                                            .rival = rival_rows,
                                            .which = NONTEMPORAL,
                                            .serves = has_rows};
static const struct tune_kind gather = {
    .op = &gather_scene_op, .kernel = &gather_words, .rival = rival_gather, .serves = has_result};
static const struct tune_kind scatter = {
    .op = &scatter_scene_op, .kernel = &apply_words, .rival = rival_touch, .in_place = true};
static const struct tune_kind index_step = {.op = &flow_scene_op,
                                            .kernel = &score_words,
                                            .rival = rival_read,
                                            .which = READ_BY_8,
                                            .step = STEP_INDEX,
                                            .serves = has_scores};
static const struct tune_kind flow_decode = {.op = &flow_scene_op,
                                             .kernel = &decode_words,
                                             .rival = rival_read,
                                             .which = READ_BY_8,
                                             .serves = has_no_state};
static const struct tune_kind flow_select = {.op = &flow_scene_op,
                                             .kernel = &select_words,
                                             .rival = rival_read,
                                             .which = READ_BY_8,
                                             .step = STEP_INDEX,
                                             .serves = has_scores};
static const struct tune_kind flow_prefill = {.op = &flow_scene_op,
                                              .kernel = &prefill_words,
                                              .rival = rival_add,
                                              .in_flops = true,
                                              .step = STEP_ATTEND};
static const struct tune_kind flow_append = {.op = &flow_scene_op,
                                             .kernel = &write_words,
                                             .rival = rival_append,
                                             .which = NONTEMPORAL,
                                             .step = STEP_APPEND};
static const struct tune_kind attend_decode = {
    .op = &attend_scene_op, .kernel = &decode_words, .rival = rival_read, .which = READ_BY_8};
static const struct tune_kind attend_prefill = {
    .op = &attend_scene_op, .kernel = &prefill_words, .rival = rival_add, .in_flops = true};
static const struct tune_kind batching_decode = {
    .op = &batching_scene_op, .kernel = &decode_words, .rival = rival_read, .which = READ_BY_8};
static const struct tune_kind batching_prefill = {
    .op = &batching_scene_op, .kernel = &prefill_words, .rival = rival_add, .in_flops = true};
static const struct tune_kind batching_store = {.op = &batching_scene_op,
                                                .kernel = &write_words,
                                                .rival = rival_store,
                                                .which = NONTEMPORAL,
                                                .step = STEP_STORE};
static const struct tune_kind given_decode = {
    .op = &given_scene_op, .kernel = &decode_words, .rival = rival_read, .which = READ_BY_8};
static const struct tune_kind given_prefill = {
    .op = &given_scene_op, .kernel = &prefill_words, .rival = rival_add, .in_flops = true};
static const struct tune_kind read_back = {.op = &read_back_scene_op,
                                           .kernel = &read_words,
                                           .rival = rival_read_back,
                                           .which = NONTEMPORAL};
static const struct tune_kind store_alone = {.op = &read_back_scene_op,
                                             .kernel = &write_words,
                                             .rival = rival_store,
                                             .which = NONTEMPORAL,
                                             .step = STEP_STORE};
static const struct tune_kind cells = {
    .op = &write_rows_scene_op, .kernel = &cells_words, .rival = rival_write, .which = NONTEMPORAL};
static const struct tune_kind onnx_decode = {.op = &onnx_scene_op,
                                             .kernel = &decode_words,
                                             .rival = rival_read,
                                             .which = READ_BY_8,
                                             .serves = onnx_serves};
static const struct tune_kind onnx_prefill = {.op = &onnx_scene_op,
                                              .kernel = &prefill_words,
                                              .rival = rival_add,
                                              .in_flops = true,
                                              .serves = onnx_serves};

/* The most important first. */
const struct tune_problem tune_problems[] = {
    {"decode 1 on 4096", &decode, {1, 1, 4096}},
    {"prefill 512 on 512", &prefill, {1, 512, 512}},
    {"decode 1 on 512", &decode, {1, 1, 512}},
    {"decode 64 on 512", &decode, {64, 1, 512}},
    {"prefill 128 on 4096", &prefill, {1, 128, 4096}},
    {"store 512", &store, {1, 512, 512}},
    {"store 64 rows", &store, {64, 1, 512}},
    {"update 64 in place", &in_place, {64, 0, 0}},
    {"update 1 in place", &in_place, {1, 0, 0}},
    {"update 8 functional", &functional, {8, 0, 0}},
    {"gather", &gather, {0, 0, 0}},
    {"scatter in place", &scatter, {0, 0, 0}},
    {"index 32768", &index_step, {1, 0, 32768}},
    {"index 4096", &index_step, {1, 0, 4096}},
    {"flow 1 on 32768", &flow_decode, {1, 1, 32768}},
    {"flow 1 on 4096", &flow_decode, {1, 1, 4096}},
    {"select 32768", &flow_select, {1, 0, 32768}},
    {"flow prefill 512 on 512", &flow_prefill, {1, 512, 512}},
    {"flow store 512", &flow_append, {1, 512, 512}},
    {"Attention 1 on 4096", &onnx_decode, {1, 1, 4096}},
    {"Attention 512 on 512", &onnx_prefill, {1, 512, 512}},
    {"CacheAttend 1 on 4096", &attend_decode, {1, 1, 4096}},
    {"CacheAttend 512 on 512", &attend_prefill, {1, 512, 512}},
    {"batch of 64 on 1024", &batching_decode, {64, 1, 1024}},
    {"batch of 8 with 128 new on 1024", &batching_prefill, {8, 128, 1024}},
    {"store 64 sequences", &batching_store, {64, 1, 1024}},
    {"MultiHeadAttention 1 on 4096", &given_decode, {1, 1, 4096}},
    {"MultiHeadAttention 512 on 512", &given_prefill, {1, 512, 512}},
    {"KeyValueCache 1 on 4096", &read_back, {1, 1, 4096}},
    {"KeyValueCache 512 on 512", &store_alone, {1, 512, 512}},
    {"WriteRows 512", &cells, {1, 512, 8192}},
    {"WriteRows 8", &cells, {1, 8, 8192}},
    {NULL, NULL, {0, 0, 0}},
};
