/* SPDX-License-Identifier: Apache-2.0 */
#include "tune_walk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../base/text.h"
#include "../ops/extent.h"
#include "../tune/resume.h"
#include "candidate.h"
#include "tune_space.h"

/* The final: a candidate's speed must be at least this share of the fastest's, and it gets so many
   times the samples. */
#define FINAL_BAND 0.95
enum { FINAL_ROUNDS = 3 };

/* ---- The pack without the kernels that are tuned ---- */

struct rest {
    kvmill_pack pack;
    const struct kvmill_kernel **kernels;
};

static bool set_rest(struct rest *rest, const kvmill_pack *pack, const char *symbol,
                     struct error *error) {
    rest->pack = *pack;
    rest->pack.count = 0;
    rest->kernels = malloc((pack->count + 1) * sizeof *rest->kernels);
    if (rest->kernels == NULL)
        return out_of_memory(error);
    for (uint32_t i = 0; i < pack->count; i++)
        if (pack->kernels[i]->constant_count == 0 && /* kernels with constants have priority */
            !symbols_do_the_same(symbol, pack->kernels[i]->symbol))
            rest->kernels[rest->pack.count++] = pack->kernels[i];
    rest->pack.kernels = rest->kernels;
    return true;
}

/* ---- Opening ---- */

struct walk {
    const struct tune_setting *setting;
    const struct tune_item *item;
    const struct tune_sink *sink;
    struct tune_work *work;
    struct rest rest;
    struct tune_space *space;
    struct search *search;
    struct sweep_key key;
    struct point points[MOST_CANDIDATES];
    struct candidate candidates[MOST_CANDIDATES];
    int count, least, most; /* candidates of a race, and samples of each */
    struct tune_times times;
    struct sweeps results; /* this sweep, with what was known before */
    bool any_new;          /* whether anything was measured */
    struct tune_tally tally;
};

static void set_key(struct walk *walk) {
    struct machine *machine = walk->setting->machine;
    walk->key = (struct sweep_key){
        .cpu = machine->cpu,
        .compiler = machine->compiler,
        .flags = machine->flags,
        .templates = (char *)machine_templates(machine, walk->item->symbol),
        .isa = (char *)walk->item->kernel.isa->name,
        .spec = (char *)walk->item->symbol,
        .problem = (char *)walk->item->problem->words,
        .threads = walk->setting->threads,
        .bytes = walk->work->bytes,
        .flops = walk->work->flops,
    };
}

static bool open_search(struct walk *walk, double seconds, struct error *error) {
    struct search_options search = walk->setting->search;
    search.seconds = seconds;
    walk->space = tune_space_open(&walk->item->kernel, walk->setting->isas, error);
    if (walk->space == NULL)
        return false;
    walk->search = search_open(tune_space_of(walk->space), &search, error);
    return walk->search != NULL;
}

static bool resume(struct walk *walk, const struct sweeps *known, struct error *error) {
    struct resumption resumption = {0};
    const struct sweep *sweep = sweeps_find(known, &walk->key);
    if (sweep == NULL)
        return true;
    const struct sweeps alone = {(struct sweep *)sweep, 1};
    bool done = sweeps_add_all(&walk->results, &alone, error) &&
                search_resume(walk->search, tune_space_of(walk->space), sweep, &resumption, error);
    walk->tally.known = resumption.known;
    return done;
}

static bool open_walk(struct walk *walk, const struct sweeps *known, double seconds,
                      struct error *error) {
    const struct tune_item *item = walk->item;
    const struct tune_setting *setting = walk->setting;
    if (!turns_take(setting->turns, TURN_TOGETHER, error))
        return false;
    walk->work = tune_work_open(item->problem, item->spec, setting->pack, setting->threads, error);
    if (walk->work == NULL || !set_rest(&walk->rest, setting->pack, item->symbol, error))
        return false;
    set_key(walk);
    return open_search(walk, seconds, error) && resume(walk, known, error);
}

static void close_walk(struct walk *walk) {
    search_close(walk->search);
    tune_space_close(walk->space);
    free(walk->rest.kernels);
    tune_work_close(walk->work);
    sweeps_free(&walk->results);
    free(walk);
}

/* ---- Asking ---- */

static void enter(struct walk *walk, const struct point *point) {
    walk->points[walk->count] = *point;
    walk->candidates[walk->count++] =
        (struct candidate){.kernel = tune_space_kernel(walk->space, point)};
}

