/* Selects pages of a row: the first pages, the last, and the best between them.  With two scores,
   it selects the best by the first score, and then the best of the remaining pages by the second.
   Pages have one total order, by descending score, then by ascending number, so the set does not
   depend on the method.

   SPDX-License-Identifier: Apache-2.0 */
#include "../core/numbers.h"
#include "../portable/portable.h"
#include "../portable/score_key.h"
#include "flow_portable.h"

/* ---- Sorting ---- */

/* Whether page a comes after page b. */
static bool is_after(const float *score, int32_t a, int32_t b) {
    uint32_t first = kvmill_score_key(score[a]), second = kvmill_score_key(score[b]);
    return first < second || (first == second && a > b);
}

/* Sift entry i of a heap down to its place. */
static void sink(const float *score, int32_t *list, int64_t count, int64_t i) {
    for (int64_t child; (child = 2 * i + 1) < count; i = child) {
        if (child + 1 < count && is_after(score, list[child + 1], list[child]))
            child++;
        if (!is_after(score, list[child], list[i]))
            return;
        int32_t entry = list[i];
        list[i] = list[child];
        list[child] = entry;
    }
}

/* Heapsort: the page that comes last is at the top. */
static void sort_by_score(const float *score, int32_t *list, int64_t count) {
    for (int64_t i = count / 2; i > 0; i--)
        sink(score, list, count, i - 1);
    for (int64_t last = count - 1; last > 0; last--) {
        int32_t entry = list[0];
        list[0] = list[last];
        list[last] = entry;
        sink(score, list, last, 0);
    }
}

/* ---- Lists ---- */

static void list_run(int64_t first, int64_t count, int32_t *list) {
    for (int64_t i = 0; i < count; i++)
        list[i] = (int32_t)(first + i);
}

void kvmill_flow_list_all(const struct flow_row *row, int32_t *list) {
    list_run(0, row->pages, list);
}

static void select_best(const struct flow_selector *selector, const float *score, int64_t count,
                        int64_t wanted, int32_t *list) {
    const struct kvmill_select_pages pages = {score, count, wanted, list, selector->keys};
    const struct kvmill_call_size size = {1, 1, count};
    const struct kvmill_kernel *kernel =
        selector->kernels == NULL ? &kvmill_portable_select_pages
                                  : kvmill_selected_kernel(&selector->kernels->select, &size);
    kernel->run(&pages, 0, 1);
}

/* List the candidates that are not in list[0 .. taken), which ascends.  Returns how many. */
static int64_t find_left(const struct flow_selector *selector, const float *second,
                         int64_t candidates, const int32_t *list, int64_t taken) {
    int64_t left = 0, next = 0;
    for (int64_t i = 0; i < candidates; i++) {
        if (next < taken && list[next] == i) {
            next++;
            continue;
        }
        selector->left[left] = (int32_t)i;
        selector->left_score[left++] = second[i];
    }
    return left;
}

/* Append to the `taken` entries of the list. */
static void select_second(const struct flow_selector *selector, const float *second,
                          int64_t candidates, int64_t taken, int64_t wanted, int32_t *list) {
    int64_t left = find_left(selector, second, candidates, list, taken);
    select_best(selector, selector->left_score, left, wanted, list + taken);
    for (int64_t i = taken; i < taken + wanted; i++)
        list[i] = selector->left[list[i]];
}

/* Merge two ascending runs, using `room`. */
static void merge_runs(int32_t *list, int64_t first, int64_t second, int32_t *room) {
    memcpy(room, list + first, (size_t)second * sizeof *room);
    while (second > 0) {
        bool takes_first = first > 0 && list[first - 1] > room[second - 1];
        list[first + second - 1] = takes_first ? list[first - 1] : room[second - 1];
        *(takes_first ? &first : &second) -= 1;
    }
}

/* Select `wanted` of the candidates, as indices. */
static void list_best(const struct kvmill_flow_problem *problem,
                      const struct flow_selector *selector, const struct flow_scores *scores,
                      int64_t candidates, int64_t wanted, int32_t *list) {
    int64_t second = kvmill_min(problem->second, wanted), first = wanted - second;
    if (first > 0)
        select_best(selector, scores->first, candidates, first, list);
    if (second > 0)
        select_second(selector, scores->second, candidates, first, second, list);
    if (problem->by_score) {
        sort_by_score(scores->first, list, first);
        sort_by_score(scores->second, list + first, second);
    } else if (second > 0) {
        merge_runs(list, first, second, selector->left);
    }
}

/* Move the request's last page, if it is listed, to the end: it may be partial. */
static void put_last(int32_t *list, int64_t count, int32_t last) {
    int64_t at = 0;
    while (at < count && list[at] != last)
        at++;
    for (; at + 1 < count; at++) {
        list[at] = list[at + 1];
        list[at + 1] = last;
    }
}

void kvmill_flow_list(const struct kvmill_flow_problem *problem, const struct flow_row *row,
                      const struct flow_selector *selector, const struct flow_scores *scores,
                      int32_t *list) {
    int64_t bos = problem->budget.bos, eos = problem->budget.eos;
    int64_t wanted = row->selected - bos - eos;
    list_run(0, bos, list);
    if (wanted > 0)
        list_best(problem, selector, scores, row->pages - bos - eos, wanted, list + bos);
    for (int64_t i = 0; i < wanted; i++)
        list[bos + i] += (int32_t)bos;
    list_run(row->pages - eos, eos, list + bos + wanted);
    if (problem->by_score && kvmill_flow_last_is_scored(problem))
        put_last(list, row->selected, (int32_t)(row->pages - 1));
}

void kvmill_flow_absolute(const struct kvmill_flow_problem *problem, const int32_t *list,
                          int64_t count, const int32_t *ids, int64_t head,
                          const struct flow_ids *absolute, int64_t first) {
    int64_t blocks = problem->page_blocks;
    for (int64_t i = 0; i < count; i++) {
        int64_t page = ids[list[i] / blocks] * problem->geometry.kv_heads + head;
        int64_t id = page * blocks + list[i] % blocks;
        if (absolute->wide)
            ((int64_t *)absolute->data)[first + i] = id;
        else
            ((int32_t *)absolute->data)[first + i] = (int32_t)id;
    }
}
