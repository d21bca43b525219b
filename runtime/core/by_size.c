/* SPDX-License-Identifier: Apache-2.0 */
#include "by_size.h"

#include <inttypes.h>
#include <stdlib.h>

#include "plan_words.h"

struct by_size kvmill_by_size_of(const struct kvmill_pack *pack,
                                 const struct kvmill_kernel *kernel) {
    uint32_t count = pack->measured_count, first = 0;
    const struct kvmill_measured *measured = count > 0 ? pack->measured : NULL;
    while (first < count && measured[first].kernel != kernel)
        first++;
    if (first == count)
        return (struct by_size){.kernel = kernel};
    uint32_t end = first + 1;
    while (first > 0 && measured[first - 1].choice == measured[first].choice)
        first--;
    while (end < count && measured[end].choice == measured[first].choice)
        end++;
    return (struct by_size){.kernel = kernel, .measured = measured + first, .count = end - first};
}

enum { FRACTION = 8 }; /* bits */

/* The logarithm to base 2 in steps of 1 / 256, linearly interpolated between powers of two. */
static int64_t logarithm(int64_t x) {
    uint64_t n = x < 1 ? 1 : (uint64_t)x;
    int whole = 63 - __builtin_clzll(n);
    uint64_t mantissa = whole < FRACTION ? n << (FRACTION - whole) : n >> (whole - FRACTION);
    return (whole - 1) * (INT64_C(1) << FRACTION) + (int64_t)mantissa;
}

/* A 0 in a problem stands for any number. */
static int64_t apart(int64_t measured, int64_t called) {
    return measured == 0 ? 0 : llabs(logarithm(measured) - logarithm(called));
}

static int64_t distance(const struct kvmill_call_size *measured,
                        const struct kvmill_call_size *called) {
    return apart(measured->batch, called->batch) + apart(measured->tokens, called->tokens) +
           apart(measured->positions, called->positions);
}

const struct kvmill_kernel *kvmill_nearest_kernel(const struct by_size *by_size,
                                                  const struct kvmill_call_size *size) {
    const struct kvmill_measured *nearest = by_size->measured;
    int64_t least = distance(&nearest->size, size);
    for (uint32_t i = 1; i < by_size->count; i++) {
        int64_t far = distance(&by_size->measured[i].size, size);
        if (far < least) {
            least = far;
            nearest = &by_size->measured[i];
        }
    }
    return nearest->kernel;
}

/* ---- Constants ---- */

enum { FIRST_ABI_WITH_CONSTANTS = 7 };

bool kvmill_has_constants(const struct kvmill_kernel *kernel) {
    return kernel->abi >= FIRST_ABI_WITH_CONSTANTS && kernel->constant_count > 0;
}

/* Whether the problem has these numbers. */
static bool has_numbers(const struct kvmill_kernel *kernel, const void *problem) {
    for (size_t i = 0; i < kernel->constant_count; i++) {
        const struct kvmill_constant *constant = &kernel->constants[i];
        int64_t number;
        memcpy(&number, (const unsigned char *)problem + constant->offset, sizeof number);
        if (number != constant->value)
            return false;
    }
    return true;
}

const struct kvmill_kernel *kvmill_special_kernel(const struct by_size *by_size,
                                                  const void *problem) {
    for (uint32_t i = 0; i < by_size->special_count; i++)
        if (has_numbers(by_size->special[i], problem))
            return by_size->special[i];
    return NULL;
}

/* ---- Words ---- */

static void say_measured(struct words *words, const struct by_size *by_size) {
    for (uint32_t i = 0; i < by_size->count; i++) {
        const struct kvmill_measured *measured = &by_size->measured[i];
        kvmill_words_add(words, "%s %s with %s",
                         i ? "," : "; by the nearest size:", measured->problem,
                         measured->kernel->symbol);
    }
}

static void say_special(struct words *words, const struct kvmill_kernel *kernel) {
    for (size_t i = 0; i < kernel->constant_count; i++)
        kvmill_words_add(words, "%s %s %" PRId64, i ? "," : "; where", kernel->constants[i].name,
                         kernel->constants[i].value);
    kvmill_words_add(words, ": %s", kernel->symbol);
}

size_t kvmill_by_size_words(const struct by_size *by_size, char *text, size_t size) {
    struct words words = {text, size};
    say_measured(&words, by_size);
    for (uint32_t i = 0; i < by_size->special_count; i++)
        say_special(&words, by_size->special[i]);
    return size - words.left;
}
