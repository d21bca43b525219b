/* Fields whose rows append quantises, and the fields for their scales.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "../defs/dtype.h"
#include "flow_check.h"
#include "flow_tensors.h"
#include "refuse.h"

kvmill_status kvmill_flow_check_codes(struct checker *checker, int i) {
    const kvmill_flow_field *field = &checker->flow->fields[i];
    int element = kvmill_element_of(field->dtype);
    bool is_float8 = kvmill_is_plain(element) && !kvmill_is_activation(element);
    struct kvmill_type_text words;
    if (!is_float8 && element != KVMILL_I8)
        return REFUSE(checker, DTYPE,
                      "dtype is %s; accepted with scales: float8e4m3fn, float8e5m2, int8",
                      kvmill_type_words(field->dtype, &words));
    if (!kvmill_flow_is_appended(checker->flow, i))
        return REFUSE(checker, ATTRIBUTE, "has scales \"%s\"; accepted of fields that are appended",
                      kvmill_flow_scales_of(checker->flow, i));
    return KVMILL_OK;
}

/* Check that a field can hold scales: float32, and written by nothing else. */
static kvmill_status check_place(const struct checker *checker, const char *name, int scales) {
    const struct kvmill_flow_field_data *place = &checker->problem->fields[scales];
    if (kvmill_flow_is_appended(checker->flow, scales))
        return REFUSE(checker, ATTRIBUTE,
                      "scales is \"%s\", whose rows come with tokens; accepted: a field that "
                      "append alone fills",
                      name);
    if (place->of_codes)
        return REFUSE(checker, ATTRIBUTE,
                      "scales is \"%s\", which has those of a field before; accepted: one for "
                      "each field",
                      name);
    if (place->element != KVMILL_F32)
        return REFUSE(checker, DTYPE, "scales is \"%s\", of %s; accepted: float32", name,
                      kvmill_dtype_name(checker->flow->fields[scales].dtype));
    return KVMILL_OK;
}

/* Check that rows and heads agree, and that groups are whole. */
static kvmill_status check_shape(const struct checker *checker, const char *name, int i) {
    const struct kvmill_flow_field_data *codes = &checker->problem->fields[i];
    const struct kvmill_flow_field_data *place = &checker->problem->fields[codes->scales];
    if (place->rows != codes->rows || codes->columns % place->columns != 0)
        return REFUSE(checker, SHAPE,
                      "scales is \"%s\", [%" PRId64 ", %" PRId64 "]; accepted: [%" PRId64
                      ", a divisor of %" PRId64 "]",
                      name, place->rows, place->columns, codes->rows, codes->columns);
    if (place->heads != codes->heads)
        return REFUSE(checker, ATTRIBUTE,
                      "scales is \"%s\", of %" PRId64 " heads; accepted: %" PRId64, name,
                      place->heads, codes->heads);
    return KVMILL_OK;
}

static kvmill_status check_field(struct checker *checker, int i) {
    const char *name = kvmill_flow_scales_of(checker->flow, i);
    struct kvmill_flow_field_data *codes = &checker->problem->fields[i];
    set_place(checker, "fields", i);
    codes->powers = checker->flow->powers >> i & 1;
    if (name == NULL && codes->powers)
        return REFUSE(checker, ATTRIBUTE, "powers_of_two is true; accepted of a field with scales");
    if (name == NULL)
        return KVMILL_OK;
    int scales = kvmill_flow_find_field(checker->flow, name);
    if (scales < 0)
        return REFUSE(checker, ATTRIBUTE, "scales is \"%.60s\"; accepted: the name of a field",
                      name);
    kvmill_status status = check_place(checker, name, scales);
    if (status != KVMILL_OK)
        return status;
    codes->scales = scales;
    checker->problem->fields[scales].of_codes = checker->written[scales] = true;
    return check_shape(checker, name, i);
}

/* A bit for each field. */
static kvmill_status check_powers(struct checker *checker) {
    const kvmill_flow *flow = checker->flow;
    set_place(checker, "powers", -1);
    if (flow->powers >= 0 && flow->powers >> flow->field_count == 0)
        return KVMILL_OK;
    return REFUSE(checker, ATTRIBUTE, "is %" PRId64 "; accepted: bits of the %zu fields",
                  flow->powers, flow->field_count);
}

kvmill_status kvmill_flow_check_scales(struct checker *checker) {
    kvmill_status status = check_powers(checker);
    for (int i = 0; status == KVMILL_OK && i < checker->problem->field_count; i++)
        status = check_field(checker, i);
    return status;
}
