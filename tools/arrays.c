/* Gives arrays from files the types that a spec states.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "../defs/dtype.h"
#include "../ops/extent.h"
#include "../ops/fail.h"
#include "run_op.h"

bool array_require(const char *name, const struct npy *npy, struct error *error) {
    return is_given(npy) || fail(error, EXIT_USER, "no %s; accepted: --in %s=FILE.npy", name, name);
}

/* Whether the array has the type `wanted` or carries it: a type that NumPy lacks is stored as
   unsigned integers of its width, and two 4-bit elements in a uint8. */
static bool carries(const struct npy *npy, DLDataType wanted) {
    int bits = kvmill_dtype_bits(wanted);
    DLDataType carrier = {kDLUInt, (uint8_t)(bits == 4 ? 8 : bits), 1};
    return kvmill_dtype_equal(npy->tensor.dtype, wanted) ||
           (kvmill_dtype_equal(npy->tensor.dtype, carrier)) ||
           (bits == 128 && strcmp(npy->descr, "<c16") == 0);
}

static bool is_known(const DLTensor *spec) {
    for (int d = 0; d < spec->ndim; d++)
        if (spec->shape[d] < 0)
            return false;
    return true;
}

static bool unpack_dims(const char *name, const DLTensor *spec, struct npy *npy,
                        struct error *error) {
    DLTensor *array = &npy->tensor;
    if (array->strides != NULL)
        return fail(error, EXIT_USER, "%s: Fortran order; accepted for 4-bit types: row-major",
                    name);
    if (spec != NULL && spec->shape != NULL && is_known(spec)) {
        if ((kvmill_element_count(spec) + 1) / 2 != kvmill_element_count(array))
            return fail(error, EXIT_USER,
                        "%s: holds %" PRId64 " bytes; the spec's shape needs %" PRId64, name,
                        kvmill_element_count(array), (kvmill_element_count(spec) + 1) / 2);
        return spec_set_shape(array, spec->shape, spec->ndim, error);
    }
    bool overflow = false;
    if (array->ndim > 0)
        array->shape[array->ndim - 1] = kvmill_times(array->shape[array->ndim - 1], 2, &overflow);
    return !overflow || fail(error, EXIT_USER, "%s: the shape is too large", name);
}

bool array_adopt(const char *name, DLDataType dtype, const DLTensor *spec, struct npy *npy,
                 struct error *error) {
    if (!carries(npy, dtype))
        return fail(error, EXIT_USER,
                    "%s has type %s; accepted: %s, or unsigned integers of its width", name,
                    npy->descr, kvmill_dtype_name(dtype));
    if (kvmill_dtype_bits(dtype) == 4 && !unpack_dims(name, spec, npy, error))
        return false;
    npy->tensor.dtype = dtype;
    return true;
}

static bool fits_dims(const DLTensor *spec, const DLTensor *array) {
    bool fits = spec->ndim == array->ndim;
    for (int d = 0; fits && d < spec->ndim; d++)
        fits = spec->shape[d] == KVMILL_DYNAMIC || spec->shape[d] == array->shape[d];
    return fits;
}

static bool refuse_shape(const char *name, const DLTensor *spec, const DLTensor *array,
                         struct error *error) {
    struct kvmill_shape_text have, want;
    return fail(error, EXIT_USER, "%s: the array's shape is %s; accepted: the spec's, %s", name,
                kvmill_shape_words(array, &have), kvmill_shape_words(spec, &want));
}

bool array_reconcile(const char *name, DLTensor *spec, struct npy *npy, struct error *error) {
    if (!array_adopt(name, spec->dtype, spec, npy, error))
        return false;
    if (spec->shape != NULL && !fits_dims(spec, &npy->tensor))
        return refuse_shape(name, spec, &npy->tensor, error);
    return spec_set_shape(spec, npy->tensor.shape, npy->tensor.ndim, error);
}

bool array_is_integer(const char *name, DLDataType type, const struct npy *npy,
                      struct error *error) {
    return kvmill_dtype_equal(npy->tensor.dtype, type) ||
           fail(error, EXIT_USER, "%s has type %s; accepted: %s, which is <i%d", name, npy->descr,
                kvmill_dtype_name(type), type.bits / 8);
}

/* Makes the output file of an array that is updated in place.  The data goes back to the file in
   the order that it has in memory, so the array must be row-major. */
bool array_keep(const char *name, const struct npy *npy, struct npy *file, struct error *error) {
    return npy->tensor.strides == NULL
               ? npy_like(npy, file, error)
               : fail(error, EXIT_USER,
                      "%s: Fortran order; accepted for what is updated in place: row-major", name);
}
