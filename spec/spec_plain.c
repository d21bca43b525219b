/* Specs of ops that their description in defs/ defines completely: a struct of attributes, and
   tensors given by their shapes.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "../ops/attributes.h"
#include "spec_keys.h"

enum { MOST_TENSORS = 24 };

struct plain_spec {
    void *part[OP_PARTS];
    DLTensor tensor[MOST_TENSORS]; /* by index; no shape if the spec has none */
};

static void release(struct spec *spec) {
    if (spec->plain == NULL)
        return;
    for (int i = 0; i < OP_PARTS; i++)
        free(spec->plain->part[i]);
    for (int i = 0; i < MOST_TENSORS; i++)
        free(spec->plain->tensor[i].shape);
    free(spec->plain);
}

static bool begin_plain(struct spec *spec, struct error *error) {
    bool done = (spec->plain = calloc(1, sizeof *spec->plain)) != NULL;
    for (int i = 0; done && i < OP_PARTS && spec->op->parts[i] != NULL; i++)
        done = (spec->plain->part[i] = calloc(1, spec->op->parts[i]->size)) != NULL;
    if (!done)
        return out_of_memory(error);
    spec_init_parts(spec);
    return true;
}

static void *plain_part(struct spec *spec, int number) {
    return spec->plain->part[number];
}

static DLTensor *tensor(struct spec *spec, int index) {
    return &spec->plain->tensor[index];
}

static bool check_plain(const struct spec *spec, struct error *error) {
    kvmill_error reason;
    for (int i = 0; i < OP_PARTS && spec->op->parts[i] != NULL; i++)
        if (kvmill_check_attributes(spec->op, spec->op->parts[i], spec->plain->part[i], &reason) !=
            KVMILL_OK)
            return fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
    return true;
}

/* Gives the tensors the types that the description names. */
static void set_types(struct spec *spec) {
    const struct op *op = spec->op;
    void *const *parts = spec->plain->part;
    for (int i = 0; i < op->tensor_count; i++)
        spec->plain->tensor[op->tensors[i].index].dtype =
            kvmill_op_type(op, parts[0], kvmill_op_types(op) == op->parts[0] ? parts[0] : parts[1],
                           &op->tensors[i]);
}

static bool complete_plain(const struct json_place *place, struct spec *spec, struct error *error) {
    (void)place;
    set_types(spec);
    return check_plain(spec, error);
}

const struct spec_family plain_specs = {
    .begin = begin_plain,
    .free = release,
    .part = plain_part,
    .tensor = tensor,
    .complete = complete_plain,
    .check = check_plain,
};
