/* SPDX-License-Identifier: Apache-2.0 */
#include "doubles.h"

#include <math.h>

#include "../../defs/dtype.h"
#include "numbers.h"

/* ---- Rounding once ---- */

/* Convert a float64 to a float32 that rounds to the same half: if bits are lost, the last bit is
 * set. */
static float to_odd(double x) {
    float near = (float)x;
    uint32_t bits = kvmill_bits_of_float(near);
    if ((double)near == x || !isfinite(near))
        return near;
    if (fabs((double)near) > fabs(x))
        bits--;
    return kvmill_float_of_bits(bits | 1);
}

static uint16_t half_of(double x) {
    return kvmill_f32_to_f16(to_odd(x));
}

static uint16_t brain_of(double x) {
    return kvmill_f32_to_bf16(to_odd(x));
}

/* ---- Reading ---- */

#define READER(NAME, TYPE, VALUE)                                                                  \
    static void read_##NAME(const unsigned char *from, int64_t step, int64_t count, double *to) {  \
        for (int64_t i = 0; i < count; i++) {                                                      \
            TYPE x;                                                                                \
            memcpy(&x, from + i * step, sizeof x);                                                 \
            to[i] = (VALUE);                                                                       \
        }                                                                                          \
    }
READER(bool, uint8_t, x ? 0. : -(double)INFINITY)
READER(int8, int8_t, x)
READER(int16, int16_t, x)
READER(int32, int32_t, x)
READER(int64, int64_t, (double)x)
READER(uint8, uint8_t, x)
READER(uint16, uint16_t, x)
READER(uint32, uint32_t, x)
READER(uint64, uint64_t, (double)x)
READER(float16, uint16_t, kvmill_f16_to_f32(x))
READER(bfloat16, uint16_t, kvmill_bf16_to_f32(x))
READER(float32, float, x)
READER(float64, double, x)

/* ---- Writing ---- */

#define WRITER(NAME, TYPE, VALUE)                                                                  \
    static void write_##NAME(const double *from, int64_t count, unsigned char *to) {               \
        for (int64_t i = 0; i < count; i++) {                                                      \
            TYPE x = VALUE;                                                                        \
            memcpy(to + i * (int64_t)sizeof x, &x, sizeof x);                                      \
        }                                                                                          \
    }
WRITER(float16, uint16_t, half_of(from[i]))
WRITER(bfloat16, uint16_t, brain_of(from[i]))
WRITER(float32, float, (float)from[i])
WRITER(float64, double, from[i])

/* ---- By type ---- */

static const struct {
    DLDataType type;
    kvmill_reader read;
    kvmill_writer write;
} types[] = {
    {{KVMILL_DL_BOOL, 8, 1}, read_bool, NULL},
    {{kDLInt, 8, 1}, read_int8, NULL},
    {{kDLInt, 16, 1}, read_int16, NULL},
    {{kDLInt, 32, 1}, read_int32, NULL},
    {{kDLInt, 64, 1}, read_int64, NULL},
    {{kDLUInt, 8, 1}, read_uint8, NULL},
    {{kDLUInt, 16, 1}, read_uint16, NULL},
    {{kDLUInt, 32, 1}, read_uint32, NULL},
    {{kDLUInt, 64, 1}, read_uint64, NULL},
    {{kDLFloat, 16, 1}, read_float16, write_float16},
    {{kDLBfloat, 16, 1}, read_bfloat16, write_bfloat16},
    {{kDLFloat, 32, 1}, read_float32, write_float32},
    {{kDLFloat, 64, 1}, read_float64, write_float64},
};
enum { TYPES = sizeof types / sizeof *types };

static int find(DLDataType type) {
    int i = 0;
    while (i < TYPES && !kvmill_dtype_equal(types[i].type, type))
        i++;
    return i;
}

kvmill_reader kvmill_reader_of(DLDataType type) {
    int i = find(type);
    return i < TYPES ? types[i].read : NULL;
}

kvmill_writer kvmill_writer_of(DLDataType type) {
    int i = find(type);
    return i < TYPES ? types[i].write : NULL;
}
