/* SPDX-License-Identifier: Apache-2.0 */
#include "attention.h"

#include "common.h"

/* ---- Memory ---- */

/* Opens a tensor of noise; its address is divided between data and byte_offset at random. */
static void open_tensor(struct attention *a, int i, DLDataType dtype, int rank, const int64_t *dims,
                        struct dice *dice) {
    struct fenced_tensor *tensor = &a->tensor[i];
    int64_t strides[MOST_DIMS], shift = dice_range(dice, 0, 3) * 5;
    bool spread = a->spread == SPREAD && dtype.bits >= 8 && dice_once_in(dice, 2);
    if (spread)
        spread_strides(rank, dims, false, strides, dice);
    tensor_open(tensor, dtype, rank, dims, spread ? strides : NULL, dice);
    tensor->dl.data = (unsigned char *)tensor->dl.data - shift;
    tensor->dl.byte_offset += (uint64_t)shift;
    a->dense[i] = tensor_gather(tensor);
    a->given[i] = &tensor->dl;
}

void attention_refresh(struct attention *a, int i) {
    tensor_move(&a->tensor[i], a->dense[i], false);
}

void attention_refresh_caches(struct attention *a) {
    for (int i = KVMILL_CACHE_ATTENTION_CACHE; i <= KVMILL_CACHE_ATTENTION_VALUE_SCALE; i++)
        if (tensor_is_open(&a->tensor[i]))
            attention_refresh(a, i);
}

void attention_set(struct attention *a, int i, int64_t number, double x) {
    if (a->tensor[i].dl.dtype.bits == 64)
        memcpy(a->dense[i] + number * 8, &(int64_t){(int64_t)x}, 8);
    else
        oracle_put(attention_type(a->tensor[i].dl.dtype), a->dense[i], number, x);
    attention_refresh(a, i);
}

double attention_get(const struct attention *a, int i, int64_t number) {
    FREED unsigned char *dense = tensor_gather(&a->tensor[i]);
    return oracle_get(attention_type(a->tensor[i].dl.dtype), dense, number);
}

/* ---- Contents ---- */

/* Fills with NaN, as numbers or as the scales of blocks; tensors of codes only stay noise. */
static void poison(struct attention *a, int i) {
    const DLTensor *tensor = &a->tensor[i].dl;
    if (tensor->dtype.code != kDLInt)
        memset(a->dense[i], 0xff, tensor_bytes(tensor, tensor_count(tensor)));
}

/* Fills with numbers of many sizes, with zeros and ties, row by row. */
static void fill_activations(struct attention *a, int i, double size, struct dice *dice) {
    int64_t count = tensor_count(&a->tensor[i].dl), kind = 0;
    double factor = 1;
    for (int64_t n = 0; n < count; n++) {
        if (n % 16 == 0) {
            kind = dice_range(dice, 0, 19);
            factor = kind == 0 ? 0 : kind == 1 ? 1e-5 : kind == 2 ? 3 : 1;
        }
        double x = dice_between(dice, -size, size) * factor;
        if (attention_type(a->tensor[i].dl.dtype) == ORACLE_I8)
            x = (double)dice_range(dice, -128, 127);
        oracle_put(attention_type(a->tensor[i].dl.dtype), a->dense[i], n,
                   kind == 3 ? nearbyint(x * 8) / 8 : x);
    }
}

static void fill_numbers(struct attention *a, int i, int64_t count, const int64_t *numbers) {
    memcpy(a->dense[i], numbers, (size_t)count * sizeof *numbers);
    attention_refresh(a, i);
}

/* ---- Lengths ---- */

static void sum_lengths(struct attention *a) {
    bool none = a->sequences == 0 && !a->op.dynamic_batching; /* other dims of a batch of 0 */
    a->longest_tokens = none ? a->tokens[0] : 0;
    a->longest_length = none ? a->start[0] + a->tokens[0] : 0;
    for (int64_t b = 0; b < a->sequences; b++) {
        int64_t length = a->start[b] + a->tokens[b];
        a->seqstarts[b + 1] = a->seqstarts[b] + a->tokens[b];
        a->kvstarts[b + 1] = a->kvstarts[b] + length;
        a->keptstarts[b + 1] = a->keptstarts[b] + in_ring(a, length);
        a->longest_tokens = a->tokens[b] > a->longest_tokens ? a->tokens[b] : a->longest_tokens;
        a->longest_length = length > a->longest_length ? length : a->longest_length;
    }
    a->longest_kept = in_ring(a, a->longest_length);
}

