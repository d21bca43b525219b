/* Fills tensors with numbers that suit their elements.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_SCENE_FILL_H
#define KVMILL_BENCH_SCENE_FILL_H

#include "scene.h"

/* Floats in [-most, most), of all of a memory. */
void fill_memory_floats(struct scene_memory *memory, int element, float most, uint32_t seed);

/* Rows of a cache, `row` bytes each: numbers up to 1, or scales that go with codes. */
void fill_memory_rows(struct scene_memory *memory, const struct kvmill_format *format, bool scales,
                      int64_t row, uint32_t seed);

/* `number` in each element of a tensor of int64. */
void fill_memory_numbers(struct scene_memory *memory, int64_t number);

/* Random starts of windows in as many sets of indices as there are; `run`: one in so many is not
   the neighbour of the one before; 1: none is. */
void fill_memory_indices(struct scene_memory *memory, const struct kvmill_windows *windows,
                         const DLTensor *indices, int run);

/* Bytes that make numbers of moderate size of every type. */
void fill_moderate(DLDataType type, unsigned char *data, int64_t bytes, uint64_t *state);

#endif
