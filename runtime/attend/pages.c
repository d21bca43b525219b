/* SPDX-License-Identifier: Apache-2.0 */
#include "pages.h"

static int64_t first_row(const struct attend_pages *pages, int64_t page) {
    if (pages->numbers.data == NULL)
        return pages->start;
    int64_t number = number_at(&pages->numbers, pages->list != NULL ? pages->list[page] : page);
    return number / pages->unit * pages->rows;
}

struct row_span kvmill_row_span(const struct attend_pages *pages, int64_t position, int64_t count) {
    int64_t page = position / pages->size, at = position % pages->size;
    int64_t left = pages->size - at;
    return (struct row_span){first_row(pages, page) + at, left < count ? left : count};
}

void kvmill_fill_slots(const struct attend_pages *pages, int64_t first, int64_t count,
                       int64_t *slots) {
    for (int64_t done = 0; done < count;) {
        const struct row_span span = kvmill_row_span(pages, first + done, count - done);
        for (int64_t i = 0; i < span.count; i++)
            slots[done + i] = span.row + i;
        done += span.count;
    }
}
