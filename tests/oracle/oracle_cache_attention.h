/* What PMX cache attention (KeyValueCache, MultiHeadAttention, MultiHeadCacheAttention) means,
   number by number.  Every kernel and plan is judged by it.

   Arithmetic is double, rounded where the operators' reference rounds.  Shares no code with what it
   judges, works on plain arrays without gaps; its only aim is to be obvious.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ORACLE_ORACLE_CACHE_ATTENTION_H
#define KVMILL_TESTS_ORACLE_ORACLE_CACHE_ATTENTION_H

#include <kvmill_kernel.h>

#include "oracle_numbers.h"
#include "query.h"

/* ---- Caches ---- */

/* Tiles of rows: the first pieces of all rows, then their second pieces, and so on.  `rows` is the
   rows of a tile, or 0 for rows one after another; `piece` is the bytes of a piece. */
struct oracle_tiles {
    int64_t rows, piece;
};

/* Copy a row's bytes from an array of rows, or to it. */
void oracle_take_row(const struct oracle_tiles *tiles, const unsigned char *array, int64_t row,
                     int64_t count, unsigned char *bytes);
void oracle_put_row(const struct oracle_tiles *tiles, unsigned char *array, int64_t row,
                    int64_t count, const unsigned char *bytes);

/* K or V: rows of `dim` elements.  I8 and I4 have a scale for each `group` elements; if group is 0,
   the codes are the numbers. */
struct oracle_side {
    enum oracle_type type, scale_type;
    int64_t dim, group;
    unsigned char *data, *scale; /* the whole tensors */
    struct oracle_tiles tiles;
    bool saturates; /* scales that their type cannot hold are its largest number */
};

/* Returns how many elements share a scale, or 0 without scales. */
int64_t oracle_group_of(const struct oracle_side *side);

/* The axes of a cache.  sides: 2, or 1 if K and V are separate tensors. */
struct oracle_cache {
    bool dynamic;
    int64_t layout, page_size; /* of the layout that has pages */
    int64_t batch;             /* static */
    int64_t layers, sides, capacity, heads;
};

/* Returns the number of a row in the tensor.  Times dim, it is the row's first element; times dim /
   group, its first scale. */
int64_t oracle_row(const struct oracle_cache *cache, int64_t batch, int64_t layer, int64_t side,
                   int64_t slot, int64_t head);

/* Write a row of numbers, as `activation`s are written into a cache, and read a row as activations:
   the product of code and scale is first rounded to the type of the scale.  exact: without
   rounding, as attention reads it. */
void oracle_write_row(const struct oracle_side *side, enum oracle_type activation, int64_t row,
                      const double *numbers);
void oracle_read_row(const struct oracle_side *side, enum oracle_type activation, int64_t row,
                     double *numbers);
void oracle_read_row_exact(const struct oracle_side *side, int64_t row, double *numbers);

/* Writes the codes of a row with one scale, and their sum. */
void oracle_put_sum(unsigned char *row, const double *codes, int64_t count);

/* Sets the code of element i of a llama.cpp block; the other codes stay. */
void oracle_put_code(enum oracle_type type, unsigned char *block, int i, int code);

/* ---- The operators ---- */

/* Sequence b has the new tokens seqstarts[b] ... seqstarts[b + 1] - 1, start_pos[b] older ones, and
   kvstarts[b + 1] - kvstarts[b] in total; this holds for static batches, too. */
struct oracle_attention {
    enum oracle_type activation;
    int64_t heads, kv_heads, repeat, layer;
    struct oracle_cache cache;
    struct oracle_side key, value;
    bool value_view; /* values are the beginnings of the rows of keys: only its dim is used */
    const unsigned char *query, *current_key, *current_value; /* [tokens, heads, dim] */