/* Collects questions that can be answered together.  A count of 0 means that none are left. */
static bool ask(struct walk *walk, struct error *error) {
    struct question question;
    enum answer answer = ANSWER_WAIT;
    walk->count = walk->most = 0;
    while (walk->count < MOST_CANDIDATES &&
           (answer = search_ask(walk->search, &question)) == ANSWER_POINT) {
        enter(walk, &question.point);
        walk->most = (int)kvmill_max(walk->most, question.samples);
    }
    walk->least = (int)kvmill_min(walk->most, EARLIEST_END);
    walk->tally.cut = answer == ANSWER_EXPIRED && !search_has_enough(walk->search);
    return answer != ANSWER_NO_MEMORY || out_of_memory(error);
}

/* ---- Answering ---- */

static bool check_all(struct walk *walk, struct error *error) {
    const struct tune_setting *setting = walk->setting;
    for (int i = 0; i < walk->count; i++)
        if (!turns_take(setting->turns, TURN_TOGETHER, error) ||
            !candidate_check(&walk->candidates[i], walk->work, &walk->rest.pack, setting->threads,
                             (unsigned)setting->patience, error))
            return false;
    return true;
}

/* Races the candidates.  places[i] is the place of candidate i in the race, or -1 if it failed
   before. */
static bool race(struct walk *walk, int places[MOST_CANDIDATES], struct error *error) {
    const struct tune_length length = {walk->least, walk->most, INFINITY};
    struct owned_plan plans[MOST_CANDIDATES];
    int count = 0;
    for (int i = 0; i < walk->count; i++) {
        places[i] = walk->candidates[i].outcome == OUTCOME_MEASURED ? count : -1;
        if (places[i] >= 0)
            plans[count++] = walk->candidates[i].plan;
    }
    return count == 0 || tune_work_race(walk->work, plans, count, &length, &walk->times) ||
           out_of_memory(error);
}

static int64_t now_in_microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

bool tune_gain(const struct sweep_result *result, int compared, struct summary *gain,
               struct error *error) {
    *gain = (struct summary){0};
    return result->outcome != OUTCOME_MEASURED ||
           summarise_ratio(result->baseline, result->samples, result->sample_count, compared,
                           gain) ||
           out_of_memory(error);
}

static struct sweep_result result_of(struct walk *walk, int i, int place, char *name) {
    const struct candidate *candidate = &walk->candidates[i];
    const struct point preset = space_default(tune_space_of(walk->space));
    bool measured = place >= 0;
    return (struct sweep_result){
        .candidate = name,
        .is_default = points_equal(&walk->points[i], &preset),
        .outcome = candidate->outcome,
        .message = (char *)candidate->message,
        .samples = measured ? walk->times.candidate[place] : NULL,
        .baseline = measured ? walk->times.preset : NULL,
        .sample_count = measured ? walk->times.samples : 0,
        .limit = measured ? walk->work->limit : LIMIT_NONE,
        .limit_rate = measured ? walk->times.limit_rate : 0,
        .code_bytes = candidate->code_bytes,
        .measured = now_in_microseconds() + i,
        .environment = (char *)walk->setting->environment,
    };
}

static bool keep(struct walk *walk, int i, int place, struct error *error) {
    struct text name = {0};
    struct summary gain;
    if (!space_print(tune_space_of(walk->space), &walk->points[i], &name)) {
        text_free(&name);
        return out_of_memory(error);
    }
    const struct sweep_result result = result_of(walk, i, place, name.data);
    walk->any_new = true;
    bool done = tune_gain(&result, 1, &gain, error) &&
                sweeps_add(&walk->results, &walk->key, &result, error) &&
                walk->sink->keep(walk->sink->context, &walk->key, &result, error) &&
                (search_tell(walk->search, &walk->points[i], result.outcome,
                             gain.median > 0 ? 1 / gain.median : 0, walk->most) ||
                 out_of_memory(error));
    text_free(&name);
    return done;
}

static bool is_interrupted(const struct walk *walk) {
    return *walk->setting->interrupted != 0;
}

/* Builds and checks the candidates, while other processes of this machine may do so, too. */
static bool prepare(struct walk *walk, struct error *error) {
    const struct tune_setting *setting = walk->setting;
    return turns_take(setting->turns, TURN_TOGETHER, error) &&
           candidates_build(walk->candidates, walk->count, setting->builds, setting->jobs, error) &&
           (is_interrupted(walk) || check_all(walk, error)) &&
           turns_take(setting->turns, TURN_ALONE, error);
}

static bool answer(struct walk *walk, struct error *error) {
    int places[MOST_CANDIDATES];
    bool done = prepare(walk, error);
    bool raced = done && !is_interrupted(walk);
    done = done && (!raced || race(walk, places, error)) &&
           turns_take(walk->setting->turns, TURN_NONE, error);
    for (int i = 0; done && raced && i < walk->count; i++)
        done = keep(walk, i, places[i], error);
    for (int i = 0; i < walk->count; i++)
        candidate_close(&walk->candidates[i]);
    return done;
}

/* ---- The final: a race among the best, with more samples ---- */

