/* SPDX-License-Identifier: Apache-2.0 */
#include "npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../base/input.h"
#include "../base/output.h"
#include "../base/product.h"
#include "../defs/dtype.h"
#include "../ops/element.h"
#include "../ops/extent.h"

static const char magic[] = "\x93NUMPY";

enum { MOST_DIMS = 64, LARGEST_HEADER = 1 << 16, LAST_VERSION = 3 };

/* ---- Types ---- */

static const struct kvmill_dtype *dtype_of(const char *descr) {
    const struct kvmill_dtype *dtype;
    for (size_t i = 0; (dtype = kvmill_dtype_at(i)) != NULL; i++)
        if (dtype->numpy != NULL && strcmp(dtype->numpy, descr) == 0)
            return dtype;
    return NULL;
}

size_t npy_bytes(const struct npy *npy) {
    return (size_t)kvmill_dtype_bytes(npy->tensor.dtype, kvmill_element_count(&npy->tensor));
}

/* ---- The header: a Python dict with descr, fortran_order, shape ---- */

static const char *value_of(const char *header, const char *key) {
    const char *at = strstr(header, key);
    if (at == NULL)
        return NULL;
    at += strlen(key);
    return at + strspn(at, " :");
}

static bool parse_descr(const char *header, struct npy *npy) {
    const char *at = value_of(header, "'descr'");
    if (at == NULL || *at != '\'')
        return false;
    size_t length = strcspn(++at, "'");
    if (length >= sizeof npy->descr)
        return false;
    memcpy(npy->descr, at, length);
    npy->descr[length] = '\0';
    return true;
}

static bool parse_shape(const char *header, struct npy *npy) {
    const char *at = value_of(header, "'shape'");
    int rank = 0;
    if (at == NULL || *at++ != '(')
        return false;
    for (at += strspn(at, " "); *at != ')'; at += strspn(at, ", ")) {
        char *end;
        errno = 0;
        long long dim = strtoll(at, &end, 10);
        if (end == at || dim < 0 || errno != 0 || rank == MOST_DIMS)
            return false;
        npy->tensor.shape[rank++] = dim;
        at = end;
    }
    npy->tensor.ndim = rank;
    return true;
}

static bool set_fortran_strides(struct npy *npy) {
    int64_t stride = 1, *strides = malloc((size_t)(npy->tensor.ndim + 1) * sizeof *strides);
    bool overflow = false; /* impossible: the data fits in memory */
    if (strides == NULL)
        return false;
    for (int d = 0; d < npy->tensor.ndim; d++) {
        strides[d] = stride;
        stride = kvmill_times(stride, npy->tensor.shape[d], &overflow);
    }
    npy->tensor.strides = strides;
    return true;
}

static bool parse_order(const char *header, bool *fortran) {
    const char *at = value_of(header, "'fortran_order'");
    *fortran = at != NULL && strncmp(at, "True", 4) == 0;
    return at != NULL && (*fortran || strncmp(at, "False", 5) == 0);
}

static bool fits_memory(const struct npy *npy) {
    int64_t bytes = npy->tensor.dtype.bits / 8;
    return product_fits(npy->tensor.shape, npy->tensor.ndim, &bytes);
}

static bool parse_header(const char *path, const char *header, struct npy *npy,
                         struct error *error) {
    bool fortran;
    npy->tensor.shape = malloc(MOST_DIMS * sizeof *npy->tensor.shape);
    if (npy->tensor.shape == NULL)
        return out_of_memory(error);
    if (!parse_descr(header, npy) || !parse_shape(header, npy) || !parse_order(header, &fortran))
        return fail(error, EXIT_USER, "%s: damaged header; accepted: a .npy file", path);
    const struct kvmill_dtype *dtype = dtype_of(npy->descr);
    if (dtype == NULL)
        return fail(error, EXIT_USER,
                    "%s: type %s; accepted: little-endian integers, floats, complex and bool", path,
                    npy->descr);
    npy->tensor.dtype = dtype->dl;
    npy->tensor.device.device_type = kDLCPU;
    if (!fits_memory(npy))
        return fail(error, EXIT_USER, "%s: the shape is too large", path);
    return !fortran || set_fortran_strides(npy) || out_of_memory(error);
}