static int64_t length_of(const struct attention *a, int64_t b) {
    return a->kvstarts[b + 1] - a->kvstarts[b];
}

static int64_t kept_of(const struct attention *a, int64_t b) {
    return a->keptstarts[b + 1] - a->keptstarts[b];
}

static void open_number(struct attention *a, int i, int64_t number, struct dice *dice) {
    open_tensor(a, i, i64, (int)a->decoding_rank, &(int64_t){1}, dice);
    fill_numbers(a, i, 1, &number);
}

static void open_lengths(struct attention *a, struct dice *dice) {
    int64_t starts = a->sequences + 1;
    if (!a->op.dynamic_batching) {
        if (has_cache(a))
            open_number(a, KVMILL_CACHE_ATTENTION_START_POS, a->start[0], dice);
        return;
    }
    open_tensor(a, KVMILL_CACHE_ATTENTION_SEQSTARTS, i64, 1, &starts, dice);
    fill_numbers(a, KVMILL_CACHE_ATTENTION_SEQSTARTS, starts, a->seqstarts);
    open_tensor(a, KVMILL_CACHE_ATTENTION_KVSTARTS, i64, 1, &starts, dice);
    fill_numbers(a, KVMILL_CACHE_ATTENTION_KVSTARTS, starts, a->kvstarts);
    open_number(a, KVMILL_CACHE_ATTENTION_MAX_SEQLEN, a->longest_tokens + a->max_slack, dice);
    open_number(a, KVMILL_CACHE_ATTENTION_MAX_KVLEN, a->longest_length + a->max_slack, dice);
    if (has_query(a))
        open_number(a, KVMILL_CACHE_ATTENTION_DECODING_BATCHES, a->decoding, dice);
    if (has_cache(a)) {
        open_tensor(a, KVMILL_CACHE_ATTENTION_START_POS, i64, 1, &a->sequences, dice);
        fill_numbers(a, KVMILL_CACHE_ATTENTION_START_POS, a->sequences, a->start);
    }
}

/* ---- Places in the cache ---- */

/* Places sequences in random order, some with rows between them. */
static void place_offsets(struct attention *a, struct dice *dice) {
    int64_t order[MOST_SEQUENCES], starts[MOST_SEQUENCES], next = dice_range(dice, 0, 3);
    dice_order(dice, order, a->sequences);
    for (int64_t i = 0; i < a->sequences; i++) {
        next = whole_tiles(a, next);
        starts[order[i]] = next;
        a->capacity = next + kept_of(a, order[i]);
        next = a->capacity + dice_range(dice, 0, 2);
    }
    open_tensor(a, KVMILL_CACHE_ATTENTION_CACHESTARTS, i64, 1, &a->sequences, dice);
    fill_numbers(a, KVMILL_CACHE_ATTENTION_CACHESTARTS, a->sequences, starts);
}

static int64_t pages_of(const struct attention *a, int64_t b) {
    return (kept_of(a, b) + a->op.page_size - 1) / a->op.page_size;
}

static int64_t count_pages(struct attention *a) {
    int64_t count = 0;
    for (int64_t b = 0; b < a->sequences; b++) {
        int64_t pages = pages_of(a, b);
        count += pages;
        a->pages = pages > a->pages ? pages : a->pages;
    }
    return count;
}

/* Writes sequence b's pages to its table, and -1 after them. */
static void place_pages_of(struct attention *a, int64_t b, const int64_t *page, int64_t offset,
                           int64_t *table) {
    int64_t size = a->op.page_size, length = kept_of(a, b);
    for (int64_t p = 0; p < a->pages; p++) {
        bool used = p * size < length;
        int64_t rows = length - p * size < size ? length - p * size : size;
        table[p] = used ? page[p] * size + offset : -1;
        int64_t end = used ? table[p] + (a->whole_pages ? size : rows) : 0;
        a->capacity = end > a->capacity ? end : a->capacity;
    }
}

