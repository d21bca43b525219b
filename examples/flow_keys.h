/* Keys and queries with the properties of a model's, so that a selection can be good or bad:
   segments about a topic, sinks at the beginning, single tokens that are looked for (needles),
   channels with a large mean of their own, and noise in all channels.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_EXAMPLES_FLOW_KEYS_H
#define KVMILL_EXAMPLES_FLOW_KEYS_H

#include <stdint.h>

struct flow_keys {
    int64_t tokens;
    int kv_heads, group, dim;
    float *centre;  /* [kv heads, topics and needles and one for sinks, dim] */
    int16_t *topic; /* the number of each token's centre */
};

/* Returns 0 if out of memory.  Release with flow_keys_free. */
int flow_keys_make(struct flow_keys *keys, int64_t tokens, int kv_heads, int group, int dim);
void flow_keys_free(struct flow_keys *keys);

/* Each depends on its arguments alone: the same arguments give the same row. */
void flow_key(const struct flow_keys *keys, int kv_head, int64_t token, float *row);
void flow_value(const struct flow_keys *keys, int kv_head, int64_t token, float *row);

/* Query `number` searches for the topic of a random token.  Its heads differ a little, and every
   fourth one also searches for a needle. */
void flow_query(const struct flow_keys *keys, int head, int64_t number, float *row);

#endif
