/* SPDX-License-Identifier: Apache-2.0 */
#include "resume.h"

/* Returns a result's number of samples.  A measurement that ended early because it was tight counts
   as a full one. */
static int worth(const struct search *search, const struct standing *s) {
    int full = search_samples(search), count = s->result->sample_count;
    return count < full && count >= EARLIEST_END && summary_is_tight(&s->gain) ? full : count;
}

static bool tell(struct search *search, const struct space *space, const struct standing *s,
                 struct resumption *resumption) {
    struct point point;
    struct error ignored;
    bool measured = s->time.count > 0;
    if (!space_parse(space, s->result->candidate, &point, &ignored)) {
        resumption->strange++;
        return true;
    }
    resumption->known++;
    return search_tell(search, &point, s->result->outcome, measured ? standing_cost(s) : 0,
                       worth(search, s));
}

bool search_resume(struct search *search, const struct space *space, const struct sweep *sweep,
                   struct resumption *resumption, struct error *error) {
    struct ranking ranking;
    bool done = sweep_rank(sweep, &ranking, error);
    *resumption = (struct resumption){0};
    for (size_t i = 0; done && i < ranking.count; i++)
        done = tell(search, space, &ranking.items[i], resumption) || out_of_memory(error);
    ranking_free(&ranking);
    return done;
}
