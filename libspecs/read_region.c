/* Reads regions of scatters, and element types, from StableHLO text.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "../ops/fail.h"
#include "../spec/stablehlo_mlir.h"
#include "reading.h"

/* A region with the problem that it points to. */
struct read_region {
    kvmill_region region; /* first: the caller's pointer is to it */
    struct scatter_problem problem;
};

static bool read_text(const char *text, size_t length, size_t inputs, const char *const *captures,
                      size_t capture_count, const kvmill_region **region, struct error *error) {
    struct read_region *read = calloc(1, sizeof *read);
    if (read == NULL)
        return out_of_memory(error);
    read->problem.count = (int)inputs;
    bool done =
        region_of_text("region", text, length, captures, capture_count, &read->problem, error);
    read->region = region_view(&read->problem);
    if (done)
        *region = &read->region;
    else
        free(read);
    return done;
}

static kvmill_status check_arguments(const char *text, size_t inputs, const char *const *captures,
                                     size_t capture_count, kvmill_error *error) {
    if (text == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "text is NULL; accepted: a region's text");
    if (inputs < 1 || inputs > KVMILL_MOST_INPUTS)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE, "inputs is %zu; accepted: 1 to %d", inputs,
                           (int)KVMILL_MOST_INPUTS);
    if (capture_count > KVMILL_MOST_CAPTURES)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE, "capture_count is %zu; accepted: at most %d",
                           capture_count, (int)KVMILL_MOST_CAPTURES);
    for (size_t i = 0; i < capture_count; i++)
        if (captures == NULL || captures[i] == NULL)
            return kvmill_fail(error, KVMILL_E_NULL,
                               "captures[%zu] is NULL; accepted: \"tensor<f32>\" and the like", i);
    return KVMILL_OK;
}

kvmill_status kvmill_read_region(const char *text, size_t length, size_t inputs,
                                 const char *const *captures, size_t capture_count,
                                 const kvmill_region **region, kvmill_error *error) {
    struct error reason = {0};
    if (region == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "region is NULL; accepted: a pointer to fill");
    *region = NULL;
    kvmill_status status = check_arguments(text, inputs, captures, capture_count, error);
    if (status != KVMILL_OK)
        return status;
    locale_t before = reading_begin();
    bool done = read_text(text, length, inputs, captures, capture_count, region, &reason);
    reading_end(before);
    return reading_status(done, &reason, error);
}

void kvmill_free_region(const kvmill_region *region) {
    free((void *)(uintptr_t)region);
}

kvmill_status kvmill_read_element_type(const char *text, size_t length,
                                       kvmill_element_type *element, kvmill_error *error) {
    struct error reason = {0};
    kvmill_element_type read;
    if (text == NULL || element == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "%s is NULL; accepted: %s",
                           text == NULL ? "text" : "element",
                           text == NULL ? "an element type's text" : "a struct to fill");
    locale_t before = reading_begin();
    bool done = mlir_read_element("element type", text, length, &read, &reason);
    reading_end(before);
    if (done)
        *element = read;
    return reading_status(done, &reason, error);
}