static bool may_share(const struct attention *a, int64_t b) {
    return a->share_prefix && a->ring == 0 && b > 0 && a->start[b] >= a->op.page_size &&
           a->start[0] >= a->op.page_size;
}

static bool has_split_pages(const struct attention *a) {
    return a->op.dynamic_batching && a->op.cache_layout == 4;
}

/* Places pages anywhere, not even aligned if the layout does not know pages.  The unused rows of
   the last page need not exist. */
static void place_pages(struct attention *a, struct dice *dice) {
    int64_t count = count_pages(a), next = 0, lists = page_lists(a) + (page_lists(a) == 0);
    int64_t offset = a->whole_pages || has_split_pages(a) ? 0 : dice_range(dice, 0, 3);
    offset = whole_tiles(a, offset);
    int64_t all = count * lists + dice_range(dice, 0, 2), *order = malloc((size_t)(all + 1) * 8);
    a->pages += dice_range(dice, 0, 3) + (a->pages == 0);
    if (a->ring > 0)
        a->pages = a->ring / a->op.page_size;
    FREED int64_t *table = malloc((size_t)(a->sequences * lists * a->pages + 1) * 8);
    const int64_t dims[] = {a->sequences, page_lists(a) ? lists : a->pages, a->pages};
    dice_order(dice, order, all);
    for (int64_t i = 0; i < a->sequences * lists; i++) {
        int64_t b = i / lists, *pages = table + i * a->pages, *first = table + b * lists * a->pages;
        place_pages_of(a, b, order + next, offset, pages);
        next += pages_of(a, b);
        for (int64_t p = a->start[b] / a->op.page_size; p * a->op.page_size < length_of(a, b); p++)
            pages[p % a->pages] = first[p % a->pages]; /* the new tokens of all heads */
        if (may_share(a, b))
            pages[0] = table[0];
    }
    open_tensor(a, KVMILL_CACHE_ATTENTION_CACHESTARTS, i64, page_lists(a) ? 3 : 2, dims, dice);
    fill_numbers(a, KVMILL_CACHE_ATTENTION_CACHESTARTS, a->sequences * lists * a->pages, table);
    free(order);
}

static void place_sequences(struct attention *a, struct dice *dice) {
    a->pages = 0;
    a->capacity = a->op.dynamic_batching ? 0 : a->longest_kept;
    if (a->op.dynamic_batching)
        (a->op.cache_mode == 1 ? place_pages : place_offsets)(a, dice);
    a->capacity = a->rows != 0 ? a->rows : a->capacity + a->spare_rows;
    if (a->ring > 0 && !a->op.dynamic_batching)
        a->capacity = a->ring;
    a->capacity = whole_tiles(a, a->capacity);
    if (has_split_pages(a))
        a->capacity += a->op.page_size - 1 - (a->capacity + a->op.page_size - 1) % a->op.page_size;
}

/* ---- Caches ---- */

static int cache_shape(const struct attention *a, int64_t last, int64_t *dims) {
    int64_t B = a->sequences + a->spare_batch, L = a->op.num_layer, K = a->op.value_differs ? 1 : 2,
            N = a->capacity, H = kv_heads(a);
    int64_t P = has_split_pages(a) ? a->op.page_size : 1;
    const int64_t shapes[][6] = {
        {B, L, K, N, H, last}, {L, B, K, H, N, last}, {N, L, K, H, last},       {L, N, K, H, last},
        {L, K, N, H, last},    {L, K, H, N, last},    {L, K, N / P, H, P, last}};
    int shape = (int)a->op.cache_layout + (a->op.dynamic_batching ? 2 : 0);
    memcpy(dims, shapes[shape], sizeof shapes[shape]);
    return a->op.dynamic_batching && !has_split_pages(a) ? 5 : 6;
}

static void open_side(struct attention *a, bool value, struct dice *dice) {
    struct side side = side_of(a, value);
    int64_t dims[6];
    int cache = value ? KVMILL_CACHE_ATTENTION_VALUE_CACHE : KVMILL_CACHE_ATTENTION_CACHE;
    int rank = cache_shape(a, last_dim(&side), dims);
    open_tensor(a, cache, side.T2, rank, dims, dice);
    poison(a, cache);
    if (side.quant_bit != 0) {
        cache_shape(a, side.dim / side.group, dims);
        open_tensor(a, cache + 1, side.T3, rank, dims, dice);
        poison(a, cache + 1);
    }
}

