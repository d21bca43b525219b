/* SPDX-License-Identifier: Apache-2.0 */
#include "view.h"

#include "../core/numbers.h"

/* a + b, for numbers that are not negative; INT64_MAX if that overflows. */
static int64_t sum_at_most(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* The end of the range that position p sees. */
static int64_t last_seen(const struct attend_sequence *sequence, int64_t p) {
    int64_t right = sequence->right, length = sequence->length;
    if (right < 0)
        return length;
    return kvmill_max(0, kvmill_min(length, p < 0 ? p + 1 + right : sum_at_most(p + 1, right)));
}

static void see_window(const struct attend_sequence *sequence, int64_t t, int64_t *first,
                       int64_t *last) {
    int64_t p = position_of(sequence, t), left = sequence->left;
    *last = last_seen(sequence, p);
    *first = left < 0 || left >= p ? 0 : p - left;
    *first = kvmill_max(*first, sequence->first);
    *first = kvmill_max(kvmill_min(*first, *last), *last - sequence->most);
    if (t >= sequence->tokens)
        *first = *last;
}

void kvmill_see(const struct attend_sequence *sequence, int64_t t, int64_t *first, int64_t *last) {
    *first = 0;
    *last = sequence->length;
    if (sequence->ranges[0].data != NULL) {
        *last = kvmill_min(*last, number_at(&sequence->ranges[1], t));
        *first = kvmill_min(*last, number_at(&sequence->ranges[0], t));
    } else if (sequence->cells.data == NULL) {
        see_window(sequence, t, first, last);
    }
}

const unsigned char *kvmill_mask_at(const struct attend_view *view,
                                    const struct attend_sequence *sequence, int64_t b, int64_t head,
                                    int64_t t, int64_t position) {
    if (view->mask.rows.data == NULL) /* no columns, and no memory */
        return NULL;
    return row_at(view, &view->mask.rows, b, head, t) +
           (sequence->column + position) * view->mask.key;
}

void kvmill_see_through(const struct attend_view *view, const struct attend_sequence *sequence,
                        int64_t b, int64_t head, int64_t t, int64_t *first, int64_t *last) {
    kvmill_see(sequence, t, first, last);
    if (!view->mask.skips || *first >= *last)
        return;
    const unsigned char *from = kvmill_mask_at(view, sequence, b, head, t, *first);
    int64_t hidden = kvmill_hidden_before(&view->mask, from, *last - *first);
    *first += hidden;
    *last -= kvmill_hidden_after(&view->mask, from + hidden * view->mask.key, *last - *first);
}

int64_t kvmill_find_sequence(int64_t batch, int64_t (*before)(const void *context, int64_t b),
                             const void *context, int64_t number) {
    int64_t first = 0, last = batch - 1;
    while (first < last) {
        int64_t middle = last - (last - first) / 2;
        if (before(context, middle) <= number)
            first = middle;
        else
            last = middle - 1;
    }
    return first;
}
