/* Reads an array from a file.

   SPDX-License-Identifier: Apache-2.0 */
#include "../../tools/npy.h"
#include "fuzz.h"

/* Requires strides to stay inside the array. */
static void check_strides(const struct npy *npy) {
    int64_t last = 0;
    for (int d = 0; d < npy->tensor.ndim && npy_bytes(npy) > 0; d++)
        last += npy->tensor.strides ? (npy->tensor.shape[d] - 1) * npy->tensor.strides[d] : 0;
    fuzz_require(npy_bytes(npy) == 0 ||
                     (size_t)last < npy_bytes(npy) / (npy->tensor.dtype.bits / 8),
                 "the last element is number %lld of %zu bytes", (long long)last, npy_bytes(npy));
}

void fuzz_npy(const unsigned char *data, size_t size) {
    struct npy npy;
    struct error error = {0};
    if (fuzz_accepts(npy_read(fuzz_file(0, data, size), &npy, &error), &error)) {
        check_strides(&npy);
        npy_free(&npy);
    }
}
