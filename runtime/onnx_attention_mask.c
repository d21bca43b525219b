/* attn_mask: read where a kernel or a portable function wants it, in the type that they take.

   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "../ops/dtype.h"
#include "numbers.h"
#include "onnx_attention.h"

/* Elements that are converted at a time. */
enum { PIECE = 128 };

static const unsigned char *element_at(const struct mask_view *mask, const struct mask_part *part,
                                       int64_t key) {
    return mask->data + part->b * mask->batch + part->head * mask->head +
           part->query * mask->query + key * mask->key;
}

/* ---- For kernels ---- */

static DLDataType type_of(int activation) {
    static const DLDataType types[] = {[KVMILL_F32] = {kDLFloat, 32, 1},
                                       [KVMILL_F16] = {kDLFloat, 16, 1},
                                       [KVMILL_BF16] = {kDLBfloat, 16, 1}};
    return types[activation];
}

static void convert(const struct mask_view *mask, const unsigned char *from, int64_t count,
                    int activation, unsigned char *to) {
    double numbers[PIECE];
    kvmill_writer write = kvmill_writer_of(type_of(activation));
    int64_t bytes = kvmill_activation_bytes(activation);
    for (int64_t at = 0; at < count; at += PIECE) {
        int64_t n = count - at < PIECE ? count - at : PIECE;
        mask->read(from + at * mask->key, mask->key, n, numbers);
        write(numbers, n, to + at * bytes);
    }
}

/* As the mask has them, or converted. */
static void take(const struct mask_view *mask, const unsigned char *from, int64_t count,
                 int activation, unsigned char *to) {
    int64_t bytes = kvmill_activation_bytes(activation);
    if (mask->key == bytes && kvmill_dtype_equal(mask->type, type_of(activation)))
        memcpy(to, from, (size_t)(count * bytes));
    else
        convert(mask, from, count, activation, to);
}

static bool is_hidden(int activation, const unsigned char *row, int64_t i) {
    return kvmill_load_float(activation, row, i) == -INFINITY;
}

void kvmill_mask_row(const struct mask_view *mask, const struct mask_part *part, int activation,
                     unsigned char *to, struct kvmill_query_row *row) {
    int64_t bytes = kvmill_activation_bytes(activation), first = row->first, last = row->last;
    memset(to, 0, (size_t)(first * bytes));
    take(mask, element_at(mask, part, part->at + first), last - first, activation,
         to + first * bytes);
    memset(to + last * bytes, 0, (size_t)((part->count - last) * bytes));
    while (first < last && is_hidden(activation, to, first))
        first++;
    while (first < last && is_hidden(activation, to, last - 1))
        last--;
    row->mask = to;
    row->first = first;
    row->last = last;
}

/* ---- For portable functions ---- */

double kvmill_mask_at(const struct onnx_run *run, int64_t b, int64_t head, int64_t query,
                      int64_t key) {
    const struct mask_view *mask = &run->mask;
    const struct mask_part part = {b, head, query, 0, 1};
    DLDataType T1 = run->plan->types[KVMILL_ATTENTION_Q];
    unsigned char rounded[sizeof(double)];
    double bias;
    if (mask->data == NULL)
        return 0;
    mask->read(element_at(mask, &part, key), mask->key, 1, &bias);
    kvmill_writer_of(T1)(&bias, 1, rounded);
    kvmill_reader_of(T1)(rounded, 0, 1, &bias);
    return bias;
}
