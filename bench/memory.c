/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "../base/text.h"

enum { PAGE = 4096 };

static bool huge_pages;

/* Brackets mark the chosen word in the file: "always madvise [never]". */
bool bench_memory_use_huge_pages(struct error *error) {
    static const char path[] = "/sys/kernel/mm/transparent_hugepage/enabled";
    char words[64];
    if (!text_first_line(path, words, sizeof words) || strstr(words, "[never]") != NULL)
        return fail(error, EXIT_ENVIRONMENT,
                    "this system gives no huge pages: %s must say \"madvise\" or \"always\"", path);
    huge_pages = true;
    return true;
}

bool bench_memory_is_huge(void) {
    return huge_pages;
}

void *bench_memory_get(int64_t bytes) {
    size_t size = (size_t)bytes + PAGE;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if (huge_pages)
        madvise(memory, size, MADV_HUGEPAGE);
    return memory;
}

void bench_memory_release(void *memory, int64_t bytes) {
    if (memory != NULL)
        munmap(memory, (size_t)bytes + PAGE);
}
