/* A parallel loop on POSIX threads, for kvmill_run_parallel.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_THREADS_H
#define KVMILL_BASE_THREADS_H

#include <stdint.h>

/* data: int, the number of threads; the caller's is one of them. */
void threads_for(void *data, int64_t parts, void (*part)(void *context, int64_t index),
                 void *context);

#endif
