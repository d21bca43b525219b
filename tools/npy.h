/* NumPy's .npy files (format versions 1 to 3), as DLTensors.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_NPY_H
#define KVMILL_TOOLS_NPY_H

#include <kvmill.h>

#include "../base/error.h"

struct npy {
    DLTensor tensor; /* owns shape, strides and data; a file's has strides in Fortran order alone */
    char descr[16];  /* NumPy's word for the type, "<f4" */
    bool is_view;    /* its data is another's */
};

/* Little-endian numbers, bool and complex.  Release with npy_free. */
bool npy_read(const char *path, struct npy *npy, struct error *error);

/* Write row-major data; the file is there whole or not at all. */
bool npy_write(const char *path, const struct npy *npy, struct error *error);

/* Like `model`, row-major, with data of its own. */
bool npy_like(const struct npy *model, struct npy *npy, struct error *error);

/* Zeros of that type, or of unsigned integers that carry it, of whole bytes. */
bool npy_make(DLDataType dtype, const int64_t *dims, int rank, struct npy *npy,
              struct error *error);
void npy_free(struct npy *npy);

/* The elements, of whole bytes, to an array of the same shape, both with any strides. */
void npy_copy(const struct npy *from, struct npy *to);

/* Bytes of the data. */
size_t npy_bytes(const struct npy *npy);

#endif
