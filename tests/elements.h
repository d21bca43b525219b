/* Elements of tensors as numbers, for all types and strides.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ELEMENTS_H
#define KVMILL_TESTS_ELEMENTS_H

#include "fence.h"
#include "oracle/oracle_cache_attention.h"

int64_t tensor_count(const DLTensor *tensor);

/* Returns the bytes of `count` contiguous elements. */
size_t tensor_bytes(const DLTensor *tensor, int64_t count);

/* Returns the address of an element by its number in row-major order. */
unsigned char *tensor_element(const struct fenced_tensor *tensor, int64_t number);

/* Copies a tensor to an array without gaps, or back. */
void tensor_move(const struct fenced_tensor *tensor, unsigned char *dense, bool gather);

/* Returns the tensor's elements without gaps, for free(). */
unsigned char *tensor_gather(const struct fenced_tensor *tensor);

/* Returns the oracle's type for a library's type: numbers of at most 32 bits, int8 and int4. */
enum oracle_type attention_type(DLDataType type);

/* Read and write numbers of whole bytes: floats and float64, integers, bool. */
double number_get(DLDataType type, const unsigned char *at);
void number_put(DLDataType type, unsigned char *at, double x);
bool number_is_float(DLDataType type);

/* The contents of a cache.  Alternatives in the syntax of settings.h; their names may need a
   prefix. */
struct format {
    enum oracle_type type, scale;
    int64_t group;
    DLDataType tensor;
};
#define FORMAT_BLOCKS "|T2=uint8 cache_format={q8_0|q4_0|q5_1|q4_1|q5_0|iq4_nl|q6_0|q8_kv}"
#define FORMATS_OF_BYTES                                                                           \
    "{T2=float32|T2=float16|T2=bfloat16|T2=int8 T3=float32 quant_bit=8 quant_group=8|"             \
    "T2=int8 T3=float16 quant_bit=8 quant_group=16}" FORMAT_BLOCKS FORMAT_BLOCKS
#define FORMATS "{" FORMATS_OF_BYTES "|T2=int4 T3=float16 quant_bit=4 quant_group=16}"
struct format format_of(const char *blocks, DLDataType T2, DLDataType T3, int64_t group);

/* Return how many elements of the tensor a row has; and a row and its scales as the only row of an
   oracle's side. */
int64_t format_elements(const struct format *format, int64_t dim);
struct oracle_side format_row(const struct format *format, int64_t dim, unsigned char *row,
                              unsigned char *scales);

/* Returns the error of rounding a result of this size to its type: half a unit in the last place.
 */
double number_rounding(DLDataType type, double x);

/* Whether a result is as wanted, within the error of arithmetic and the rounding of its type. */
bool number_is_close(DLDataType type, double have, double want, double error);

/* Whether all numbers of a tensor, in row-major order, are as wanted within their errors.  If not,
   prints the first that is not, and `words`. */
bool tensor_is_close(const struct fenced_tensor *tensor, const double *want, const double *error,
                     const char *name, const char *words);

/* Makes random row-major strides with gaps; between elements of the last dim only if requested. */
void spread_strides(int rank, const int64_t *dims, bool last_too, int64_t *strides,
                    struct dice *dice);

/* Returns a random number between two numbers. */
double dice_between(struct dice *dice, double least, double most);

#endif
