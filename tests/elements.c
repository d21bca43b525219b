/* SPDX-License-Identifier: Apache-2.0 */
#include "elements.h"

#include "tap.h"

int64_t tensor_count(const DLTensor *tensor) {
    int64_t count = 1;
    for (int d = 0; d < tensor->ndim; d++)
        count *= tensor->shape[d];
    return count;
}

size_t tensor_bytes(const DLTensor *tensor, int64_t count) {
    return ((size_t)count * tensor->dtype.bits + 7) / 8;
}

unsigned char *tensor_element(const struct fenced_tensor *tensor, int64_t number) {
    int64_t distance = 0;
    for (int d = tensor->dl.ndim - 1; d >= 0; d--) {
        distance += number % tensor->shape[d] * tensor->strides[d];
        number /= tensor->shape[d];
    }
    return (unsigned char *)tensor->dl.data + tensor->dl.byte_offset +
           distance * tensor->dl.dtype.bits / 8;
}

/* Returns how many of the elements are contiguous. */
static int64_t elements_side_by_side(const struct fenced_tensor *tensor, int64_t count) {
    int last = tensor->dl.ndim - 1;
    if (tensor->dl.strides == NULL)
        return count;
    return last >= 0 && tensor->strides[last] == 1 ? tensor->shape[last] : 1;
}

void tensor_move(const struct fenced_tensor *tensor, unsigned char *dense, bool gather) {
    int64_t count = tensor_count(&tensor->dl);
    int64_t step = elements_side_by_side(tensor, count);
    size_t run = tensor_bytes(&tensor->dl, step);
    for (int64_t i = 0; i < count; i += step) {
        unsigned char *place = tensor_element(tensor, i);
        unsigned char *other = dense + tensor_bytes(&tensor->dl, i);
        memcpy(gather ? other : place, gather ? place : other, run);
    }
}

unsigned char *tensor_gather(const struct fenced_tensor *tensor) {
    unsigned char *dense = take((int64_t)tensor_bytes(&tensor->dl, tensor_count(&tensor->dl)), 1);
    tensor_move(tensor, dense, true);
    return dense;
}

enum oracle_type attention_type(DLDataType type) {
    if (type.code == kDLInt)
        return type.bits == 4 ? ORACLE_I4 : ORACLE_I8;
    if (type.code == kDLBfloat)
        return ORACLE_BF16;
    if (type.bits == 8)
        return type.code == KVMILL_DL_FLOAT8_E5M2 ? ORACLE_E5M2 : ORACLE_E4M3;
    return type.bits == 16 ? ORACLE_F16 : ORACLE_F32;
}

bool number_is_float(DLDataType type) {
    return type.code == kDLFloat || type.code == kDLBfloat;
}

double number_get(DLDataType type, const unsigned char *at) {
    double x;
    uint64_t bits = 0;
    if (number_is_float(type) && type.bits < 64)
        return oracle_get(attention_type(type), at, 0);
    for (int i = 0; i < type.bits / 8; i++)
        bits |= (uint64_t)at[i] << 8 * i;
    memcpy(&x, &bits, sizeof x);
    if (number_is_float(type))
        return x;
    int spare = 64 - type.bits;
    return type.code == kDLInt ? (double)((int64_t)(bits << spare) >> spare) : (double)bits;
}

void number_put(DLDataType type, unsigned char *at, double x) {
    int64_t integer = number_is_float(type) ? 0 : (int64_t)x;
    if (number_is_float(type) && type.bits < 64)
        oracle_put(attention_type(type), at, 0, x);
    else
        memcpy(at, number_is_float(type) ? (void *)&x : (void *)&integer, type.bits / 8);
}

struct format format_of(const char *blocks, DLDataType T2, DLDataType T3, int64_t group) {
    return (struct format){blocks != NULL ? oracle_of_word(blocks) : attention_type(T2),
                           attention_type(T3), T2.code == kDLInt ? group : 0,
                           T2.bits == 4 ? (DLDataType){kDLUInt, 8, 1} : T2};
}

int64_t format_elements(const struct format *format, int64_t dim) {
    return oracle_bytes(format->type, dim) / (format->tensor.bits / 8);
}

struct oracle_side format_row(const struct format *format, int64_t dim, unsigned char *row,
                              unsigned char *scales) {
    return (struct oracle_side){.type = format->type,
                                .scale_type = format->scale,
                                .dim = dim,
                                .group = format->group,
                                .data = row,
                                .scale = scales};
}

double number_rounding(DLDataType type, double x) {
    static const double relative[] = {
        [ORACLE_F32] = 0x1p-24, [ORACLE_F16] = 0x1p-11, [ORACLE_BF16] = 0x1p-8};
    static const double smallest[] = {
        [ORACLE_F32] = 0x1p-126, [ORACLE_F16] = 0x1p-25, [ORACLE_BF16] = 0x1p-126};
    if (type.bits == 64)
        return 0x1p-53 * fabs(x) + 0x1p-1000;
    return relative[attention_type(type)] * fabs(x) + smallest[attention_type(type)];
}

bool number_is_close(DLDataType type, double have, double want, double error) {
    if (isnan(want) || isinf(want))
        return isnan(want) ? isnan(have) != 0 : have == want;
    return fabs(have - want) <= error + number_rounding(type, fabs(want) + error);
}

bool tensor_is_close(const struct fenced_tensor *tensor, const double *want, const double *error,
                     const char *name, const char *words) {
    for (int64_t n = 0; n < tensor_count(&tensor->dl); n++) {
        double have = number_get(tensor->dl.dtype, tensor_element(tensor, n));
        if (number_is_close(tensor->dl.dtype, have, want[n], error[n]))
            continue;
        diag("%s[%" PRId64 "]: have %.9g, want %.9g +- %.3g; %s", name, n, have, want[n], error[n],
             words);
        return false;
    }
    return true;
}

double dice_between(struct dice *dice, double least, double most) {
    return least + (most - least) * (double)(dice_bits(dice) >> 11) * 0x1p-53;
}

void spread_strides(int rank, const int64_t *dims, bool last_too, int64_t *strides,
                    struct dice *dice) {
    int64_t step = 1;
    for (int d = rank - 1; d >= 0; d--) {
        if ((d < rank - 1 || last_too) && dice_once_in(dice, 2))
            step += dice_range(dice, 1, 5);
        strides[d] = step;
        step *= dims[d] + !dims[d];
    }
}
