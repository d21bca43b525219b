/* Every op on tensors without elements, whose strides nobody steps along: they may be any.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "common.h"
#include "described.h"

enum { CALLS = 60 };

/* A tensor with strides of its own. */
struct bent {
    DLTensor dl;
    int64_t strides[MOST_DIMS];
};

static struct dice dice;
static char doing[256]; /* for whoever reads of a trap */

static const struct op *op_of(const struct described_case *by) {
    for (int i = 0; i < OP_FLOW_STEPS; i++)
        if (strcmp(kvmill_flow_steps[i].name, by->name) == 0)
            return &kvmill_flow_steps[i];
    return kvmill_op_by_name(by->name);
}

static bool is_empty(const DLTensor *tensor) {
    for (int d = 0; d < tensor->ndim; d++)
        if (tensor->shape[d] == 0)
            return true;
    return false;
}

static int bend_empty(struct scene *scene) {
    static struct bent bent[MOST_TENSORS];
    int count = 0;
    for (int at = 0; at < MOST_TENSORS; at++) {
        const DLTensor *tensor = scene->tensors[at];
        if (tensor == NULL || !is_empty(tensor))
            continue;
        bent[at].dl = *tensor;
        bent[at].dl.strides = bent[at].strides;
        for (int d = 0; d < tensor->ndim; d++)
            bent[at].strides[d] = at % 2 ? INT64_MIN : INT64_MAX;
        scene->tensors[at] = &bent[at].dl;
        count++;
    }
    return count;
}

/* A sanitizer sees what is wrong; most calls are done, the others refused with a reason. */
static void test_op(const struct described_case *by) {
    static struct scene scene;
    const struct op *op = op_of(by);
    int done = 0, silent = 0;
    for (int i = 0; i < CALLS; i++) {
        kvmill_plan *plan = NULL;
        kvmill_error error = {""};
        scene_start(&scene, op, by, &dice);
        scene.may_be_empty = true;
        described_open(&scene, i % 2 ? 2 : 0);
        snprintf(doing, sizeof doing, "%s, empty tensors, call %d", op->name, i);
        kvmill_status status = by->plan(&scene, NULL, &plan, &error);
        bool bent = status == KVMILL_OK && bend_empty(&scene) > 0;
        if (bent)
            status = scene_run(&scene, plan, &error);
        done += bent && status == KVMILL_OK;
        silent += status != KVMILL_OK && error.message[0] == '\0';
        kvmill_plan_destroy(plan);
        described_close(&scene);
    }
    ok(done > 0 && silent == 0, "%s: %d of %d calls with empty tensors of any strides are done",
       op->name, done, (int)CALLS);
}

int main(void) {
    dice = dice_for(dice_seed(), "empty tensors");
    fence_explain_traps(doing);
    for (const struct described_case *by = described_cases; by->name != NULL; by++)
        test_op(by);
    return done_testing();
}
