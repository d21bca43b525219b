/* Rings of cache attention: position p is in slot p % ring, so the ring has the last `ring`
   positions. If tokens of a run would replace keys that earlier tokens of the run still see, the
   tokens take turns: as many tokens as leave those keys intact are stored and attend, and then the
   next ones.

   SPDX-License-Identifier: Apache-2.0 */
#include "../core/numbers.h"
#include "cache_attention_plan.h"

int64_t kvmill_kept(const struct cache_call *call, int64_t b) {
    int64_t positions = positions_of(call, b);
    return call->ring > 0 ? kvmill_min(positions, call->ring) : positions;
}

int64_t kvmill_kept_before(const struct cache_call *call, int64_t b) {
    int64_t sum = 0;
    if (call->ring == 0)
        return count_before(&call->length, b);
    if (call->length.starts.data == NULL)
        return b * kvmill_min(call->length.each, call->ring);
    for (int64_t earlier = 0; earlier < b; earlier++)
        sum += kvmill_kept(call, earlier);
    return sum;
}

int64_t kvmill_most_visible(const struct cache_call *call) {
    int64_t window = cache_plan_of(call)->geometry.window, ring = call->ring;
    return ring > 0 && (window == 0 || window > ring) ? ring : window;
}

/* ---- Turns ---- */

/* How many tokens leave the keys that the first of them sees intact, wherever they are in the
 * sequence. */
static int64_t tokens_of_turn(const struct cache_call *call) {
    return call->ring - kvmill_most_visible(call) + 1;
}

/* Tokens before a turn other than the first.  The first turn takes more if slots are still free. */
static int64_t tokens_before(const struct cache_call *call, int64_t b, int64_t turn) {
    int64_t tokens = tokens_of(call, b), each = tokens_of_turn(call);
    int64_t first = kvmill_max(call->ring - (positions_of(call, b) - tokens), each);
    if (tokens <= first || !is_causal_sequence(call, b))
        return tokens;
    return first + kvmill_min(tokens - first, (turn - 1) * each);
}

static int64_t turns_of(const struct cache_call *call, int64_t b) {
    int64_t left = tokens_of(call, b) - tokens_before(call, b, 1), each = tokens_of_turn(call);
    return 1 + left / each + (left % each != 0);
}

struct token_span kvmill_tokens_of_turn(const struct cache_call *call, int64_t b) {
    return (struct token_span){call->turn > 0 ? tokens_before(call, b, call->turn) : 0,
                               tokens_before(call, b, call->turn + 1)};
}

struct token_span kvmill_tokens_to_store(const struct cache_call *call, int64_t b) {
    struct token_span span = kvmill_tokens_of_turn(call, b);
    span.first = kvmill_max(span.first, span.last - call->ring);
    return span;
}

void kvmill_set_turns(struct cache_call *call) {
    call->turns = 1;
    for (int64_t b = 0; call->ring > 0 && b < call->base.view.batch; b++)
        call->turns = kvmill_max(call->turns, turns_of(call, b));
}

void kvmill_begin_turn(struct cache_call *call, int64_t turn) {
    call->turn = turn;
    call->base.base.phase = cache_plan_of(call)->phases;
    call->stored = 0;
    for (int64_t b = 0; call->ring > 0 && b < call->base.view.batch; b++) {
        const struct token_span span = kvmill_tokens_to_store(call, b);
        call->stored = kvmill_max(call->stored, span.last - span.first);
    }
    if (call->base.view.query.data != NULL)
        kvmill_attend_prepare(&call->base.view);
}

bool kvmill_cache_attention_next(struct call *base) {
    struct cache_call *call = (struct cache_call *)(void *)base;
    if (kvmill_phase_next(base))
        return true;
    if (call->turn + 1 == call->turns)
        return false;
    kvmill_begin_turn(call, call->turn + 1);
    return true;
}
