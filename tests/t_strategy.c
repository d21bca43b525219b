/* Search strategies on invented costs, with the test's own clock.

   SPDX-License-Identifier: Apache-2.0 */
#include "../tune/random.h"
#include "../tune/strategy_kind.h"
#include "program.h"

enum { SIDE = 12 };
static const int64_t numbers[SIDE] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
static const char *const words[] = {"a", "b", "c"};
static const struct parameter parameters[] = {
    {"x", numbers, NULL, SIDE, 1}, {"y", numbers, NULL, SIDE, 2}, {"w", NULL, words, 3, 0}};

static bool below_diagonal(const struct space *space, const struct point *point) {
    (void)space;
    return numbers[point->at[0]] + numbers[point->at[1]] <= 20;
}

static const struct space space = {parameters, 3, below_diagonal, NULL};

/* A bowl around (9, 8, "c"), with ripples that make local optima. */
static double cost_of(const struct point *point) {
    double x = point->at[0] - 8.0, y = point->at[1] - 7.0;
    return 100 + x * x + y * y + 9 * (2 - point->at[2]) +
           12 * ((point->at[0] + point->at[1]) % 4 == 2);
}

static double best_cost(void) {
    struct point point;
    double best = 1e9;
    for (bool more = space_first(&space, &point); more; more = space_next(&space, &point))
        best = cost_of(&point) < best ? cost_of(&point) : best;
    return best;
}

/* ---- A complete search ---- */

struct run {
    uint64_t trace; /* hash of all questions in order */
    int64_t asked;
    bool default_first, repeated, illegal;
    double best;
    enum answer end;
    double now; /* the clock; each measurement takes a second */
};

static double clock_of(void *run) {
    return ((struct run *)run)->now;
}

/* Every fifth point fails. */
static bool fails(const struct point *point) {
    return (point->at[0] * 7 + point->at[1]) % 5 == 0 && (point->at[0] != 1 || point->at[1] != 2);
}

static void answer(struct search *search, const struct question *question, struct run *run,
                   bool failing) {
    bool failed = failing && fails(&question->point);
    run->trace = run->trace * 31 + question->point.at[0] + 12u * question->point.at[1] +
                 144u * question->point.at[2] + 1000u * (unsigned)question->samples;
    run->illegal |= !space_holds(&space, &question->point);
    run->asked++;
    run->now++;
    must(search_tell(search, &question->point, failed ? OUTCOME_COMPILE : OUTCOME_MEASURED,
                     cost_of(&question->point), question->samples),
         "no memory");
}

static void run_to_end(struct search *search, struct run *run, bool failing) {
    struct question question;
    struct point first = space_default(&space), best;
    while ((run->end = search_ask(search, &question)) == ANSWER_POINT) {
        if (run->asked == 0)
            run->default_first = points_equal(&question.point, &first);
        answer(search, &question, run, failing);
    }
    run->best = search_best(search, &best) ? cost_of(&best) : 1e9;
}

static struct search *open_search(const char *strategy, uint64_t seed, int64_t evaluations,
                                  double seconds, struct run *run) {
    struct error error;
    struct search_options options = {strategy, seed, 27, evaluations, seconds, clock_of, run};
    struct search *search = search_open(&space, &options, &error);
    must(search != NULL, error.text);
    return search;
}

static void close_search(struct search **search) {
    search_close(*search);
}

static struct run search_with(const char *strategy, uint64_t seed, int64_t evaluations,
                              double seconds, bool failing) {
    struct run run = {0};
    OWN(close_search)
    struct search *search = open_search(strategy, seed, evaluations, seconds, &run);
    run_to_end(search, &run, failing);
    return run;
}

/* ---- Properties of every strategy ---- */

