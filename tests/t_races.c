/* Calls of every op with kernels of packs: parts in any order on several threads, on a pool, and
   one plan on several threads at a time.  Sanitizers of threads find races, and the bits must be
   those of one thread.  Also tensors without elements, which may have any strides because no loop
   steps along them.

   SPDX-License-Identifier: Apache-2.0 */
#include "common.h"
#include "described.h"
#include "packs.h"

/* Kernels of specs/fuzz.json fit the calls. */
enum { CALLS = 64, USERS = 8 };

DICE("races");
static char doing[256]; /* printed if a trap ends the test */

struct counts {
    int runs, packs, wrong, users;
};

/* ---- Threads ---- */

static kvmill_plan *plan_call(struct scene *scene, const struct described_case *by, int number) {
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = packs, .pack_count = PACKS, .threads = USERS};
    kvmill_plan *plan = NULL;
    scene_start(scene, described_op(by), by, &dice);
    described_open(scene, number % 2 ? 3 : 0);
    snprintf(doing, sizeof doing, "%s, call %d", by->name, number);
    by->plan(scene, &options, &plan, NULL);
    return plan;
}

static kvmill_pool *pool;

/* Runs a call on the library's own threads, which decide how many of them it is worth. */
static kvmill_status run_on_pool(const kvmill_plan *plan, const struct scene *scene) {
    size_t size = (kvmill_plan_workspace_size(plan) + 63) / 64 * 64;
    FREED void *workspace = aligned_alloc(64, size > 0 ? size : 64);
    return kvmill_run_on(plan, pool, scene->tensors, kvmill_plan_tensor_count(plan), workspace,
                         NULL);
}

/* Whether a call succeeds at all; then other parts must write the same again. */
static bool runs(const kvmill_plan *plan, const struct scene *scene, struct counts *counts) {
    if (run_with_workspace(plan, scene->tensors, USERS, &dice, NULL) != KVMILL_OK)
        return false;
    uint64_t hash = scene_hash(scene);
    counts->runs++;
    counts->packs += plan_says(plan, "(pack ");
    counts->wrong += !scene_is_intact(scene) || scene_run(scene, plan, NULL) != KVMILL_OK ||
                     hash != scene_hash(scene);
    counts->wrong += run_on_pool(plan, scene) != KVMILL_OK || hash != scene_hash(scene);
    return true;
}

/* Copies of a call, each with its own memory and dice. */
struct user {
    struct scene scene;
    struct dice dice;
    kvmill_plan *plan;
    bool good;
};

static void use_plan(void *context, int64_t index) {
    struct user *users = context;
    users[index].good = scene_run(&users[index].scene, users[0].plan, NULL) == KVMILL_OK &&
                        scene_run(&users[index].scene, users[0].plan, NULL) == KVMILL_OK;
}

static void share_plan(struct user *users, const struct described_case *by, int number,
                       struct counts *counts) {
    const struct dice start = dice;
    for (int i = 0; i < USERS; i++) {
        dice = start;
        users[i].plan = plan_call(&users[i].scene, by, number);
        users[i].dice = dice;
        users[i].scene.dice = &users[i].dice;
    }
    if (users[0].plan != NULL && runs(users[0].plan, &users[0].scene, counts)) {
        uint64_t hash = scene_hash(&users[0].scene);
        crew_share(USERS, USERS, use_plan, users);
        for (int i = 0; i < USERS; i++)
            counts->wrong += !users[i].good || scene_hash(&users[i].scene) != hash;
        counts->users += USERS;
    }
    for (int i = 0; i < USERS; i++) {
        kvmill_plan_destroy(users[i].plan);
        described_close(&users[i].scene);
    }
}

static void test_threads(const struct described_case *by) {
    static struct user users[USERS];
    static struct scene scene;
    bool fits = getenv("KVMILL_TEST_THREADS") != NULL; /* then the packs are made for these calls */
    const kvmill_pool_options options = {.struct_size = sizeof options, .sleeps_at_once = 1};
    struct counts counts = {0};
    int calls = fits ? CALLS : few_cases(CALLS);
    must(kvmill_pool_create(3, &options, &pool, NULL) == KVMILL_OK, "no pool");
    for (int i = 0; i < calls; i++)
        if (i % 9 == 0) { /* an even number, then an odd one */
            share_plan(users, by, i, &counts);
        } else {
            OWN_PLAN kvmill_plan *plan = plan_call(&scene, by, i);
            if (plan != NULL)
                runs(plan, &scene, &counts);
            described_close(&scene);
        }
    ok(counts.runs > 0 && counts.users > 0 && counts.wrong == 0 &&
           (counts.packs > 0 || !fits || by->no_kernels),
       "%s: %d runs on %d threads, %d with kernels of packs, %d of a plan that others run, too",
       by->name, counts.runs, (int)USERS, counts.packs, counts.users);
    kvmill_pool_destroy(pool);
}

/* ---- Tensors without elements ---- */

static bool is_empty(const DLTensor *tensor) {
    for (int d = 0; d < tensor->ndim; d++)
        if (tensor->shape[d] == 0)
            return true;
    return false;
}

static int bend_empty(struct scene *scene) {
    static int64_t far[2][MOST_DIMS];
    static DLTensor bent[MOST_TENSORS];
    int count = 0;
    for (int d = 0; d < MOST_DIMS; d++)
        far[0][d] = INT64_MIN, far[1][d] = INT64_MAX;
    for (int i = 0; i < MOST_TENSORS; i++)
        if (scene->tensors[i] != NULL && is_empty(scene->tensors[i])) {
            bent[i] = *scene->tensors[i];
            bent[i].strides = far[i % 2];
            scene->tensors[i] = &bent[i];
            count++;
        }
    return count;
}

/* Tests tensors without elements: a sanitizer sees errors; most calls succeed, the others are
   refused with a reason. */
static void test_empty(const struct described_case *by) {
    static struct scene scene;
    int done = 0, silent = 0, calls = few_cases(CALLS);
    for (int i = 0; i < calls; i++) {
        OWN_PLAN kvmill_plan *plan = NULL;
        kvmill_error error = {""};
        scene_start(&scene, described_op(by), by, &dice);
        scene.may_be_empty = true;
        described_open(&scene, i % 2 ? 2 : 0);
        snprintf(doing, sizeof doing, "%s, empty tensors, call %d", by->name, i);
        kvmill_status status = by->plan(&scene, NULL, &plan, &error);
        bool bent = status == KVMILL_OK && bend_empty(&scene) > 0;
        if (bent)
            status = scene_run(&scene, plan, &error);
        done += bent && status == KVMILL_OK;
        silent += status != KVMILL_OK && error.message[0] == '\0';
        described_close(&scene);
    }
    ok(done > 0 && silent == 0, "%s: %d of %d calls with empty tensors of any strides are done",
       by->name, done, calls);
}

TEST(ops) {
    fence_explain_traps(doing);
    for (const struct described_case *by = described_cases; by->name != NULL; by++) {
        test_threads(by);
        test_empty(by);
    }
}
