/* SPDX-License-Identifier: Apache-2.0 */
#include "known_regions.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"

struct region {
    struct region *next;
    int64_t number;
    char text[];
};

static struct region *known;

const char *region_of_number(int64_t number) {
    for (const struct region *region = known; region != NULL; region = region->next)
        if (region->number == number)
            return region->text;
    return NULL;
}

static bool add(const char *text, size_t length, int64_t number) {
    struct region *region = malloc(sizeof *region + length + 1);
    if (region == NULL)
        return false;
    region->next = known;
    region->number = number;
    memcpy(region->text, text, length + 1);
    known = region;
    return true;
}

bool region_remember(const char *text, int64_t *number, struct error *error) {
    size_t length = strlen(text);
    *number = (int64_t)hash_bytes(HASH_START, text, length);
    const char *other = region_of_number(*number);
    if (other == NULL)
        return add(text, length, *number) || out_of_memory(error);
    return strcmp(other, text) == 0 ||
           fail(error, EXIT_USER,
                "two regions have the number %016" PRIx64
                "; accepted: their kernels in two packs: \"%.200s\" and \"%.200s\"",
                (uint64_t)*number, other, text);
}
