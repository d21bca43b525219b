/* Reads and writes NumPy's .npy files (format versions 1 to 3) as DLTensors.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_NPY_H
#define KVMILL_TOOLS_NPY_H

#include <kvmill.h>

#include "../base/error.h"

struct npy {
    DLTensor tensor; /* owns shape, strides and data; strides only if read in Fortran order */
    char descr[16];  /* NumPy's word for the type, such as "<f4" */
    bool is_view;    /* does not own its data */
};

/* Reads a file of little-endian numbers, bool or complex.  Release with npy_free. */
bool npy_read(const char *path, struct npy *npy, struct error *error);

/* Writes row-major data.  The file is written completely or not at all. */
bool npy_write(const char *path, const struct npy *npy, struct error *error);

/* Makes an array of the type and shape of `model`, row-major, with its own data. */
bool npy_like(const struct npy *model, struct npy *npy, struct error *error);

/* Makes an array of zeros.  The type, or the unsigned integers that carry it, must have whole
   bytes. */
bool npy_make(DLDataType dtype, const int64_t *dims, int rank, struct npy *npy,
              struct error *error);
void npy_free(struct npy *npy);

/* Copies elements of whole bytes to an array of the same shape.  Both may have any strides. */
void npy_copy(const struct npy *from, struct npy *to);

/* Returns the size of the data in bytes. */
size_t npy_bytes(const struct npy *npy);

#endif