/* ---- Reading ---- */

static bool read_header(FILE *stream, char header[LARGEST_HEADER + 1]) {
    unsigned char start[12];
    if (fread(start, 1, 10, stream) != 10 || memcmp(start, magic, 6) != 0)
        return false;
    size_t length = start[8] | (size_t)start[9] << 8;
    if (start[6] < 1 || start[6] > LAST_VERSION)
        return false;
    if (start[6] > 1) {
        if (fread(start + 10, 1, 2, stream) != 2)
            return false;
        length |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    }
    if (length > LARGEST_HEADER || fread(header, 1, length, stream) != length)
        return false;
    header[length] = '\0';
    return true;
}

/* Whether a regular file has fewer than `bytes` bytes left; *have is the number of them. */
static bool is_shorter(FILE *stream, size_t bytes, size_t *have) {
    struct stat status;
    off_t at = ftello(stream);
    if (at < 0 || fstat(fileno(stream), &status) != 0 || !S_ISREG(status.st_mode))
        return false;
    *have = status.st_size > at ? (size_t)(status.st_size - at) : 0;
    return *have < bytes;
}

static bool refuse_length(const char *path, size_t have, size_t bytes, struct error *error) {
    return fail(error, EXIT_USER, "%s: holds %zu bytes of data; its shape needs %zu", path, have,
                bytes);
}

/* Reads the data.  Checks the file's length first, because the header may ask for more memory than
   the machine has. */
static bool read_data(FILE *stream, const char *path, struct npy *npy, struct error *error) {
    size_t bytes = npy_bytes(npy), got;
    if (is_shorter(stream, bytes, &got))
        return refuse_length(path, got, bytes, error);
    npy->tensor.data = malloc(bytes + 1);
    if (npy->tensor.data == NULL)
        return fail(error, EXIT_ENVIRONMENT, "%s: out of memory for %zu bytes", path, bytes);
    got = fread(npy->tensor.data, 1, bytes, stream);
    if (got != bytes)
        return refuse_length(path, got, bytes, error);
    return fgetc(stream) == EOF ||
           fail(error, EXIT_USER, "%s: has more than the %zu bytes that its shape needs", path,
                bytes);
}

static bool read_stream(FILE *stream, const char *path, struct npy *npy, struct error *error) {
    char *header = malloc(LARGEST_HEADER + 1);
    bool done = header != NULL || out_of_memory(error);
    done = done && (read_header(stream, header) ||
                    fail(error, EXIT_USER, "%s: not a .npy file of format 1 to 3", path));
    done = done && parse_header(path, header, npy, error) && read_data(stream, path, npy, error);
    free(header);
    return done;
}

/* The header says how much is read. */
static const struct input_kind npy_input = {.words = "a .npy file", .streams = true};

bool npy_read(const char *path, struct npy *npy, struct error *error) {
    FILE *stream = input_stream(path, &npy_input, error);
    *npy = (struct npy){0};
    bool done = stream != NULL && read_stream(stream, path, npy, error);
    if (stream != NULL)
        fclose(stream);
    if (!done)
        npy_free(npy);
    return done;
}

/* Allocates the shape, and data of zeros.  Releases everything on failure. */
static bool allocate(struct npy *npy, const int64_t *dims, struct error *error) {
    size_t rank = (size_t)npy->tensor.ndim;
    npy->tensor.strides = NULL;
    npy->tensor.shape = malloc((rank + 1) * sizeof *dims);
    npy->tensor.data = NULL;
    if (npy->tensor.shape != NULL && rank > 0)
        memcpy(npy->tensor.shape, dims, rank * sizeof *dims);
    if (npy->tensor.shape != NULL && fits_memory(npy))
        npy->tensor.data = calloc(1, npy_bytes(npy) + 1);
    if (npy->tensor.data != NULL)
        return true;
    npy_free(npy);
    return fail(error, EXIT_ENVIRONMENT, "out of memory for an array");
}

