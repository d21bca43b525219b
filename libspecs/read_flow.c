/* Reads flow files as kvmill_flow.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "../ops/fail.h"
#include "../spec/flow_spec.h"
#include "reading.h"

/* Reads a flow; refuses any other spec. */
static bool read_spec(const struct json_place *root, struct spec_list *list, struct error *error) {
    struct json_place member = json_member(root, "op");
    const char *op;
    if (!json_get_string(&member, &op, error))
        return false;
    if (strcmp(op, "flow") != 0)
        return json_fail(error, &member, "is \"%.64s\"; accepted: \"flow\"", op);
    return spec_read(root, list, error) && spec_check(&list->items[0], error);
}

/* Takes the flow away from the only spec of the list. */
static const kvmill_flow *take_flow(struct spec_list *list) {
    const kvmill_flow *flow = flow_of_spec(&list->items[0]);
    list->items[0].family = NULL;
    return flow;
}

static bool read_text(const char *name, const char *text, size_t length, const kvmill_flow **flow,
                      struct error *error) {
    struct spec_list list = {0};
    json_t *document = json_parse(name, text, length, error);
    if (document == NULL)
        return false;
    struct json_place root = json_root(name, document);
    bool done = read_spec(&root, &list, error);
    if (done)
        *flow = take_flow(&list);
    spec_list_free(&list);
    json_decref(document);
    return done;
}

kvmill_status kvmill_read_flow(const char *name, const char *text, size_t length,
                               const kvmill_flow **flow, kvmill_error *error) {
    struct error reason = {0};
    if (flow == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "flow is NULL; accepted: a pointer to fill");
    *flow = NULL;
    if (text == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "text is NULL; accepted: a flow file's text");
    locale_t before = reading_begin();
    bool done = read_text(name != NULL ? name : "flow", text, length, flow, &reason);
    reading_end(before);
    return reading_status(done, &reason, error);
}

void kvmill_free_flow(const kvmill_flow *flow) {
    if (flow != NULL)
        flow_spec_free(flow);
}
