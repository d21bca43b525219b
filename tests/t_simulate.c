/* Sweeps: their text, their ranks, and strategies replayed on them.

   SPDX-License-Identifier: Apache-2.0 */
#include "../tune/resume.h"
#include "../tune/simulate.h"
#include "../tune/sweep_name.h"
#include "../tune/sweep_text.h"
#include "common.h"
#include "sweeps.h"

static struct error error;
static struct sweeps sweeps;
static struct ranking ranking;
static struct sweep_space *space;

static struct replay replay(const char *strategy, uint64_t seed, int64_t evaluations,
                            double seconds) {
    struct replay_options options = {strategy, seed, 0.02, evaluations, seconds, 0.25};
    struct replay result;
    must(simulate(&ranking, space, &options, &result, &error), error.text);
    return result;
}

/* ---- Names ---- */

static void print_name(const struct sweep_key *key, const struct sweeps *among,
                       enum sweep_facts facts, struct text *name) {
    char words[WORK_SIZE];
    sweep_work_words(key, words);
    must(text_print(name, "%s", words) && sweep_tell_apart(key, among, facts, name),
         "out of memory");
}

/* Returns a key that differs from another in one string or number, by an end that words of the work
   do not show: two keys for each string. */
enum { CHANGES = 2 * KEY_STRINGS + 3 };
static struct sweep_key changed_key(const struct sweep_key *key, int change, char *changed) {
    struct sweep_key other = *key;
    int which = change < 2 * KEY_STRINGS ? change / 2 : change - KEY_STRINGS;
    if (which < KEY_STRINGS) {
        sprintf(changed, "%s%0200d", sweep_key_text(key, which), change % 2);
        *sweep_key_string(&other, which) = changed;
    }
    other.bytes += which == KEY_STRINGS;
    other.flops += which == KEY_STRINGS + 1;
    other.threads += which == KEY_STRINGS + 2;
    return other;
}

TEST(names) {
    char changed[CHANGES][2000];
    OWN(sweeps_free) struct sweeps all = {0};
    OWN(text_free) struct text own = {0}, first = {0};
    const struct sweep_result result = made_result(1, 1, 0, 0.01);
    const struct sweep_key key = made_key(0);
    must(sweeps_add(&all, &key, &result, &error), error.text);
    print_name(&key, &all, ALL_FACTS, &own);
    ok(strstr(own.data, " bytes") == NULL, "a sweep alone is named by its work: %s", own.data);
    for (int i = 0; i < CHANGES; i++) {
        const struct sweep_key other = changed_key(&key, i, changed[i]);
        must(sweeps_add(&all, &other, &result, &error), error.text);
    }
    int same = 0;
    for (size_t a = 0; a < all.count; a++)
        for (size_t b = 0; b < a; b++) {
            OWN(text_free) struct text x = {0}, y = {0};
            print_name(&all.items[a].key, &all, ALL_FACTS, &x);
            print_name(&all.items[b].key, &all, ALL_FACTS, &y);
            same += strcmp(x.data, y.data) == 0;
        }
    ok(all.count == CHANGES + 1 && same == 0, "names of %zu sweeps differ, except %d pairs",
       all.count, same);
    print_name(&key, &all, FACTS_OF_WORK, &first);
    ok(strstr(first.data, key.cpu) == NULL && strstr(first.data, " bytes") != NULL,
       "facts that do not count are not named: %s", first.data);
}

/* ---- Texts ---- */

static void expect_refusal(const char *text, const char *words) {
    OWN(sweeps_free) struct sweeps sweeps = {0};
    ok_failed(sweeps_parse("some.tune", text, &sweeps, &error), &error, EXIT_USER,
              "some.tune:", words, "refused: %s", words);
}

/* Replaces the first line that begins with `line` by `instead`, or removes it if that is empty. */
static char *replace(const char *text, const char *line, const char *instead) {
    char start[64];
    snprintf(start, sizeof start, "\n%s", line);
    const char *at = strstr(text, start);
    if (at == NULL)
        bail_out("no line \"%s\"", line);
    struct text changed = {0};
    const char *rest = at + 1 + strcspn(at + 1, "\n") + (*instead == '\0');
    must(text_print(&changed, "%.*s%s%s", (int)(at + 1 - text), text, instead, rest),
         "out of memory");
    return changed.data;
}

