/* SPDX-License-Identifier: Apache-2.0 */
#include "mask.h"

#include <math.h>

#include "../../defs/dtype.h"
#include "../core/numbers.h"
#include "../core/tensor.h"

/* Elements that are converted at a time. */
enum { PIECE = 128 };

struct mask_view kvmill_mask_view_of(const DLTensor *mask) {
    if (mask == NULL)
        return (struct mask_view){0};
    int rank = mask->ndim;
    return (struct mask_view){
        .rows = {.data = tensor_data(mask),
                 .batch = kvmill_tensor_step(mask, rank - 4),
                 .head = kvmill_tensor_step(mask, rank - 3),
                 .token = kvmill_tensor_step(mask, rank - 2)},
        .type = mask->dtype,
        .read = kvmill_reader_of(mask->dtype),
        .key = kvmill_tensor_step(mask, rank - 1),
        .columns = mask->shape[rank - 1],
    };
}

static DLDataType type_of(int activation) {
    return kvmill_format_parts(activation)->dtype;
}

/* ---- The numbers of a row ---- */

static bool is_in_window(const struct mask_terms *terms, int64_t distance) {
    return (terms->left < 0 || distance >= -terms->left) &&
           (terms->right < 0 || distance <= terms->right);
}

/* The keys from number `at` on. */
static void add_positions(const struct mask_terms *terms, int64_t at, int64_t count,
                          double *numbers) {
    bool own = terms->cells.data != NULL;
    for (int64_t i = 0; i < count; i++) {
        int64_t key = own ? number_at(&terms->cells, terms->slots[at + i]) : terms->first + at + i;
        int64_t distance = key - terms->position;
        numbers[i] = own && !is_in_window(terms, distance)
                         ? -(double)INFINITY
                         : numbers[i] + terms->slope * (double)distance;
    }
}

static void scale(double factor, int64_t count, double *numbers) {
    for (int64_t i = 0; i < count; i++)
        numbers[i] = numbers[i] == -(double)INFINITY ? numbers[i] : numbers[i] * factor;
}

/* The numbers of elements [at, at + count). */
static void compute(const struct mask_view *mask, const struct mask_terms *terms,
                    const unsigned char *from, int64_t at, int64_t count, double *numbers) {
    memset(numbers, 0, (size_t)count * sizeof *numbers);
    if (mask->rows.data != NULL)
        mask->read(from + at * mask->key, mask->key, count, numbers);
    if (terms->factor != 1)
        scale(terms->factor, count, numbers);
    if (terms->cells.data != NULL || terms->slope != 0)
        add_positions(terms, at, count, numbers);
}

/* Elements [first, last): as the mask has them, or computed. */
static void load(const struct mask_view *mask, const struct mask_terms *terms,
                 const unsigned char *from, int64_t first, int64_t last, int activation,
                 unsigned char *to) {
    double numbers[PIECE];
    kvmill_writer write = kvmill_writer_of(type_of(activation));
    int64_t bytes = kvmill_activation_bytes(activation);
    bool same = mask->key == bytes && kvmill_dtype_equal(mask->type, type_of(activation));
    bool alone = terms->factor == 1 && terms->slope == 0 && terms->cells.data == NULL;
    if (same && alone) {
        memcpy(to + first * bytes, from + first * mask->key, (size_t)((last - first) * bytes));
        return;
    }
    for (int64_t at = first; at < last; at += PIECE) {
        int64_t count = kvmill_min(last - at, PIECE);
        compute(mask, terms, from, at, count, numbers);
        write(numbers, count, to + at * bytes);
    }
}

bool kvmill_is_hidden(int activation, const unsigned char *row, int64_t i) {
    return kvmill_load_float(activation, row, i) == -INFINITY;
}

void kvmill_mask_row(const struct mask_view *mask, const unsigned char *from, int64_t count,
                     int activation, unsigned char *to, struct kvmill_query_row *row) {
    static const struct mask_terms none = {.factor = 1};
    int64_t bytes = kvmill_activation_bytes(activation), first = row->first, last = row->last;
    memset(to, 0, (size_t)(first * bytes));
    load(mask, &none, from, first, last, activation, to);
    memset(to + last * bytes, 0, (size_t)((count - last) * bytes));
    while (first < last && kvmill_is_hidden(activation, to, first))
        first++;
    while (first < last && kvmill_is_hidden(activation, to, last - 1))
        last--;
    row->mask = to;
    row->first = first;
    row->last = last;
}

void kvmill_mask_block(const struct mask_view *mask, const struct mask_terms *terms,
                       const unsigned char *from, int64_t first, int64_t last, int64_t count,
                       int activation, unsigned char *to) {
    for (int64_t i = 0; i < first; i++)
        kvmill_store_float(activation, to, i, -INFINITY);
    load(mask, terms, from, first, last, activation, to);
    for (int64_t i = last; i < count; i++)
        kvmill_store_float(activation, to, i, -INFINITY);
}

/* ---- What is hidden ---- */

/* Eight bytes of elements that are all hidden, or all 0.  In a bool mask, false hides and true is
 * 0. */
static uint64_t word_of(DLDataType type, bool hidden) {
    const uint64_t bytes = 0x0101010101010101, halves = 0x0001000100010001;
    if (type.bits == 8)
        return hidden ? 0 : bytes;
    if (type.bits == 16)
        return hidden ? halves * (type.code == kDLBfloat ? 0xff80 : 0xfc00) : 0;
    return hidden ? 0xff800000ff800000 : 0;
}

static uint64_t load_word(const unsigned char *from) {
    uint64_t word;
    memcpy(&word, from, sizeof word);
    return word;
}

/* Elements that are compared at a time, or 0 if they are not adjacent. */
static int64_t elements_of_word(const struct mask_view *mask) {
    int64_t bytes = mask->type.bits / 8;
    return mask->key == bytes ? 8 / bytes : 0;
}

static bool is_number(const struct mask_view *mask, const unsigned char *from, int64_t i,
                      double number) {
    double found;
    mask->read(from + i * mask->key, mask->key, 1, &found);
    return found == number;
}

/* The number of elements at the beginning that are all hidden, or all 0. */
static int64_t count_alike(const struct mask_view *mask, const unsigned char *from, int64_t count,
                           bool hidden) {
    int64_t each = elements_of_word(mask), i = 0;
    uint64_t word = word_of(mask->type, hidden);
    while (each > 0 && i + each <= count && load_word(from + i * mask->key) == word)
        i += each;
    while (i < count && is_number(mask, from, i, hidden ? -(double)INFINITY : 0))
        i++;
    return i;
}

int64_t kvmill_hidden_before(const struct mask_view *mask, const unsigned char *from,
                             int64_t count) {
    return count_alike(mask, from, count, true);
}

int64_t kvmill_hidden_after(const struct mask_view *mask, const unsigned char *from,
                            int64_t count) {
    int64_t each = elements_of_word(mask), end = count;
    uint64_t word = word_of(mask->type, true);
    while (each > 0 && end >= each && load_word(from + (end - each) * mask->key) == word)
        end -= each;
    while (end > 0 && is_number(mask, from, end - 1, -(double)INFINITY))
        end--;
    return count - end;
}

bool kvmill_mask_is_zero(const struct mask_view *mask, const unsigned char *from, int64_t count) {
    return count_alike(mask, from, count, false) == count;
}
