/* Every op with kernels of packs, its parts in any order on several threads: sanitizers of threads
   see races, and one thread gives the same bits. Kernels of specs/fuzz.json fit the calls.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/hash.h"
#include "crew.h"
#include "described.h"
#include "tap.h"

extern const kvmill_pack kvmill_pack_kvmill_default, kvmill_pack_kvmill_test;

enum { CALLS = 64, THREADS = 8 };

static struct dice dice;
static char doing[256];

struct counts {
    int runs, packs, wrong;
};

static const struct op *op_of(const struct described_case *by) {
    for (int i = 0; i < OP_FLOW_STEPS; i++)
        if (strcmp(kvmill_flow_steps[i].name, by->name) == 0)
            return &kvmill_flow_steps[i];
    return kvmill_op_by_name(by->name);
}

static uint64_t hash_memory(const struct scene *scene) {
    uint64_t hash = HASH_START;
    for (int i = 0; i < MOST_TENSORS; i++)
        hash = hash_bytes(hash, scene->memory[i].fence.data, scene->memory[i].fence.size);
    return hash;
}

/* Whether a call is done at all; then it writes the same again, in whatever parts. */
static bool runs(const kvmill_plan *plan, const struct scene *scene, void *workspace, bool *alike) {
    kvmill_error error;
    if (run_in_parts(plan, scene->tensors, workspace, THREADS, &dice, &error) != KVMILL_OK)
        return false;
    uint64_t hash = hash_memory(scene);
    *alike = kvmill_run(plan, scene->tensors, workspace, &error) == KVMILL_OK &&
             hash == hash_memory(scene);
    return true;
}

static void run(const kvmill_plan *plan, const struct scene *scene, struct counts *counts) {
    char text[1024];
    bool alike;
    size_t size = (kvmill_plan_workspace_size(plan) + 63) / 64 * 64;
    void *workspace = size > 0 ? aligned_alloc(64, size) : NULL;
    kvmill_plan_describe(plan, text, sizeof text);
    if (runs(plan, scene, workspace, &alike)) {
        counts->runs++;
        counts->packs += strstr(text, "(pack ") != NULL;
        counts->wrong += !alike;
    }
    free(workspace);
}

static void call(const struct described_case *by, struct counts *counts, int number) {
    static struct scene scene;
    static const kvmill_pack *const packs[] = {&kvmill_pack_kvmill_default,
                                               &kvmill_pack_kvmill_test};
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = packs, .pack_count = 2, .threads = THREADS};
    kvmill_plan *plan = NULL;
    kvmill_error error;
    scene_start(&scene, op_of(by), by, &dice);
    described_open(&scene, number % 2 ? 3 : 0);
    snprintf(doing, sizeof doing, "%s, call %d", by->name, number);
    if (by->plan(&scene, &options, &plan, &error) == KVMILL_OK)
        run(plan, &scene, counts);
    kvmill_plan_destroy(plan);
    described_close(&scene);
}

int main(void) {
    bool fits = getenv("KVMILL_TEST_THREADS") != NULL; /* then packs are made for these calls */
    dice = dice_for(dice_seed(), "races");
    fence_explain_traps(doing);
    for (const struct described_case *by = described_cases; by->name != NULL; by++) {
        struct counts counts = {0};
        for (int i = 0; i < CALLS; i++)
            call(by, &counts, i);
        ok(counts.runs > 0 && counts.wrong == 0 && (counts.packs > 0 || !fits),
           "%s: %d runs on %d threads, %d with kernels of packs", by->name, counts.runs,
           (int)THREADS, counts.packs);
    }
    return done_testing();
}
