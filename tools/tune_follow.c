/* SPDX-License-Identifier: Apache-2.0 */
#include "tune_follow.h"

#include <stdlib.h>
#include <unistd.h>

#include <kvmill.h>

#include "../tune/sweep_text.h"

/* Seconds: how long rank 0 may take to answer, and how often a busy rank tells rank 0 that it
   lives. */
enum { PATIENCE = 30, ALIVE_EVERY = 1 };

/* ---- Identity ---- */

char *follow_place(void) {
    struct text place = {0};
    char host[256] = "", space[64] = "";
    gethostname(host, sizeof host - 1);
    if (readlink("/proc/self/ns/pid", space, sizeof space - 1) < 0)
        space[0] = '\0';
    return text_print(&place, "%s %s", host, space) ? place.data : NULL;
}

bool follow_greet(const struct ranks *ranks, struct error *error) {
    char *place = follow_place();
    json_t *head = json_pack("{s:s, s:s, s:s, s:I}", "is", "greeting", "version", KVMILL_VERSION,
                             "place", place ? place : "", "process", (json_int_t)getpid());
    free(place);
    return ranks_send(ranks, 0, head, NULL, error);
}

/* ---- Offer ---- */

static json_t *offer_of(const struct tune_setting *setting, const struct tune_items *items) {
    const struct machine *machine = setting->machine;
    json_t *list = json_array();
    for (int i = 0; i < items->count; i++)
        json_array_append_new(
            list, json_pack("[s, s]", items->items[i].symbol, items->items[i].problem->words));
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "is", "offer", "cpu", machine->cpu,
                     "compiler", machine->compiler, "flags", machine->flags, "templates",
                     machine->templates, "items", list);
}

/* ---- Working ---- */

struct follower {
    const struct ranks *ranks;
    const struct tune_setting *setting;
    const struct tune_items *items;
    double said;             /* time of the last message to rank 0 */
    struct tune_tally tally; /* of the last item */
};

static bool say(struct follower *follower, json_t *head, const char *body, struct error *error) {
    follower->said = timer_now();
    return ranks_send(follower->ranks, 0, head, body, error);
}

/* Called while waiting for a turn: tells rank 0 that this rank lives. */
static void tick(void *context) {
    struct follower *follower = context;
    struct error ignored;
    if (timer_now() > follower->said + ALIVE_EVERY)
        say(follower, json_pack("{s:s}", "is", "life"), NULL, &ignored);
}

static bool send_result(void *context, const struct sweep_key *key,
                        const struct sweep_result *result, struct error *error) {
    struct sweeps one = {0};
    struct text text = {0};
    bool done = sweeps_add(&one, key, result, error) && sweeps_print(&one, &text, error) &&
                say(context, json_pack("{s:s}", "is", "result"), text.data, error);
    sweeps_free(&one);
    text_free(&text);
    return done;
}

static bool work_on(struct follower *follower, int item, double seconds, const char *known,
                    struct error *error) {
    const struct tune_sink sink = {.context = follower, .keep = send_result};
    struct sweeps sweeps = {0};
    bool done = sweeps_parse("rank 0", known, &sweeps, error) &&
                tune_walk(follower->setting, &follower->items->items[item], &sweeps, seconds, &sink,
                          &follower->tally, error);
    sweeps_free(&sweeps);
    return done;
}

/* Asks for work.  The answer is an item and the seconds for it, or item -1 and the seconds until
   the next question, or a dismissal. */
static bool ask(struct follower *follower, struct message *answer, struct error *error) {
    const struct turns *turns = follower->setting->turns;
    json_t *question =
        json_pack("{s:s, s:f}", "is", "question", "waited", turns != NULL ? turns->waited : 0);
    tune_tally_set(&follower->tally, question);
    return say(follower, question, NULL, error) &&
           (ranks_receive(follower->ranks, PATIENCE, answer) ||
            *follower->setting->interrupted != 0 ||
            fail(error, EXIT_ENVIRONMENT, "rank 0 does not answer within %d seconds", PATIENCE));
}

/* Does what the answer says.  *more tells whether to ask again. */
static bool obey(struct follower *follower, const struct message *answer, bool *together,
                 bool *more, struct error *error) {
    int item = -1, dismissed = 0;
    double seconds = 0;
    follower->tally = (struct tune_tally){0};
    *more = json_unpack(answer->head, "{s:i, s:F}", "item", &item, "seconds", &seconds) == 0;
    if (*more && item >= 0 && item < follower->items->count)
        return work_on(follower, item, seconds, answer->body, error);
    if (*more)
        usleep((useconds_t)(seconds * 1e6));
    else
        *together = json_unpack(answer->head, "{s:b}", "together", &dismissed) == 0 && dismissed;
    return true;
}

static bool ask_and_obey(struct follower *follower, bool *together, struct error *error) {
    bool done = true, more = true;
    *together = false;
    while (done && more && *follower->setting->interrupted == 0) {
        struct message answer = {0};
        done = ask(follower, &answer, error) && obey(follower, &answer, together, &more, error);
        message_free(&answer);
    }
    return done;
}

bool follow_work(struct ranks *ranks, struct tune_setting *setting, const struct tune_items *items,
                 bool *together, struct error *error) {
    struct follower follower = {.ranks = ranks, .setting = setting, .items = items};
    setting->turns->tick = tick;
    setting->turns->context = &follower;
    bool done = say(&follower, offer_of(setting, items), NULL, error) &&
                ask_and_obey(&follower, together, error);
    setting->turns->tick = NULL;
    return done;
}

void follow_rest(struct ranks *ranks, const struct error *why,
                 const volatile sig_atomic_t *interrupted, bool *together) {
    const struct tune_setting idle = {.interrupted = interrupted};
    const struct tune_items none = {0};
    struct follower follower = {.ranks = ranks, .setting = &idle, .items = &none};
    struct error ignored;
    say(&follower, json_pack("{s:s, s:i}", "is", "failure", "code", why->exit_code), why->text,
        &ignored);
    ask_and_obey(&follower, together, &ignored);
}