    int64_t sequences;
    const int64_t *seqstarts, *kvstarts, *start_pos;
    const int64_t *cachestarts; /* [sequences, lists, pages]; unused for static caches */
    int64_t lists;              /* page lists of a sequence: one for each kv head; 0: one for all */
    int64_t pages, page_size;   /* pages 0: cachestarts[b] + position */
    int64_t ring;               /* slots: position p is in slot p % ring; 0: in slot p */
    int64_t decoding;           /* `causal` does not apply to the first sequences */

    bool causal, alibi, empty_is_nan;
    double scale, softcap, alibi_scale; /* softcap 0: none */
    int math;                           /* enum kvmill_math */
    int64_t window, alibi_heads, alibi_first;

    /* The mask's element for token t (of all tokens), head h, position j of sequence b is number
       b * mask_sequence + h * mask_head + t * mask_token + kvstarts[b] * mask_kv + j. */
    const unsigned char *mask;
    int64_t mask_sequence, mask_head, mask_token, mask_kv;

    const unsigned char *sinks;
    enum oracle_type sinks_type;
};

int64_t oracle_slot(const struct oracle_attention *problem, int64_t sequence, int64_t kv_head,
                    int64_t position);

/* Return the number of a row of K or V, and that row as attention reads it; a row of V may be a
   view of K's. */
int64_t oracle_row_of(const struct oracle_attention *problem, bool value, int64_t sequence,
                      int64_t slot, int64_t kv_head);
void oracle_see_row(const struct oracle_attention *problem, bool value, int64_t sequence,
                    int64_t slot, int64_t kv_head, double *numbers);

/* Stores K and V of new token t in a row of the cache; t counts through all sequences. */
void oracle_store_row(const struct oracle_attention *problem, int64_t sequence, int64_t t,
                      int64_t kv_head, int64_t slot);

/* Stores all new K and V in the cache. */
void oracle_store(const struct oracle_attention *problem);

/* Loads K and V of all sequences, [kvstarts[sequences], kv_heads * repeat, dim], as activations;
   from a ring, the positions that it still has, sequence after sequence. */
void oracle_load(const struct oracle_attention *problem, unsigned char *key, unsigned char *value);

/* The result of attention over the cache: arrays of [tokens, heads, value.dim], lse of [tokens,
   heads].  The errors bound the error of float32 arithmetic before results are rounded; see the
   definition. */
struct oracle_result {
    double *output, *output_error, *lse, *lse_error;
};

void oracle_attend(const struct oracle_attention *problem, const struct oracle_result *result);

/* Return the answer of a query head with the numbers `query` over `count` keys, and what ALiBi adds
   to the score of a key at this distance. */
void oracle_attend_keys(const struct oracle_attention *problem, int64_t head, const double *query,
                        struct oracle_key *keys, int64_t count, struct oracle_answer *answer);
double oracle_alibi(const struct oracle_attention *problem, int64_t head, int64_t distance);

/* Stores, and then attends over the cache.  In a ring, the tokens of a causal sequence do both one
   by one. */
void oracle_step(const struct oracle_attention *problem, const struct oracle_result *result);

/* ---- Rows that kernels write and read, also in cases that the references leave open ---- */

enum oracle_type oracle_of_element(int element);
bool oracle_is_transposed(const struct kvmill_format *format);
struct oracle_tiles oracle_tiles_of(const struct kvmill_format *format);
int64_t oracle_group(const struct kvmill_format *format); /* elements that share a scale, or 0 */

/* Return the bytes of one row: codes or numbers; scales; activations. */
int64_t oracle_data_bytes(const struct kvmill_format *format);
int64_t oracle_scale_bytes(const struct kvmill_format *format);
int64_t oracle_activation_bytes(const struct kvmill_convert_shape *shape);

/* Convert one row from activations to a cache, and back. */
void oracle_convert_write(const struct kvmill_convert_shape *shape, bool saturates,
                          const unsigned char *from, unsigned char *data, unsigned char *scale);
void oracle_convert_read(const struct kvmill_convert_shape *shape, unsigned char *to,
                         unsigned char *data, unsigned char *scale);

#endif