ROWS(text, 3) {
    OWN(sweeps_free) struct sweeps sweeps = make_sweeps(1);
    FREED char *text = sweeps_text(&sweeps), *changed = replace(text, cells[0], cells[1]);
    expect_refusal(changed, cells[2]);
}

TABLE(sweeps);

TEST(no_texts) {
    expect_refusal("", "has no end");
    expect_refusal("kvmill-tune 2\n", "accepted: \"kvmill-tune 1\"");
}

/* A text is refused wherever it is cut. */
TEST(cuts) {
    OWN(sweeps_free) struct sweeps sweeps = make_sweeps(1);
    FREED char *text = sweeps_text(&sweeps);
    size_t length = strlen(text), accepted = 0, cuts = 0, step = is_slow_run() ? 997 : 97;
    for (size_t cut = 0; cut + 1 < length; cut += cut + 100 < length ? step : 1, cuts++) {
        OWN(sweeps_free) struct sweeps parsed = {0};
        FREED char *part = strndup(text, cut);
        bool read = sweeps_parse("x", part, &parsed, &error);
        accepted += read;
    }
    ok(accepted == 0 && cuts > 20, "a text is refused wherever it is cut, %d places", (int)cuts);
}

/* ---- Ranks ---- */

TEST(ranking) {
    OWN(sweeps_free) struct sweeps sweeps = {0};
    struct ranking ranking;
    char reason[REASON_SIZE];
    make_sweep(&sweeps, 0, 0.01);
    bool done = sweep_rank(&sweeps.items[0], &ranking, &error);
    ok(done && ranking.count == 58 && ranking_has_default(&ranking) &&
           strcmp(ranking.items[0].result->candidate, "tile=2 strip=2 path=float") == 0,
       "a ranking begins with the default");
    const struct standing *best = &ranking.items[1], *last = &ranking.items[57];
    ok(strcmp(best->result->candidate, "tile=8 strip=4 path=half") == 0 &&
           best->gain.median > 1.45 && best->gain.median < 1.55 && ranking.winner == 1,
       "the fastest wins: %s, %.2f", best->result->candidate, best->gain.median);
    ok(best->share > 0.7 && best->share < 0.9, "at %.2f of the limit", best->share);
    ok(last->result->outcome == OUTCOME_COMPILE && last->time.count == 0, "failures are last");
    ranking_reason(&ranking, reason);
    ok(strstr(reason, "the fastest"), "because it is %s", reason);
    ranking_free(&ranking);
    struct sweep without = sweeps.items[0];
    for (size_t i = 0; i < without.count; i++)
        without.results[i].is_default = false;
    ok(sweep_rank(&without, &ranking, &error) && ranking.winner == -1 &&
           !ranking_has_default(&ranking),
       "without a default there is no winner");
    ranking_free(&ranking);
}

/* The result with the most samples counts for a candidate; of several with as many, the latest. */
TEST(standing) {
    static const struct {
        int samples, hour;
    } results[] = {{5, 9}, {15, 3}, {15, 4}, {15, 2}, {7, 8}};
    OWN(sweeps_free) struct sweeps sweeps = {0};
    struct sweep_key key = made_key(0);
    OWN(ranking_free) struct ranking ranking;
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        struct sweep_result result = made_result(2, 2, 0, 0);
        result.sample_count = results[i].samples;
        result.measured += 3600000000ll * results[i].hour;
        must(sweeps_add(&sweeps, &key, &result, &error), error.text);
    }
    sweeps_sort(&sweeps);
    bool done = sweep_rank(&sweeps.items[0], &ranking, &error);
    int64_t hour = (ranking.items[0].result->measured - 1700000000000000) / 3600000000ll;
    ok(done && ranking.count == 1 && ranking.items[0].time.count == 15 && hour == 4,
       "a candidate stands by its longest measurement, of those by the latest: hour %d", (int)hour);
}

/* ---- Replays ---- */