/* Fills llama.cpp's blocks with noise, except for scales and minima. */
static void fill_blocks(const struct oracle_side *side, int64_t row, struct dice *dice) {
    int64_t bytes = oracle_bytes(side->type, side->dim);
    unsigned char *block = side->data + row * bytes;
    bool from_0 = oracle_has_minimum(side->type) || oracle_middle(side->type) > 0;
    double code = from_0 ? 1 << (oracle_code_bits(side->type) - 1) : 100;
    int64_t count = oracle_block(side->type, side->dim), step = oracle_bytes(side->type, count);
    for (int64_t i = 0; i < bytes; i++)
        block[i] = (unsigned char)dice_bits(dice);
    for (int64_t i = 0; i < side->dim; i += count, block += step) {
        if (oracle_has_minimum(side->type))
            oracle_put(ORACLE_F16, block, 1, dice_between(dice, -1, 0));
        oracle_put(oracle_block_scale(side->type), block, 0, dice_between(dice, 0.2, 1) / code);
    }
}

static bool has_floats(const struct oracle_side *side) {
    return side->type <= ORACLE_BF16 || side->type == ORACLE_E4M3 || side->type == ORACLE_E5M2;
}

/* Fills a row with floats, in any order of elements. */
static void fill_floats(const struct oracle_side *side, int64_t row, struct dice *dice) {
    int64_t bytes = oracle_bytes(side->type, side->dim);
    FREED unsigned char *numbers = take(bytes, 1);
    for (int64_t i = 0; i < side->dim; i++)
        oracle_put(side->type, numbers, i, dice_between(dice, -1, 1));
    oracle_put_row(&side->tiles, side->data, row, bytes, numbers);
}

static void fill_row(const struct oracle_side *side, int64_t row, struct dice *dice) {
    double code = side->type == ORACLE_I4 ? 6 : 100;
    int64_t groups = side->group != 0 ? side->dim / side->group : 0;
    if (oracle_is_blocks(side->type)) {
        fill_blocks(side, row, dice);
        return;
    }
    if (has_floats(side))
        fill_floats(side, row, dice);
    for (int64_t g = row * groups; g < (row + 1) * groups; g++)
        oracle_put(side->scale_type, side->scale, g, dice_between(dice, 0.2, 1) / code);
}

/* Fills the rows of older tokens. */
static void fill_past(struct attention *a, bool value, struct dice *dice) {
    struct oracle_attention problem = attention_problem(a);
    const struct oracle_side *side = value ? &problem.value : &problem.key;
    for (int64_t b = 0; b < a->sequences; b++)
        for (int64_t j = 0; j < a->start[b]; j++)
            for (int64_t h = 0; h < problem.kv_heads; h++)
                fill_row(side, oracle_row_of(&problem, value, b, oracle_slot(&problem, b, h, j), h),
                         dice);
}

static void open_cache(struct attention *a, struct dice *dice) {
    place_sequences(a, dice);
    open_side(a, false, dice);
    if (has_value_cache(a))
        open_side(a, true, dice);
    fill_past(a, false, dice);
    if (!has_value_view(a))
        fill_past(a, true, dice);
    attention_refresh_caches(a);
}

/* ---- Activations ---- */

/* Opens (B, S, heads, dim), or the dynamic (sum, heads, dim). */
static void open_activations(struct attention *a, int i, DLDataType type, const int64_t *starts,
                             int64_t heads, int64_t dim, struct dice *dice) {
    int64_t each = starts == a->kvstarts     ? a->longest_length
                   : starts == a->keptstarts ? a->longest_kept
                                             : a->longest_tokens;
    const int64_t fixed[] = {a->sequences, each, heads, dim},
                  ragged[] = {starts[a->sequences], heads, dim};
    int fewer = dim == 0; /* lse has no last dim */
    if (a->op.dynamic_batching)
        open_tensor(a, i, type, 3 - fewer, ragged, dice);
    else
        open_tensor(a, i, type, 4 - fewer, fixed, dice);
}

