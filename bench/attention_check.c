/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../runtime/numbers.h"
#include "attention_scene.h"

/* ---- Checking ---- */

static bool demand(kvmill_status status, const kvmill_error *reason, struct error *error) {
    return status == KVMILL_OK ||
           fail(error, EXIT_BUG, "%s: %s", kvmill_status_name(status), reason->message);
}

/* A tensor with one sequence and one token less: bytes from its begin to that of token `token` of
   sequence b. */
static void cut_activations(struct attention_call *cut, int which, int64_t b, int64_t token) {
    DLTensor *tensor = &cut->tensors[which];
    int64_t row = tensor->shape[2] * tensor->shape[3] * tensor->dtype.bits / 8;
    tensor->data = (unsigned char *)tensor->data + (b * tensor->shape[1] + token) * row;
    tensor->shape[0] = tensor->shape[1] = 1;
}

static void cut_side(struct attention_call *cut, int side, int64_t b) {
    DLTensor *tensor = &cut->tensors[KVMILL_CACHE + side];
    if (cut->given[KVMILL_CACHE + side] == NULL)
        return;
    tensor->data = (unsigned char *)tensor->data +
                   b * attention_side_bytes(cut->scene, side) / cut->scene->batch;
    tensor->shape[cut->scene->geometry.layout == 0 ? 0 : 1] = 1;
}

/* The same call for one token of one sequence; its tensors are its own. */
static void cut_call(const struct attention_call *call, int64_t b, int64_t token,
                     struct attention_call *cut) {
    static const int activations[] = {KVMILL_QUERY, KVMILL_CURRENT_KEY, KVMILL_CURRENT_VALUE,
                                      KVMILL_ATTN_OUTPUT};
    *cut = *call;
    cut->start = call->start + token;
    for (int i = 0; i < KVMILL_CACHE_ATTENTION_TENSORS; i++) {
        cut->tensors[i].shape = cut->shapes[i];
        cut->given[i] = call->given[i] != NULL ? &cut->tensors[i] : NULL;
    }
    cut->tensors[KVMILL_START_POS].data = &cut->start;
    for (int i = 0; i < 4; i++)
        cut_activations(cut, activations[i], b, token);
    for (int i = 0; i < SIDES; i++)
        cut_side(cut, i, b);
}

/* Of the largest output: what a kind of arithmetic may err, and what rounding to the output's type
 * does. */
static double tolerance_of(const struct kvmill_cache_geometry *geometry) {
    double rounding = geometry->activation == KVMILL_F16    ? 0x1p-10
                      : geometry->activation == KVMILL_BF16 ? 0x1p-7
                                                            : 0;
    return (geometry->math == KVMILL_MATH_FAST ? 3e-3 : 1e-4) + rounding;
}

bool attention_outputs_agree(const struct kvmill_cache_geometry *geometry,
                             const unsigned char *have, const unsigned char *want, int64_t count,
                             struct error *error) {
    double largest = 0, worst = 0, tolerance = tolerance_of(geometry);
    for (int64_t i = 0; i < count; i++) {
        double x = kvmill_load_float(geometry->activation, have, i);
        double y = kvmill_load_float(geometry->activation, want, i);
        largest = fmax(largest, fabs(y));
        worst = isfinite(x) && isfinite(y) ? fmax(worst, fabs(x - y)) : INFINITY;
    }
    return worst <= tolerance * largest ||
           fail(error, EXIT_BUG,
                "an output is %g off, the largest is %g; accepted: %g of the largest", worst,
                largest, tolerance);
}

static bool check_token(const struct attention_call *call, int64_t token, struct error *error) {
    const struct attention_scene *scene = call->scene;
    kvmill_error reason;
    struct attention_call cut;
    int64_t count = scene->geometry.heads * scene->geometry.value.dim;
    cut_call(call, call->size.batch - 1, token, &cut);
    const unsigned char *have = cut.tensors[KVMILL_ATTN_OUTPUT].data;
    cut.tensors[KVMILL_ATTN_OUTPUT].data = scene->expected;
    kvmill_status status =
        kvmill_run(scene->portable.plan, cut.given, scene->portable.workspace, &reason);
    return demand(status, &reason, error) &&
           attention_outputs_agree(&scene->geometry, have, scene->expected, count, error);
}

/* The calling thread alone has to give the same bits. */
static bool check_threads(struct attention_call *call, struct error *error) {
    const struct attention_scene *scene = call->scene;
    kvmill_error reason;
    int64_t bytes = scene->output_bytes;
    memset(scene->output, 0xff, (size_t)bytes);
    kvmill_status status =
        kvmill_run(call->plan->plan, call->given, call->plan->workspace, &reason);
    if (!demand(status, &reason, error))
        return false;
    memcpy(scene->expected, scene->output, (size_t)bytes);
    memset(scene->output, 0xff, (size_t)bytes);
    if (!demand(attention_call_run(call, &reason), &reason, error))
        return false;
    return memcmp(scene->expected, scene->output, (size_t)bytes) == 0 ||
           fail(error, EXIT_BUG, "%d threads and one give different outputs",
                pool_threads(call->pool));
}

/* What the first of several tokens sees differs from what a lone token at its place would, unless
   attention is causal. */
bool attention_check_run(struct attention_call *call, struct error *error) {
    const struct kvmill_cache_geometry *geometry = &call->scene->geometry;
    int64_t last = call->size.tokens - 1;
    return check_threads(call, error) && check_token(call, last, error) &&
           (last == 0 || !(geometry->causal || geometry->alibi) || check_token(call, 0, error));
}

/* What a plan makes of a side that held nothing but ones and zeros in turn. */
static bool store_anew(struct attention_call *call, int side, const struct owned_plan *plan,
                       struct error *error) {
    kvmill_error reason;
    memset(call->tensors[KVMILL_CACHE + side].data, 0x55,
           (size_t)attention_side_bytes(call->scene, side));
    call->plan = plan;
    return demand(attention_call_store(call, &reason), &reason, error);
}

/* memory: room for the side twice; what the side held is there again in the end. */
static bool compare_side(struct attention_call *call, int side, unsigned char *memory,
                         struct error *error) {
    size_t bytes = (size_t)attention_side_bytes(call->scene, side);
    unsigned char *data = call->tensors[KVMILL_CACHE + side].data, *want = memory + bytes;
    const struct owned_plan *plan = call->plan;
    memcpy(memory, data, bytes);
    bool done = store_anew(call, side, &call->scene->portable, error);
    memcpy(want, data, bytes);
    done = store_anew(call, side, plan, error) && done;
    bool same = memcmp(want, data, bytes) == 0;
    memcpy(data, memory, bytes);
    return done && (same || fail(error, EXIT_BUG,
                                 "rows are not stored as the portable kernel stores them"));
}

bool attention_check_store(struct attention_call *call, struct error *error) {
    bool done = true;
    for (int i = 0; done && i < SIDES; i++) {
        unsigned char *memory = malloc(2 * (size_t)attention_side_bytes(call->scene, i) + 1);
        done = memory != NULL || out_of_memory(error);
        done =
            done && (call->given[KVMILL_CACHE + i] == NULL || compare_side(call, i, memory, error));
        free(memory);
    }
    return done;
}