TEST(space) {
    const struct space *s = sweep_space_of(space);
    ok(s->count == 3 && strcmp(s->parameters[0].name, "tile") == 0 && s->parameters[0].count == 6 &&
           s->parameters[0].values[5] == 32 && s->parameters[2].words != NULL,
       "a sweep's space is found in its candidates");
    ok(space_count(s, 1000) == 58, "with a point for each of them, %d", (int)space_count(s, 1000));
    struct point preset = space_default(s);
    ok(sweep_space_at(space, &preset) == &ranking.items[0], "its default is the sweep's");
    int wrong = 0;
    for (size_t i = 0; i < ranking.count; i++)
        wrong += sweep_space_at(space, sweep_space_point(space, i)) != &ranking.items[i];
    ok(wrong == 0, "points and standings belong together");
    ok(sweep_space_at(space, &(struct point){{5, 4, 0}}) == NULL, "what was not measured has none");
}

/* Counts questions: the default, then all others in order, until one is fast enough. */
static int64_t count_until(double within) {
    const struct space *s = sweep_space_of(space);
    struct point point, preset = space_default(s);
    double best = ranking.items[1].gain.median;
    int64_t count = 1;
    for (bool more = space_first(s, &point); more; more = space_next(s, &point)) {
        count += !points_equal(&point, &preset);
        if (sweep_space_at(space, &point)->gain.median * (1 + within) >= best)
            return count;
    }
    return 0;
}

TEST(replays) {
    for (int i = 0; strategy_names[i] != NULL; i++) {
        const char *name = strategy_names[i];
        struct replay first = replay(name, 1, 0, 0), again = replay(name, 1, 0, 0);
        ok(first.evaluations > 0 && first.evaluations <= first.all && first.slowdown < 1.03,
           "%s is near the best after %d of %d evaluations", name, (int)first.evaluations,
           (int)first.all);
        ok(memcmp(&first, &again, sizeof first) == 0, "%s does the same again", name);
        struct replay brief = replay(name, 1, 0, 3);
        ok(brief.all >= 10 && brief.all <= 13,
           "%s: 3 seconds of the stored clock are %d evaluations", name, (int)brief.all);
    }
    struct replay all = replay("exhaustive", 1, 0, 0), one = replay("random", 1, 1, 0);
    ok(all.all == 58 && fabs(all.slowdown - 1) < 1e-12, "exhaustive finds the best itself");
    ok(one.all == 1 && one.evaluations == 0 && one.slowdown > 1.45,
       "one evaluation finds the default, %.2f", one.slowdown);
}

TEST(nearness) {
    static const double nearness[] = {0, 0.02, 0.1, 0.3};
    for (size_t i = 0; i < sizeof nearness / sizeof *nearness; i++) {
        struct replay_options options = {.strategy = "exhaustive", .within = nearness[i]};
        struct replay result;
        struct error error;
        bool done = simulate(&ranking, space, &options, &result, &error);
        int64_t expected = count_until(nearness[i]);
        ok(done && result.evaluations == expected, "within %.2f after %d evaluations", nearness[i],
           (int)expected);
    }
}

TEST(comparison) {
    struct replay_options options = {.strategy = "greedy", .within = 0.02};
    struct comparison greedy, random;
    bool done = simulate_seeds(&ranking, space, &options, 20, &greedy, &error);
    options.strategy = "random";
    done = done && simulate_seeds(&ranking, space, &options, 20, &random, &error);
    ok(done && greedy.misses == 0 && greedy.median < random.median && random.worst <= 58,
       "where valleys are smooth greedy needs %d evaluations, random %d", (int)greedy.median,
       (int)random.median);
    options.evaluations = 5;
    done = simulate_seeds(&ranking, space, &options, 20, &random, &error);
    ok(done && random.misses > 10 && random.slowdown > 1.05, "with a budget of 5, %d of 20 miss it",
       random.misses);
}

/* ---- Resuming ---- */