bool npy_like(const struct npy *model, struct npy *npy, struct error *error) {
    *npy = *model;
    return allocate(npy, model->tensor.shape, error);
}

static const char *numpy_word(DLDataType type) {
    const struct kvmill_dtype *known = kvmill_dtype_of(type);
    return known != NULL ? known->numpy : NULL;
}

/* Returns NumPy's word for a type, or for unsigned integers of its width if NumPy lacks it. */
static const char *descr_of(DLDataType type) {
    const char *own = numpy_word(type);
    const char *carrier = numpy_word((DLDataType){kDLUInt, type.bits, 1});
    return own != NULL ? own : carrier != NULL ? carrier : "";
}

bool npy_make(DLDataType dtype, const int64_t *dims, int rank, struct npy *npy,
              struct error *error) {
    *npy = (struct npy){.tensor = {.device = {kDLCPU, 0}, .dtype = dtype}};
    strcpy(npy->descr, descr_of(dtype));
    npy->tensor.ndim = rank;
    return allocate(npy, dims, error);
}

void npy_free(struct npy *npy) {
    free(npy->tensor.shape);
    free(npy->tensor.strides);
    free(npy->is_view ? NULL : npy->tensor.data);
    *npy = (struct npy){0};
}

/* Returns the address of the element with a row-major index. */
static unsigned char *element_at(const DLTensor *tensor, int64_t index) {
    int64_t offset = tensor->strides == NULL ? index : 0;
    bool overflow = false; /* impossible: the data is in memory */
    for (int d = tensor->ndim - 1; tensor->strides != NULL && d >= 0; d--) {
        int64_t step = kvmill_times(index % tensor->shape[d], tensor->strides[d], &overflow);
        offset = kvmill_plus(offset, step, &overflow);
        index /= tensor->shape[d];
    }
    return (unsigned char *)tensor->data + offset * kvmill_element_bytes(tensor->dtype);
}

void npy_copy(const struct npy *from, struct npy *to) {
    int64_t count = kvmill_element_count(&from->tensor);
    for (int64_t i = 0; i < count; i++)
        memcpy(element_at(&to->tensor, i), element_at(&from->tensor, i),
               (size_t)kvmill_element_bytes(from->tensor.dtype));
}

/* ---- Writing ---- */

/* Prints the header, padded so that the data begins at a multiple of 64 bytes, as NumPy does. */
static bool print_header(const struct npy *npy, struct text *text) {
    struct text dict = {0};
    bool done = text_print(&dict, "{'descr': '%s', 'fortran_order': False, 'shape': (", npy->descr);
    for (int d = 0; done && d < npy->tensor.ndim; d++)
        done = text_print(&dict, "%" PRId64 ",%s", npy->tensor.shape[d],
                          d + 1 < npy->tensor.ndim ? " " : "");
    done = done && text_print(&dict, "), }");
    int padding = (int)(63 - (10 + dict.length) % 64);
    unsigned length = (unsigned)dict.length + (unsigned)padding + 1;
    char start[10] = {magic[0],           'N', 'U', 'M', 'P', 'Y', 1, 0, (char)(length & 255),
                      (char)(length >> 8)};
    done = done && text_append(text, start, sizeof start) &&
           text_print(text, "%s%*s\n", dict.data, padding, "");
    text_free(&dict);
    return done;
}

bool npy_write(const char *path, const struct npy *npy, struct error *error) {
    struct text text = {0};
    bool done =
        (print_header(npy, &text) && text_append(&text, npy->tensor.data, npy_bytes(npy))) ||
        out_of_memory(error);
    done = done && output_write_file(path, &text, error);
    text_free(&text);
    return done;
}
