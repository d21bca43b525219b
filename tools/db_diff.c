/* SPDX-License-Identifier: Apache-2.0 */
#include "db_diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/text.h"
#include "../tune/ranking.h"
#include "../tune/sweep_name.h"

enum { WORK_COLUMN = 84 };

struct side {
    const struct sweep *sweep;
    struct ranking ranking;
    const struct standing *winner; /* or NULL */
};

static bool open_side(const struct sweep *sweep, struct side *side, struct error *error) {
    *side = (struct side){.sweep = sweep};
    if (sweep == NULL)
        return true;
    bool done = sweep_rank(sweep, &side->ranking, error);
    if (done && side->ranking.winner >= 0)
        side->winner = &side->ranking.items[side->ranking.winner];
    return done;
}

static const char *judge(const struct summary *gain) {
    if (gain->median > 1 + TIE_BAND && gain->low > 1)
        return "faster";
    return gain->median < 1 - TIE_BAND && gain->high < 1 ? "slower" : "same";
}

/* Prints a winner's gain over the default of its own sweep.  Unlike times, gains are comparable
   between machines of different speed. */
static void print_own_gain(const struct standing *winner) {
    if (winner->gain.median > 0)
        print_shown(stdout, "  %5.2f", winner->gain.median);
    else
        print_shown(stdout, "  %5s", "-");
}

static void print_difference(const struct side *a, const struct side *b, const char *apart) {
    char words[WORK_SIZE];
    sweep_work_words(a->sweep != NULL ? &a->sweep->key : &b->sweep->key, words);
    int width = WORK_COLUMN - (int)strlen(words);
    print_shown(stdout, "%s%-*s ", words, width > 0 ? width : 0, apart);
    if (a->winner == NULL || b->winner == NULL) {
        print_shown(stdout, "%s\n",
                    a->sweep == NULL   ? "only in the second"
                    : b->sweep == NULL ? "only in the first"
                                       : "no winner in one of them");
        return;
    }
    struct summary gain = summary_quotient(&a->winner->time, &b->winner->time);
    print_shown(stdout, "%-6s %5.2f (%.2f to %.2f)  ", judge(&gain), gain.median, gain.low,
                gain.high);
    print_own_gain(a->winner);
    print_own_gain(b->winner);
    const char *first = a->winner->result->candidate, *second = b->winner->result->candidate;
    bool same = strcmp(first, second) == 0;
    print_shown(stdout, "  %s%s%s\n", first, same ? "" : " -> ", same ? "" : second);
}

static bool print_pair(const struct sweep *a, const struct sweep *b, const struct sweeps *all,
                       struct error *error) {
    struct side first = {0}, second = {0};
    struct text apart = {0};
    bool done = open_side(a, &first, error) && open_side(b, &second, error) &&
                (sweep_tell_apart(a != NULL ? &a->key : &b->key, all, FACTS_OF_WORK, &apart) ||
                 out_of_memory(error));
    if (done)
        print_difference(&first, &second, apart.data != NULL ? apart.data : "");
    text_free(&apart);
    ranking_free(&first.ranking);
    ranking_free(&second.ranking);
    return done;
}

/* Whether sweep i is the latest about its work. */
static bool is_latest(const struct sweeps *sweeps, size_t i) {
    return sweeps_latest(sweeps, &sweeps->items[i].key) == &sweeps->items[i];
}

static bool print_all(const struct sweeps *a, const struct sweeps *b, const struct sweeps *all,
                      struct error *error) {
    bool done = true;
    print_shown(stdout, "%-*s %-6s %s  %s  %s\n", WORK_COLUMN, "WORK", "SECOND",
                "SPEED OVER THE FIRST", "OVER DEFAULTS", "WINNER");
    for (size_t i = 0; done && i < a->count; i++)
        if (is_latest(a, i))
            done = print_pair(&a->items[i], sweeps_latest(b, &a->items[i].key), all, error);
    for (size_t i = 0; done && i < b->count; i++)
        if (is_latest(b, i) && sweeps_latest(a, &b->items[i].key) == NULL)
            done = print_pair(NULL, &b->items[i], all, error);
    return done;
}

bool db_print_differences(const struct sweeps *a, const struct sweeps *b, struct error *error) {
    struct sweeps all = {calloc(a->count + b->count + 1, sizeof *all.items), a->count + b->count};
    if (all.items == NULL)
        return out_of_memory(error);
    for (size_t i = 0; i < all.count; i++)
        all.items[i] = i < a->count ? a->items[i] : b->items[i - a->count];
    bool done = print_all(a, b, &all, error);
    free(all.items); /* `a` and `b` own the sweeps */
    return done;
}