static void test_strategy(const char *strategy) {
    struct run run = search_with(strategy, 1, 0, 0, false),
               again = search_with(strategy, 1, 0, 0, false);
    struct run failing = search_with(strategy, 1, 0, 0, true);
    struct run few = search_with(strategy, 1, 20, 0, false),
               one = search_with(strategy, 1, 1, 0, false);
    struct run brief = search_with(strategy, 1, 0, 10, false),
               none = search_with(strategy, 1, 0, 1e-9, false);
    ok(run.default_first && !run.illegal, "%s: the default first, then legal points", strategy);
    ok(run.end == ANSWER_DONE && run.best <= best_cost() + 9, "%s: ends near the best: %g of %g",
       strategy, run.best, best_cost());
    ok(run.trace == again.trace && run.asked == again.asked,
       "%s: the same again from the same seed", strategy);
    ok(failing.end == ANSWER_DONE && failing.best < 1e9, "%s: goes on when candidates fail",
       strategy);
    ok(few.end == ANSWER_EXPIRED && few.asked == 20, "%s: asks no more than its budget, %d",
       strategy, (int)few.asked);
    ok(one.asked == 1 && one.default_first, "%s: a budget of one is the default", strategy);
    ok(brief.end == ANSWER_EXPIRED && brief.asked == 10, "%s: ends when its time is over",
       strategy);
    ok(none.asked == 1 && none.default_first, "%s: a time too short for one is the default",
       strategy);
}

/* Resumes with half of an earlier search's results: the search ends the same, and asks nothing
   twice. */
static void test_resume(const char *strategy) {
    struct run whole = search_with(strategy, 3, 0, 0, false), first = {0}, second = {0};
    OWN(close_search)
    struct search *search = open_search(strategy, 3, 0, 0, &first),
                  *resumed = open_search(strategy, 3, 0, 0, &second);
    struct question question;
    while (first.asked < whole.asked / 2 && search_ask(search, &question) == ANSWER_POINT) {
        answer(search, &question, &first, false);
        answer(resumed, &question, &first, false);
        first.asked--;
    }
    run_to_end(resumed, &second, false);
    ok(second.best == whole.best, "%s: a resumed search ends where the whole one does", strategy);
    ok(second.asked == whole.asked - whole.asked / 2, "%s: and asks for the rest alone, %d of %d",
       strategy, (int)second.asked, (int)whole.asked);
}

/* A search waits for results that come late and in any order. */
static void test_batches(const char *strategy) {
    struct run run = {0};
    OWN(close_search) struct search *search = open_search(strategy, 2, 0, 0, &run);
    struct question questions[1024];
    int held, widest = 0;
    enum answer end = ANSWER_WAIT;
    while (end == ANSWER_WAIT) {
        for (held = 0; held < 1024 && (end = search_ask(search, &questions[held])) == ANSWER_POINT;
             held++)
            ;
        widest = held > widest ? held : widest;
        while (held > 0)
            answer(search, &questions[--held], &run, false);
    }
    ok(end == ANSWER_DONE && run.asked == search->evaluations, "%s: may be told late", strategy);
    ok(widest >= 4, "%s: asks for up to %d at once", strategy, widest);
}

static void test_all_failing(const char *strategy) {
    struct run run = {0};
    OWN(close_search) struct search *search = open_search(strategy, 2, 60, 0, &run);
    struct question question;
    struct point best;
    while (search_ask(search, &question) == ANSWER_POINT && run.asked++ < 1000)
        search_tell(search, &question.point, OUTCOME_COMPILE, 0, question.samples);
    ok(run.asked <= 60 && !search_best(search, &best), "%s: ends where every candidate fails",
       strategy);
}

TEST(strategies) {
    for (int i = 0; strategy_names[i] != NULL; i++) {
        test_strategy(strategy_names[i]);
        test_resume(strategy_names[i]);
        test_batches(strategy_names[i]);
        test_all_failing(strategy_names[i]);
    }
}

/* ---- Properties of some strategies ---- */

TEST(exhaustive) {
    struct run run = search_with("exhaustive", 0, 0, 0, false);
    ok(run.asked == space_count(&space, 1000) && run.best == best_cost(),
       "exhaustive asks for all, once");
    run = search_with("random", 7, 0, 0, false);
    ok(run.asked == space_count(&space, 1000) && run.best == best_cost(),
       "so does random, without a budget");
    ok(search_with("random", 7, 40, 0, false).trace != search_with("random", 8, 40, 0, false).trace,
       "another seed gives other points");
}

TEST(frugality) {
    int64_t all = space_count(&space, 1000);
    struct run greedy = search_with("greedy", 1, 0, 0, false),
               halving = search_with("halving", 1, 0, 0, false);
    ok(greedy.asked < all * 2 / 3, "greedy asks for %d of %d", (int)greedy.asked, (int)all);
    ok(halving.asked < all * 3 / 2 && halving.best == best_cost(),
       "halving asks %d times, mostly for few samples", (int)halving.asked);
}

