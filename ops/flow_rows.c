/* Programs that write rows of K or V: checks that the cache's format can store them.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>

#include "../defs/format.h"
#include "flow_check.h"

static double larger(double a, double b) {
    return a > b ? a : b;
}

static double power_of_two(int exponent) {
    double power = 1;
    for (int i = 0; i < exponent; i++)
        power *= 2;
    for (int i = 0; i > exponent; i--)
        power /= 2;
    return power;
}

/* A magnitude that some element of an op's result has, whatever its inputs are; 0: unknown. */
static double known_magnitude(const struct kvmill_flow_step *step) {
    switch (step->code) {
    case KVMILL_FLOW_FILL:
        return fabs((double)step->alpha);
    case KVMILL_FLOW_MASK_SLICE:
        return larger(fabs((double)step->alpha), fabs((double)step->beta));
    case KVMILL_FLOW_WHERE_EQUAL:
    case KVMILL_FLOW_WHERE_NOT_EQUAL:
    case KVMILL_FLOW_WHERE_GREATER:
    case KVMILL_FLOW_WHERE_GREATER_EQUAL:
    case KVMILL_FLOW_WHERE_LESS:
    case KVMILL_FLOW_WHERE_LESS_EQUAL:
        return 1e30;
    default:
        return 0;
    }
}

/* The largest number of a type of floats. */
static double largest_float(int element) {
    const struct kvmill_float_parts *real = &kvmill_format_parts(element)->real;
    int top = (1 << (real->exponent - 1)) - 1 + real->finite;
    return (2 - (real->finite ? 2 : 1) * power_of_two(-real->mantissa)) * power_of_two(top);
}

/* The largest number that a row can have if it is written from activations. */
static double largest_held(const struct kvmill_format *format, int activation) {
    const struct kvmill_format_parts *parts = kvmill_format_parts(format->element);
    int scale = parts->scales == KVMILL_SCALES_IN_BLOCKS ? KVMILL_F16
                : parts->scales == KVMILL_SCALES_IN_ROWS ? KVMILL_F32
                                                         : format->scale;
    double held = kvmill_is_plain(format->element)
                      ? largest_float(format->element)
                      : largest_float(scale) * kvmill_format_most_code(parts);
    return held < largest_float(activation) ? held : largest_float(activation);
}

static kvmill_status check_rows_shape(struct checker *checker, const struct kvmill_flow_step *step,
                                      const struct kvmill_flow_shape *shape) {
    const struct kvmill_flow_shape *rows =
        &checker->problem->programs[KVMILL_CACHE_PROGRAM].values[step->side].shape;
    struct kvmill_flow_shape_text words;
    if (shape->rows == rows->rows && shape->columns == rows->columns)
        return KVMILL_OK;
    return REFUSE(checker, SHAPE, "%s gives %s, \"%s\" is [%" PRId64 ", %" PRId64 "]",
                  kvmill_flow_kind_at(step->code)->name, kvmill_flow_shape_words(shape, &words),
                  step->side ? "v" : "k", rows->rows, rows->columns);
}

kvmill_status kvmill_flow_check_rows(struct checker *checker, const struct kvmill_flow_step *step,
                                     const struct kvmill_flow_shape *shape) {
    const struct kvmill_cache_geometry *geometry = &checker->problem->geometry;
    const struct kvmill_format *format = step->side ? &geometry->value : &geometry->key;
    const char *name = step->side ? "v" : "k";
    kvmill_status status = check_rows_shape(checker, step, shape);
    if (status != KVMILL_OK)
        return status;
    if (checker->problem->incremental)
        return REFUSE(checker, ATTRIBUTE,
                      "writes to \"%s\": rows of a growing page would be written again with every "
                      "token; accepted with summary \"on_complete\"",
                      name);
    if (step->side && geometry->value_view)
        return REFUSE(checker, ATTRIBUTE, "writes to \"v\", a view of keys; accepted: \"k\"");
    if (checker->problem->writes[step->side])
        return REFUSE(checker, ATTRIBUTE, "\"%s\" is written a second time", name);
    double held = largest_held(format, geometry->activation), known = known_magnitude(step);
    if (known > held)
        return REFUSE(checker, ATTRIBUTE,
                      "%s writes %g to \"%s\", whose rows are %s from %s; accepted: %g at most",
                      kvmill_flow_kind_at(step->code)->name, known, name,
                      kvmill_format_parts(format->element)->word,
                      kvmill_format_parts(geometry->activation)->word, held);
    return KVMILL_OK;
}
