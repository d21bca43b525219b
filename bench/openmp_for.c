/* A parallel loop for kvmill_run_parallel: what a program with threads of its own would bring.
   data: int, the number of threads.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

void openmp_for(void *data, int64_t parts, void (*part)(void *context, int64_t index),
                void *context);

void openmp_for(void *data, int64_t parts, void (*part)(void *context, int64_t index),
                void *context) {
#pragma omp parallel for schedule(dynamic) num_threads(*(int *)data) if (parts > 1)
    for (int64_t i = 0; i < parts; i++)
        part(context, i);
}