/* The budget is spent before the search began, or while questions are open. */
TEST(spent) {
    struct run run = {0};
    struct question question, late;
    struct point first = space_default(&space);
    struct search *search = open_search("random", 1, 0, 3, &run);
    run.now = 5;
    bool asked = search_ask(search, &question) == ANSWER_POINT;
    ok(asked && points_equal(&question.point, &first),
       "the default is asked for when time is over");
    answer(search, &question, &run, false);
    ok(search_ask(search, &question) == ANSWER_EXPIRED, "and nothing else");
    search_close(search);
    search = open_search("random", 1, 3, 0, &run);
    asked = search_ask(search, &question) == ANSWER_POINT;
    answer(search, &question, &run, false);
    asked = asked && search_ask(search, &question) == ANSWER_POINT &&
            search_ask(search, &late) == ANSWER_POINT;
    ok(asked && search_ask(search, &(struct question){0}) == ANSWER_WAIT,
       "a spent budget waits for what is under way");
    answer(search, &question, &run, false);
    answer(search, &late, &run, false);
    ok(search_ask(search, &question) == ANSWER_EXPIRED, "and ends after it");
    search_close(search);
}

/* Searches by greedy with the test's own costs; returns the best cost. */
static double climb(double (*cost)(const struct point *), uint64_t seed, int64_t *asked) {
    struct run run = {0};
    struct question question;
    struct point best;
    OWN(close_search) struct search *search = open_search("greedy", seed, 0, 0, &run);
    for (*asked = 0; search_ask(search, &question) == ANSWER_POINT && *asked < 5000; ++*asked)
        search_tell(search, &question.point, OUTCOME_MEASURED, cost(&question.point),
                    question.samples);
    double found = search_best(search, &best) ? cost(&best) : 1e9;
    return found;
}

static double flat(const struct point *point) {
    (void)point;
    return 1;
}

/* A wide valley around the default, and a deeper, small one at the other end. */
static double two_valleys(const struct point *point) {
    double near = abs(point->at[0] - 1) + abs(point->at[1] - 2);
    double far = abs(point->at[0] - 10) + abs(point->at[1] - 6);
    return far < 4 ? far : 10 + near;
}

TEST(landscapes) {
    int64_t asked;
    int found = 0;
    double level = climb(flat, 1, &asked);
    ok(level == 1 && asked < 500, "greedy ends on a plain, after %d", (int)asked);
    for (uint64_t seed = 1; seed <= 20; seed++)
        found += climb(two_valleys, seed, &asked) == 0;
    ok(found >= 15, "greedy finds a second valley from %d of 20 seeds", found);
}

/* A few lucky samples do not beat a full measurement, and more samples than full do not count
   more. */
TEST(best) {
    static const struct {
        struct point point;
        double cost;
        int samples;
    } told[] = {{{{1}}, 5, 27}, {{{2}}, 1, 3}, {{{3}}, 6, 81}, {{{4}}, 0, 0}};
    struct run run = {0};
    struct point best;
    OWN(close_search) struct search *search = open_search("random", 1, 0, 0, &run);
    ok(!search_best(search, &best), "nothing is the best of nothing");
    for (int i = 0; i < 4; i++)
        search_tell(search, &told[i].point, told[i].samples ? OUTCOME_MEASURED : OUTCOME_WRONG,
                    told[i].cost, told[i].samples);
    ok(search_best(search, &best) && best.at[0] == 1,
       "the best is the best of those that were measured in full");
}

TEST(defaults) {
    struct error error;
    struct search_options options = {.strategy = "simulated"};
    ok(!strcmp(strategy_for(1), "exhaustive") && !strcmp(strategy_for(64), "exhaustive") &&
           !strcmp(strategy_for(65), "halving") && !strcmp(strategy_for(100000), "greedy"),
       "the strategy follows the size of the space");
    ok(search_open(&space, &options, &error) == NULL && error.exit_code == EXIT_USER &&
           strstr(error.text, "\"simulated\"; accepted: exhaustive, random, greedy, halving"),
       "an unknown strategy is refused");
    options.strategy = NULL;
    OWN(close_search) struct search *search = search_open(&space, &options, &error);
    ok(search != NULL && !strcmp(search->kind->name, strategy_for(space_count(&space, 1000))),
       "no name gives that strategy");
}
