/* SPDX-License-Identifier: Apache-2.0 */
#include "rivals.h"

#include "attention_work.h"
#include "scene_windows.h"

static const int64_t read_bytes = 64 << 20; /* that one run reads */

void run_rival(void *context, int64_t k) {
    struct rival *rival = context;
    (void)k;
    rival->run(rival);
}

void run_call(void *context, int64_t k) {
    (void)k;
    scene_call_next(context, NULL);
}

/* ---- Reading, and multiplying and adding ---- */

static void run_reading(struct rival *rival) {
    struct scene *scene = rival->call->scene;
    int64_t bytes = read_bytes;
    const unsigned char *from = scene_next_bytes(scene, scene->read, &bytes);
    limit_read(&(struct reading){(const char *)from, (size_t)bytes, rival->kind->streams,
                                 rival->call->pool, rival->kind->fetches, rival->kind->narrow});
    rival->done = (double)bytes;
}

void rival_read(struct rival *rival, struct scene_call *call, int i) {
    *rival = (struct rival){.name = kinds_of_reading[i].name,
                            .call = call,
                            .run = run_reading,
                            .by_unit = true,
                            .kind = &kinds_of_reading[i]};
}

static void run_adding(struct rival *rival) {
    rival->done = 2 * limit_multiply_add(rival->peak, rival->call->pool);
}

void rival_add(struct rival *rival, struct scene_call *call, int i) {
    (void)i;
    *rival = (struct rival){.name = "multiply-add",
                            .call = call,
                            .run = run_adding,
                            .by_unit = true,
                            .peak = peak_of(NULL)};
}

/* ---- Copying ---- */

static void run_copying(struct rival *rival) {
    struct scene *scene = rival->call->scene;
    int64_t bytes = rival->bytes;
    char *to = (char *)scene_next_bytes(scene, rival->to, &bytes);
    const char *from = (const char *)scene_next_bytes(scene, rival->from, &bytes);
    rival->copy(&(struct copy){to, from, (size_t)bytes, rival->call->pool});
    rival->done = 2 * (double)bytes;
}

static void make_copy(struct rival *rival, struct scene_call *call, int i, int to, int from,
                      int64_t bytes) {
    *rival = (struct rival){.name = kinds_of_copying[i].name,
                            .call = call,
                            .run = run_copying,
                            .to = to,
                            .from = from,
                            .bytes = bytes,
                            .copy = kinds_of_copying[i].copy};
}

void rival_store(struct rival *rival, struct scene_call *call, int i) {
    make_copy(rival, call, i, KVMILL_CACHE_ATTENTION_CACHE, KVMILL_CACHE_ATTENTION_CURRENT_KEY,
              attention_activation_bytes(&call->scene->attention.geometry, &call->size));
}

void rival_append(struct rival *rival, struct scene_call *call, int i) {
    make_copy(rival, call, i, KVMILL_CACHE_ATTENTION_CACHE, KVMILL_CACHE_ATTENTION_CURRENT_KEY,
              scene_tensor_bytes(call->scene, KVMILL_CACHE_ATTENTION_CURRENT_KEY));
}

void rival_write(struct rival *rival, struct scene_call *call, int i) {
    make_copy(rival, call, i, KVMILL_WRITE_ROWS_CACHE, KVMILL_WRITE_ROWS_ROWS,
              scene_tensor_bytes(call->scene, KVMILL_WRITE_ROWS_ROWS));
}

void rival_read_back(struct rival *rival, struct scene_call *call, int i) {
    make_copy(rival, call, i, KVMILL_CACHE_ATTENTION_KEY, KVMILL_CACHE_ATTENTION_CACHE,
              scene_tensor_bytes(call->scene, KVMILL_CACHE_ATTENTION_CACHE));
}

void rival_rows(struct rival *rival, struct scene_call *call, int i) {
    int from = call->in_place ? KVMILL_TENSOR_SCATTER_UPDATE : KVMILL_TENSOR_SCATTER_PAST_CACHE;
    make_copy(rival, call, i,
              call->in_place ? KVMILL_TENSOR_SCATTER_PAST_CACHE
                             : KVMILL_TENSOR_SCATTER_PRESENT_CACHE,
              from, scene_tensor_bytes(call->scene, from));
}

void rival_gather(struct rival *rival, struct scene_call *call, int i) {
    int64_t operand = scene_tensor_bytes(call->scene, KVMILL_GATHER_OPERAND);
    int64_t result = scene_tensor_bytes(call->scene, KVMILL_GATHER_RESULT);
    make_copy(rival, call, i, KVMILL_GATHER_RESULT, KVMILL_GATHER_OPERAND,
              operand < result ? operand : result);
}

static void run_touching(struct rival *rival) {
    scatter_touch(rival->call);
    rival->done = scene_call_bytes(rival->call);
}

void rival_touch(struct rival *rival, struct scene_call *call, int i) {
    (void)i;
    *rival = (struct rival){.name = "memory", .call = call, .run = run_touching};
}