/* Whether a candidate takes part in the final, to be measured again: among many, the fastest may
   just be lucky. */
static bool is_finalist(const struct standing *standing, double fastest, int full) {
    return !standing->result->is_default && standing->time.count > 0 && standing->gain.median > 1 &&
           standing->gain.median > FINAL_BAND * fastest && standing->result->sample_count <= full;
}

static bool is_entered(const struct walk *walk, const struct point *point) {
    for (int i = 0; i < walk->count; i++)
        if (points_equal(&walk->points[i], point))
            return true;
    return false;
}

static void enter_by_name(struct walk *walk, const char *candidate) {
    struct point point;
    struct error ignored;
    if (walk->count < MOST_CANDIDATES &&
        space_parse(tune_space_of(walk->space), candidate, &point, &ignored) &&
        !is_entered(walk, &point))
        enter(walk, &point);
}

/* Enters the finalists.  Item 1 of the ranking, after the default, is the fastest. */
static void enter_finalists(struct walk *walk, const struct ranking *ranking) {
    double fastest = ranking->count > 1 ? ranking->items[1].gain.median : 0;
    for (size_t i = 1; i < ranking->count; i++)
        if (is_finalist(&ranking->items[i], fastest, search_samples(walk->search)))
            enter_by_name(walk, ranking->items[i].result->candidate);
}

/* Whether there has been a final.  Another is held only after new results. */
static bool had_final(const struct ranking *ranking, int full) {
    for (size_t i = 0; i < ranking->count; i++)
        if (ranking->items[i].result->sample_count > full)
            return true;
    return false;
}

/* ---- Winners of the kernel's other problems, so that one kernel may be enough for a pack ---- */

static bool differ_in_problem(const struct sweep_key *a, const struct sweep_key *b) {
    int differences = 0;
    for (int i = 0; i < KEY_STRINGS; i++)
        if (strcmp(sweep_key_names[i], "problem") != 0)
            differences += strcmp(sweep_key_text(a, i), sweep_key_text(b, i)) != 0;
    return differences == 0 && a->threads == b->threads && strcmp(a->problem, b->problem) != 0;
}

static bool enter_winner(struct walk *walk, const struct sweep *other, struct error *error) {
    struct ranking ranking;
    bool done = sweep_rank(other, &ranking, error);
    if (done && ranking.winner > 0)
        enter_by_name(walk, ranking.items[ranking.winner].result->candidate);
    ranking_free(&ranking);
    return done;
}

static bool enter_other_winners(struct walk *walk, const struct sweeps *known,
                                struct error *error) {
    bool done = true;
    for (size_t i = 0; done && i < known->count; i++)
        if (differ_in_problem(&known->items[i].key, &walk->key))
            done = enter_winner(walk, &known->items[i], error);
    return done;
}

static bool enter_all(struct walk *walk, const struct sweeps *known, const struct ranking *ranking,
                      struct error *error) {
    bool held = had_final(ranking, search_samples(walk->search));
    if (!ranking_has_default(ranking) || (held && !walk->any_new))
        return true;
    enter_finalists(walk, ranking);
    return !walk->any_new || enter_other_winners(walk, known, error);
}

static bool hold_final(struct walk *walk, const struct sweeps *known, struct error *error) {
    struct ranking ranking;
    int full = search_samples(walk->search);
    if (walk->results.count == 0)
        return true;
    walk->count = 0;
    walk->least = (int)kvmill_min(full + 1, MOST_SAMPLES);
    walk->most = (int)kvmill_min(FINAL_ROUNDS * full, MOST_SAMPLES);
    bool done = sweep_rank(&walk->results.items[0], &ranking, error) &&
                enter_all(walk, known, &ranking, error);
    ranking_free(&ranking);
    return done && (walk->count == 0 || answer(walk, error));
}

bool tune_walk(const struct tune_setting *setting, const struct tune_item *item,
               const struct sweeps *known, double seconds, const struct tune_sink *sink,
               struct tune_tally *tally, struct error *error) {
    struct walk *walk = calloc(1, sizeof *walk);
    *tally = (struct tune_tally){0};
    if (walk == NULL)
        return out_of_memory(error);
    walk->setting = setting;
    walk->item = item;
    walk->sink = sink;
    bool done = open_walk(walk, known, seconds, error) && ask(walk, error);
    while (done && walk->count > 0 && !is_interrupted(walk))
        done = answer(walk, error) && ask(walk, error);
    done = done && (is_interrupted(walk) || hold_final(walk, known, error));
    done =
        turns_take(setting->turns, TURN_NONE, error) && done &&
        tune_tally_count(walk->results.count > 0 ? walk->results.items : NULL, &walk->tally, error);
    walk->tally.cut |= is_interrupted(walk);
    *tally = walk->tally;
    close_walk(walk);
    return done;
}
