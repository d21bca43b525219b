/* SPDX-License-Identifier: Apache-2.0 */
#include "pages.h"

#include "../core/numbers.h"

static int64_t first_row(const struct attend_pages *pages, int64_t page) {
    if (pages->numbers.data == NULL)
        return pages->start;
    if (pages->ring > 0)
        page %= pages->ring;
    page = pages->list != NULL ? pages->list[page] : page;
    int64_t part = pages->parts > 1 ? page % pages->parts : 0;
    int64_t number = number_at(&pages->numbers, pages->parts > 1 ? page / pages->parts : page);
    return number / pages->unit * pages->rows + part * pages->size;
}

int64_t kvmill_left_out(const struct attend_pages *pages, int64_t position) {
    int64_t entry = position / pages->size;
    return (pages->list[entry] - entry) * pages->size;
}

int64_t kvmill_end_of_run(const struct attend_pages *pages, int64_t position, int64_t last) {
    int64_t entry = position / pages->size, left_out = kvmill_left_out(pages, position);
    do
        entry++;
    while (entry * pages->size < last && kvmill_left_out(pages, entry * pages->size) == left_out);
    return entry * pages->size < last ? entry * pages->size : last;
}

struct kvmill_extent kvmill_extent_at(const struct attend_pages *pages, int64_t position,
                                      int64_t count) {
    int64_t page = position / pages->size, at = position % pages->size;
    return (struct kvmill_extent){first_row(pages, page) + at, kvmill_min(pages->size - at, count)};
}

struct kvmill_extent *kvmill_append_extents(const struct attend_pages *pages, int64_t first,
                                            int64_t count, struct kvmill_extent *to) {
    for (int64_t end = first + count; first < end; first += to++->count)
        *to = kvmill_extent_at(pages, first, end - first);
    return to;
}

void kvmill_fill_slots(const struct attend_pages *pages, int64_t first, int64_t count,
                       int64_t *slots) {
    for (int64_t done = 0; done < count;) {
        const struct kvmill_extent extent = kvmill_extent_at(pages, first + done, count - done);
        for (int64_t i = 0; i < extent.count; i++)
            slots[done++] = extent.slot + i;
    }
}

void kvmill_join_slots(const int64_t *slots, int64_t count, struct kvmill_extent *to) {
    int64_t n = 0;
    for (int64_t i = 0; i < count; i++)
        if (n > 0 && slots[i] == to[n - 1].slot + to[n - 1].count)
            to[n - 1].count++;
        else
            to[n++] = (struct kvmill_extent){slots[i], 1};
    to[n] = (struct kvmill_extent){0};
}