/* Counts questions until the end, all answered with failures; returns -1 after an error. */
static int64_t count_questions(const struct space *given, const struct sweep *sweep, int samples,
                               struct resumption *resumption) {
    struct question question;
    int64_t asked = 0;
    struct search_options options = {.strategy = "exhaustive", .samples = samples};
    struct search *search = search_open(given, &options, &error);
    must(search != NULL && search_resume(search, given, sweep, resumption, &error), error.text);
    for (; search_ask(search, &question) == ANSWER_POINT; asked++)
        search_tell(search, &question.point, OUTCOME_REFUSED, 0, question.samples);
    search_close(search);
    return asked;
}

TEST(best) {
    struct resumption resumption;
    struct point best;
    struct search_options options = {.strategy = "random"};
    struct search *search = search_open(sweep_space_of(space), &options, &error);
    bool found =
        search != NULL &&
        search_resume(search, sweep_space_of(space), &sweeps.items[0], &resumption, &error) &&
        search_best(search, &best);
    ok(found && sweep_space_at(space, &best) == &ranking.items[1], "the best of a sweep is known");
    search_close(search);
}

TEST(resume) {
    const struct space *whole = sweep_space_of(space);
    struct sweep half = sweeps.items[0];
    struct resumption resumption;
    int64_t asked = count_questions(whole, &half, MADE_SAMPLES, &resumption);
    ok(asked == 0 && resumption.known == 58, "what a sweep knows is not asked again");
    half.count /= 2;
    asked = count_questions(whole, &half, MADE_SAMPLES, &resumption);
    ok(asked == 29 && resumption.known == 29, "the rest is");
    struct parameter fewer[3];
    memcpy(fewer, whole->parameters, sizeof fewer);
    fewer[0].count = 2; /* tiles of 1 and 2 */
    struct space narrow = {fewer, 3, NULL, NULL};
    count_questions(&narrow, &sweeps.items[0], MADE_SAMPLES, &resumption);
    ok(resumption.known == 20 && resumption.strange == 38, "what is not in the space is counted");
}

/* A full measurement needs one sample more than these sweeps have. */
TEST(few_samples) {
    OWN(sweeps_free) struct sweeps noisy = {0}, quiet = {0};
    struct resumption resumption;
    int failures = 0;
    make_sweep(&noisy, 0, 0.2);
    make_sweep(&quiet, 0, 0.001);
    for (size_t i = 0; i < noisy.items[0].count; i++)
        failures += noisy.items[0].results[i].outcome != OUTCOME_MEASURED;
    int64_t again =
        count_questions(sweep_space_of(space), &noisy.items[0], MADE_SAMPLES + 1, &resumption);
    ok(failures > 0 && again == 57 - failures,
       "what has too few samples is asked again, but no failure, nor the default");
    again = count_questions(sweep_space_of(space), &quiet.items[0], MADE_SAMPLES + 1, &resumption);
    ok(again == 0, "what is tight has enough");
}

TEST(refusals) {
    struct replay_options options = {.strategy = "greedy"};
    struct replay result;
    struct sweep broken = sweeps.items[0];
    OWN(ranking_free) struct ranking other;
    for (size_t i = 0; i < broken.count; i++)
        broken.results[i].is_default = false;
    bool ranked = sweep_rank(&broken, &other, &error);
    ok(ranked && !simulate(&other, space, &options, &result, &error) &&
           error.exit_code == EXIT_USER,
       "a sweep without a default is not replayed");
    static const char *const bad[] = {"tile=8 strip=1", "tile=8 path=half strip=1", "fast",
                                      "tile=8 strip=1 path=half x=1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct sweep_result odd = broken.results[3];
        odd.candidate = (char *)bad[i];
        other.items[1].result = &odd;
        ok(sweep_space_open(&other, &error) == NULL && strstr(error.text, bad[i]),
           "\"%s\" does not fit the others", bad[i]);
    }
}

void before_tests(void) {
    make_sweep(&sweeps, 0, 0.01);
    must(sweep_rank(&sweeps.items[0], &ranking, &error) &&
             (space = sweep_space_open(&ranking, &error)) != NULL,
         error.text);
}

/* Frees everything, for sanitizers that report leaks. */
TEST(end) {
    sweep_space_close(space);
    ranking_free(&ranking);
    sweeps_free(&sweeps);
}
