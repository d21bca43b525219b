/* SPDX-License-Identifier: Apache-2.0 */
#include "call.h"

#include <stdlib.h>
#include <string.h>

#include "../../base/hash.h"
#include "../crew.h"
#include "fuzz.h"

extern const kvmill_pack kvmill_pack_kvmill_default, kvmill_pack_kvmill_test;

enum { MOST_WORKSPACE = 64 << 20 };

static uint64_t hash_memory(const struct call *call) {
    uint64_t hash = HASH_START;
    for (int i = 0; i < call->count; i++)
        hash = hash_bytes(hash, call->memory[i].fence.data, call->memory[i].fence.size);
    return hash;
}

static void require_reason(kvmill_status status, const kvmill_error *error) {
    fuzz_require(strncmp(kvmill_status_name(status), "KVMILL_E_", 9) == 0 &&
                     strlen(error->message) > 5,
                 "%s: \"%s\"", kvmill_status_name(status), error->message);
}

static kvmill_plan_options draw_options(struct dice *dice) {
    static const kvmill_pack *const packs[] = {&kvmill_pack_kvmill_default,
                                               &kvmill_pack_kvmill_test};
    static const char *const isas[] = {"scalar", "avx2", "avx512", "neon", "avx2", "avx"};
    kvmill_plan_options options = {.struct_size = sizeof options};
    options.packs = packs;
    options.pack_count = dice_once_in(dice, 8) ? 0 : 2;
    options.portable = dice_once_in(dice, 8);
    options.isa = dice_once_in(dice, 3) ? isas[dice_range(dice, 0, 5)] : NULL;
    options.threads = dice_once_in(dice, 4) ? (int)dice_range(dice, -1, 300) : 4;
    return options;
}

kvmill_plan *call_plan(const struct call *call) {
    kvmill_plan *plan = NULL;
    kvmill_error error;
    const kvmill_plan_options options = draw_options(call->dice);
    uint64_t hash = hash_memory(call);
    kvmill_status status = call->plan(call->context, &options, &plan, &error);
    fuzz_require(hash == hash_memory(call), "planning writes");
    if (status == KVMILL_OK)
        return plan;
    require_reason(status, &error);
    fuzz_require(plan == NULL, "a plan after %s", error.message);
    return NULL;
}

static void describe(const kvmill_plan *plan) {
    char text[512];
    size_t length = kvmill_plan_describe(plan, text, sizeof text);
    fuzz_require(length > 0 && (length >= sizeof text || strlen(text) == length),
                 "a description of %zu bytes", length);
}

void call_run(const struct call *call, const kvmill_plan *plan) {
    kvmill_error error;
    size_t size = kvmill_plan_workspace_size(plan);
    describe(plan);
    if (size > MOST_WORKSPACE)
        return;
    bool without = size > 0 && dice_once_in(call->dice, 16);
    void *workspace = size > 0 ? aligned_alloc(64, (size + 63) / 64 * 64) : NULL;
    fuzz_require(size == 0 || workspace != NULL, "no memory for the workspace");
    int threads = dice_once_in(call->dice, 2) ? 1 : 0; /* parts in any order, or all at once */
    uint64_t hash = hash_memory(call);
    kvmill_status status =
        run_in_parts(plan, call->tensors, without ? NULL : workspace, threads, call->dice, &error);
    if (status != KVMILL_OK) {
        require_reason(status, &error);
        fuzz_require(hash == hash_memory(call), "written in spite of %s", error.message);
    }
    fuzz_require(tensors_are_intact(call->memory, call->count, "of a call"),
                 "memory that is not its own");
    free(workspace);
}
