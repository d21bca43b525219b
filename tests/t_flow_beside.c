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

/* What is wrong with the second field. */
struct wrong {
    const char *what, *message;
    kvmill_status status;
    void (*bend)(struct flow_beside *beside);
};

static void begin_later(struct flow_beside *beside) {
    beside->view[1].byte_offset += 2;
}

static void lose_a_page(struct flow_beside *beside) {
    beside->dims[1][0]--;
}

static void step_over_pages(struct flow_beside *beside) {
    bool by_page = beside->strides[1][0] > beside->strides[1][1];
    beside->strides[1][0] += 2;
    beside->strides[1][1] *= by_page ? 1 : 2; /* no two elements in one place */
}

static void step_over_heads(struct flow_beside *beside) {
    beside->strides[1][1] += 2;
}

static void step_over_columns(struct flow_beside *beside) {
    beside->strides[1][3] = 2;
}

static void stay_apart(struct flow_beside *beside) {
    beside->view[1] = beside->apart[1];
}

static void lie_in_order(struct flow_beside *beside) {
    beside->view[0].strides = NULL;
}

static const struct wrong wrongs[] = {
    {"that begins elsewhere", "kmin begins 66 bytes after kmax; accepted, where fields lie beside",
     KVMILL_E_ALIAS, begin_later},
    {"of fewer pages", "kmin has ", KVMILL_E_SHAPE, lose_a_page},
    {"whose pages are further apart",
     "in dim 0; accepted, where fields lie beside each other: ", KVMILL_E_STRIDE, step_over_pages},
    {"whose heads are further apart", "in dim 1; accepted", KVMILL_E_STRIDE, step_over_heads},
    {"whose columns are further apart", "kmin has stride 2 in dim 3; accepted", KVMILL_E_STRIDE,
     step_over_columns},
    {"in memory of its own", "kmin begins ", KVMILL_E_ALIAS, stay_apart},
    {"after one without strides", "kmax has stride ", KVMILL_E_STRIDE, lie_in_order},
};

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
    wrong->bend(&beside);
    kvmill_status status = run(&step, kind, &error);
    bool right = status == wrong->status && strstr(error.message, wrong->message) != NULL;
    if (!right)
        diag("%s: %s", kvmill_status_name(status), error.message);
    memcpy(beside.strides, before.strides, sizeof before.strides);
    memcpy(beside.dims, before.dims, sizeof before.dims);
    memcpy(beside.view, before.view, sizeof before.view);
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
