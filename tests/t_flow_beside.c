/* Fields that lie beside each other: what a run says of views that lie otherwise, before it writes
   anything.  That steps on such views do what they should is held by the tests of steps.

   SPDX-License-Identifier: Apache-2.0 */
#include "common.h"
#include "flow_beside.h"
#include "flow_step.h"

enum { FIRST = KVMILL_FLOW_FIELDS };

DICE("beside");

static void open_step(struct flow_step *step, const char *layout) {
    char settings[128];
    snprintf(settings, sizeof settings, "start=127,47,200 topk_val=4 field=float16%s%s",
             layout ? " field_layout=" : "", layout ? layout : "");
    flow_step_set(step, settings);
    flow_step_open(step, &dice);
}

/* What is wrong with the second field, or, IN_ORDER, with the first. */
static const struct wrong {
    const char *what, *message;
    kvmill_status status;
    enum { OFFSET, DIM, STRIDE, APART, IN_ORDER } how;
    int dim, by;
} wrongs[] = {
    {"that begins elsewhere", "kmin begins 66 bytes after kmax; accepted, where fields lie beside",
     KVMILL_E_ALIAS, OFFSET, 0, 0},
    {"of fewer pages", "kmin has ", KVMILL_E_SHAPE, DIM, 0, 0},
    {"whose pages are further apart",
     "in dim 0; accepted, where fields lie beside each other: ", KVMILL_E_STRIDE, STRIDE, 0, 2},
    {"whose heads are further apart", "in dim 1; accepted", KVMILL_E_STRIDE, STRIDE, 1, 2},
    {"whose columns are further apart", "kmin has stride 2 in dim 3; accepted", KVMILL_E_STRIDE,
     STRIDE, 3, 1},
    {"in memory of its own", "kmin begins ", KVMILL_E_ALIAS, APART, 0, 0},
    {"after one without strides", "kmax has stride ", KVMILL_E_STRIDE, IN_ORDER, 0, 0},
};

static void bend(struct flow_beside *beside, const struct wrong *wrong) {
    int64_t *strides = beside->strides[1];
    bool inner = wrong->dim == 0 && strides[0] < strides[1];
    if (wrong->how == OFFSET)
        beside->view[1].byte_offset += 2;
    else if (wrong->how == DIM)
        beside->dims[1][wrong->dim]--;
    else if (wrong->how == STRIDE)
        strides[wrong->dim] += wrong->by, strides[1] *= inner ? 2 : 1; /* no two in one place */
    else if (wrong->how == APART)
        beside->view[1] = beside->apart[1];
    else
        beside->view[0].strides = NULL;
}

/* A run on the tensors as they are. */
static kvmill_status run(struct flow_step *step, enum flow_step_kind kind, kvmill_error *error) {
    kvmill_plan *plan = NULL;
    kvmill_status status = flow_step_plan(step, kind, NULL, &plan, error);
    if (status != KVMILL_OK)
        bail_out("%s", error->message);
    status = run_with_workspace(plan, step->given, 0, &dice, error);
    kvmill_plan_destroy(plan);
    return status;
}

static void test_wrong(const char *layout, const struct wrong *wrong, enum flow_step_kind kind) {
    struct flow_step step;
    struct flow_beside beside;
    kvmill_error error;
    open_step(&step, layout);
    flow_step_give(&step, kind, true);
    flow_step_keep(&step, &dice);
    flow_beside_open(&beside, layout, step.given + FIRST, FLOW_STEP_FIELDS, &dice);
    const struct flow_beside before = beside;
    bend(&beside, wrong);
    kvmill_status status = run(&step, kind, &error);
    bool right = status == wrong->status && strstr(error.message, wrong->message) != NULL;
    if (!right)
        diag("%s: %s", kvmill_status_name(status), error.message);
    beside = before;
    right = flow_beside_close(&beside) && right;
    ok(right && flow_step_is_kept(&step), "%s, %s: a field %s", layout,
       kind == STEP_APPEND ? "append" : "index", wrong->what);
    flow_step_close(&step);
}

/* A flow whose fields are apart does not take views. */
TEST(apart) {
    struct flow_step step;
    struct flow_beside beside;
    kvmill_error error;
    open_step(&step, NULL);
    flow_step_give(&step, STEP_INDEX, true);
    flow_beside_open(&beside, "page", step.given + FIRST, FLOW_STEP_FIELDS, &dice);
    kvmill_status status = run(&step, STEP_INDEX, &error);
    ok(status == KVMILL_E_STRIDE && strstr(error.message, "kmax has strides; accepted: row-major"),
       "apart: views of one piece");
    flow_beside_close(&beside);
    flow_step_close(&step);
}

TEST(views_that_lie_otherwise) {
    static const char *const layouts[] = {"page", "head"};
    for (size_t l = 0; l < COUNT(layouts); l++)
        for (size_t i = 0; i < COUNT(wrongs); i++) {
            test_wrong(layouts[l], &wrongs[i], STEP_INDEX);
            test_wrong(layouts[l], &wrongs[i], STEP_APPEND);
        }
}
