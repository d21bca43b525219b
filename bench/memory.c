/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <stddef.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

void *bench_memory_get(int64_t bytes) {
    void *memory = mmap(NULL, (size_t)bytes + PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void bench_memory_release(void *memory, int64_t bytes) {
    if (memory != NULL)
        munmap(memory, (size_t)bytes + PAGE);
}
