/* Fills tensors with numbers that suit their elements.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_SCENE_FILL_H
#define KVMILL_BENCH_SCENE_FILL_H

#include "scene.h"

/* Fills all of a memory with floats in [-most, most). */
void fill_memory_floats(struct scene_memory *memory, int element, float most, uint32_t seed);

/* Fills rows of a cache, `row` bytes each: with numbers up to 1, or with scales of codes. */
void fill_memory_rows(struct scene_memory *memory, const struct kvmill_format *format, bool scales,
                      int64_t row, uint32_t seed);

/* Sets each element of an int64 tensor to `number`. */
void fill_memory_numbers(struct scene_memory *memory, int64_t number);

/* Fills all sets of indices with starts of windows.  A start is random for one window in `run`, on
   average, and adjacent to the start before it for the rest. */
void fill_memory_indices(struct scene_memory *memory, const struct kvmill_windows *windows,
                         const DLTensor *indices, int run);

/* Fills with bytes that give numbers of moderate size in every type. */
void fill_moderate(DLDataType type, unsigned char *data, int64_t bytes, uint64_t *state);

#endif