static void open_input(struct attention *a, int i, const int64_t *starts, int64_t heads,
                       int64_t dim, double size, struct dice *dice) {
    open_activations(a, i, a->op.T1, starts, heads, dim, dice);
    fill_activations(a, i, size, dice);
    attention_refresh(a, i);
}

static void open_mask_tensor(struct attention *a, struct dice *dice) {
    int64_t H = a->op.num_heads, rank = a->mask_rank;
    int64_t fixed[] = {a->mask_one_batch ? 1 : a->sequences, H, a->longest_tokens,
                       a->longest_length + a->mask_padding};
    int64_t ragged[] = {H, a->seqstarts[a->sequences], a->kvstarts[a->sequences] + a->mask_padding};
    const int64_t *dims = a->op.dynamic_batching ? ragged + 3 - rank : fixed + 4 - rank;
    open_tensor(a, KVMILL_CACHE_ATTENTION_ATTN_MASK, a->op.T1, (int)rank, dims, dice);
}

static double choose_mask(struct dice *dice) {
    int64_t kind = dice_range(dice, 0, 5);
    return kind == 0 ? -INFINITY : kind < 3 ? 0 : dice_between(dice, -3, 1);
}

static void fill_mask_rows(struct attention *a, const struct oracle_attention *problem, int64_t b,
                           int64_t h, struct dice *dice) {
    for (int64_t t = a->seqstarts[b]; t < a->seqstarts[b + 1]; t++) {
        bool empty = dice_once_in(dice, 20);
        int64_t first = b * problem->mask_sequence + h * problem->mask_head +
                        t * problem->mask_token + a->kvstarts[b] * problem->mask_kv;
        for (int64_t j = 0; j < length_of(a, b); j++)
            oracle_put(problem->activation, a->dense[KVMILL_CACHE_ATTENTION_ATTN_MASK], first + j,
                       empty ? -INFINITY : choose_mask(dice));
    }
}

/* Fills the mask; elements that belong to no score are NaN. */
static void open_mask(struct attention *a, struct dice *dice) {
    open_mask_tensor(a, dice);
    poison(a, KVMILL_CACHE_ATTENTION_ATTN_MASK);
    struct oracle_attention problem = attention_problem(a);
    for (int64_t b = 0; b < a->sequences; b++)
        for (int64_t h = 0; h < a->op.num_heads; h++)
            fill_mask_rows(a, &problem, b, h, dice);
    attention_refresh(a, KVMILL_CACHE_ATTENTION_ATTN_MASK);
}

static void open_sinks(struct attention *a, struct dice *dice) {
    DLDataType type = a->sinks_are_activations ? a->op.T1 : f32;
    open_tensor(a, KVMILL_CACHE_ATTENTION_SINKS, type, 1, &a->op.num_heads, dice);
    for (int64_t h = 0; h < a->op.num_heads; h++)
        oracle_put(attention_type(type), a->dense[KVMILL_CACHE_ATTENTION_SINKS], h,
                   dice_between(dice, -2, 3));
    attention_refresh(a, KVMILL_CACHE_ATTENTION_SINKS);
}

static void open_scores(struct attention *a, struct dice *dice) {
    const kvmill_cache_attention *op = &a->op;
    open_input(a, KVMILL_CACHE_ATTENTION_QUERY, a->seqstarts, op->num_heads, op->head_dim,
               a->query_size, dice);
    open_activations(a, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, op->partial ? f32 : op->T1,
                     a->seqstarts, op->num_heads, value_dim(a), dice);
    if (op->partial)
        open_activations(a, KVMILL_CACHE_ATTENTION_LSE, f32, a->seqstarts, op->num_heads, 0, dice);
    if (a->mask_rank != 0)
        open_mask(a, dice);
    if (a->has_sinks)
        open_sinks(a, dice);
}

