/* Extents of cache rows, which kernels walk, compared with single rows.

   SPDX-License-Identifier: Apache-2.0 */
#include "../runtime/attend/pages.h"
#include "program.h"

enum { MOST = 400, PAGES = 500 };

DICE("extents");

static int32_t page_numbers[PAGES], page_list[PAGES];

static void set_pages(struct attend_pages *pages) {
    for (int i = 0; i < PAGES; i++) {
        page_numbers[i] = (int32_t)dice_range(&dice, 0, 1000);
        page_list[i] = (int32_t)dice_range(&dice, 0, PAGES - 1);
    }
    *pages = one_page(dice_range(&dice, 0, 100));
    if (dice_once_in(&dice, 4))
        return;
    pages->size = dice_range(&dice, 1, 40);
    pages->numbers = (struct number_array){page_numbers, 32, 1};
    pages->list = dice_once_in(&dice, 2) ? page_list : NULL;
    pages->unit = 1;
    pages->rows = pages->size + dice_range(&dice, 0, 3);
}

/* Lists the rows of extents one by one; returns -1 if an extent is empty or there are more than
   `count` rows. */
static int64_t rows_of(const struct kvmill_extent *list, const struct kvmill_extent *end,
                       int64_t *rows) {
    int64_t count = 0;
    for (; list < end; list++) {
        if (list->count <= 0 || count + list->count > MOST)
            return -1;
        for (int64_t i = 0; i < list->count; i++)
            rows[count++] = list->slot + i;
    }
    return count;
}

static int64_t length_of(const struct kvmill_extent *list) {
    int64_t length = 0;
    while (list[length].count > 0)
        length++;
    return length;
}

static bool follows_pages(void) {
    struct attend_pages pages;
    struct kvmill_extent list[MOST + 1];
    int64_t want[MOST], have[MOST];
    int64_t first = dice_range(&dice, 0, 90), count = dice_range(&dice, 0, MOST);
    set_pages(&pages);
    kvmill_fill_slots(&pages, first, count, want);
    if (rows_of(list, kvmill_append_extents(&pages, first, count, list), have) != count ||
        memcmp(have, want, (size_t)count * sizeof *want) != 0)
        return false;
    kvmill_join_slots(want, count, list);
    return rows_of(list, list + length_of(list), have) == count &&
           memcmp(have, want, (size_t)count * sizeof *want) == 0;
}

static void test(bool (*holds)(void), const char *words) {
    int64_t wrong = 0, cases = 2000;
    for (int64_t i = 0; i < cases; i++)
        wrong += !holds();
    ok(wrong == 0, "%s: %" PRId64 " lists, %" PRId64 " wrong", words, cases, wrong);
}

TEST(extents) {
    test(follows_pages, "extents of pages and of slots are the rows one by one");
}