static void open_keys(struct attention *a, struct dice *dice) {
    int64_t heads = kv_heads(a), repeated = heads * a->op.num_repeat;
    if (has_cache(a)) {
        open_input(a, KVMILL_CACHE_ATTENTION_CURRENT_KEY, a->seqstarts, heads, a->op.head_dim, 1,
                   dice);
        if (!has_value_view(a))
            open_input(a, KVMILL_CACHE_ATTENTION_CURRENT_VALUE, a->seqstarts, heads, value_dim(a),
                       1, dice);
        open_cache(a, dice);
    } else {
        open_input(a, KVMILL_CACHE_ATTENTION_KEY, a->kvstarts, heads, a->op.head_dim, 1, dice);
        open_input(a, KVMILL_CACHE_ATTENTION_VALUE, a->kvstarts, heads, value_dim(a), 1, dice);
    }
    if (!has_query(a)) {
        open_activations(a, KVMILL_CACHE_ATTENTION_KEY, a->op.T1, a->keptstarts, repeated,
                         a->op.head_dim, dice);
        open_activations(a, KVMILL_CACHE_ATTENTION_VALUE, a->op.T1, a->keptstarts, repeated,
                         value_dim(a), dice);
    }
}

/* ---- Open and close ---- */

/* Describes a side's size, type and scales. */
static int describe_side(const struct side *side, char *to, size_t size) {
    return snprintf(to, size, " %" PRId64 " type %d group %" PRId64 " scale %d", side->dim,
                    type_of(side), side->quant_bit ? side->group : 0, attention_type(side->T3));
}

static void put_into_words(struct attention *a) {
    static const char *const names[] = {"KeyValueCache", "MultiHeadAttention",
                                        "MultiHeadCacheAttention"};
    const kvmill_cache_attention *op = &a->op;
    struct side key = side_of(a, false), value = side_of(a, true);
    size_t size = sizeof a->words;
    int at = snprintf(a->words, size, "%s%s, heads %" PRId64 "/%" PRId64 ", T1 %d, K and V",
                      op->dynamic_batching ? "dynamic " : "", names[a->which], op->num_heads,
                      op->num_kv_heads, attention_type(op->T1));
    at += describe_side(&key, a->words + at, size - (size_t)at);
    at += describe_side(&value, a->words + at, size - (size_t)at);
    if (has_value_view(a))
        at += snprintf(a->words + at, size - (size_t)at, ", a view");
    at += snprintf(a->words + at, size - (size_t)at,
                   ", layer %" PRId64 "/%" PRId64 ", layout %" PRId64 ", mode %" PRId64
                   " page %" PRId64 ", ring %" PRId64 ", causal %d alibi %d window %" PRId64
                   " softcap %g mask %d "
                   "sinks %d partial %d math %s%s, tokens from start:",
                   op->layer_idx, op->num_layer, op->cache_layout, op->cache_mode, op->page_size,
                   a->ring, op->is_causal, op->is_alibi, op->left_window_size, op->softcap,
                   (int)a->mask_rank, a->has_sinks != 0, op->partial, op->math ? op->math : "f32",
                   a->spread == SPREAD ? ", strided" : "");
    for (int64_t b = 0; b < a->sequences && (size_t)at < size; b++)
        at += snprintf(a->words + at, size - (size_t)at, " %" PRId64 "@%" PRId64, a->tokens[b],
                       a->start[b]);
}

/* Opens a tensor that the op must not access. */
static void open_idle(struct attention *a, int i, DLDataType type, int64_t count,
                      struct dice *dice) {
    if (count > 0)
        open_tensor(a, i, type, 1, &(int64_t){count - 1}, dice);
}

void attention_open(struct attention *a, struct dice *dice) {
    set_ring(a);
    sum_lengths(a);
    put_into_words(a);
    open_lengths(a, dice);
    open_keys(a, dice);
    if (has_query(a))
        open_scores(a, dice);
    open_idle(a, KVMILL_CACHE_ATTENTION_SCALE, f16, a->idle_scale, dice);
    open_idle(a, KVMILL_CACHE_ATTENTION_ATTN_MASK, a->op.T1, a->idle_mask, dice);
}

void attention_close(struct attention *a) {
    tensors_close(a->tensor, TENSORS);
    tensors_close(a->before, TENSORS);
    tensors_close(a->expected, TENSORS);
    for (int i = 0; i < TENSORS; i++)
        free(a->dense[i]);
    free(a->result.output);
    free(a->result.output_error);
    free(a->result.lse);
    free(a->result.lse_error);
    *a = (struct attention){0};
}
