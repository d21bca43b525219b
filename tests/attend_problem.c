/* SPDX-License-Identifier: Apache-2.0 */
#include "attend_problem.h"

#include "../defs/op_tables.h"
#include "common.h"

/* The dice of the problem that is being opened. */
static struct dice *dice;

static bool is_long(const struct problem *p) {
    return (p->kind & LONG) != 0;
}

static bool is_plain(const struct problem *p) {
    return (p->kind & PLAIN) != 0;
}

/* ---- Numbers of tensors ---- */

/* Stores a mask's number; a bool is whether the key is visible. */
static void put(DLDataType type, unsigned char *at, double value) {
    number_put(type, at, type.code == KVMILL_DL_BOOL ? value == 0 : value);
}

/* Opens a tensor with contiguous rows of the last dim; unless it is dense, the other dims have
   random gaps and orders. */
static void open_strided(struct fenced_tensor *tensor, DLDataType type, int rank,
                         const int64_t *shape, bool dense) {
    int64_t strides[MOST_DIMS], order[MOST_DIMS], step = shape[rank - 1] > 0 ? shape[rank - 1] : 1;
    strides[rank - 1] = 1;
    for (int d = 0; d < rank; d++)
        order[d] = rank - 2 - d;
    if (!dense && rank > 2 && dice_once_in(dice, 2)) {
        int64_t last = order[0];
        order[0] = order[1], order[1] = last;
    }
    for (int i = 0; i + 1 < rank; i++) {
        step += !dense && dice_once_in(dice, 3) ? dice_range(dice, 0, 3) * 16 : 0;
        strides[order[i]] = step;
        step *= shape[order[i]] > 0 ? shape[order[i]] : 1;
    }
    tensor_open(tensor, type, rank, shape, strides, dice);
}

/* ---- Formats ---- */

static bool is_coded(const struct format *format) {
    return oracle_is_blocks(format->type) || oracle_is_integer(format->type);
}

/* Fills a row and its scales, and returns their numbers; one of a bad row is NaN. */
static void fill_row(const struct format *format, int64_t dim, bool is_bad, unsigned char *row,
                     unsigned char *scales, double *numbers) {
    const struct oracle_side side = format_row(format, dim, row, scales);
    for (int64_t d = 0; d < dim; d++)
        numbers[d] = (double)dice_range(dice, -32, 32) / 16;
    if (is_bad)
        numbers[dice_range(dice, 0, dim - 1)] = NAN;
    oracle_write_row(&side, ORACLE_F32, 0, numbers);
    oracle_read_row_exact(&side, 0, numbers);
}

/* ---- Problems ---- */

static struct fenced_tensor *use(struct problem *p, int which) {
    p->tensors[which] = &p->tensor[which].dl;
    return &p->tensor[which];
}

/* Makes a tensor of integers of 32 or 64 bits. */
static void give(struct problem *p, int which, int rank, const int64_t *shape,
                 const int64_t *numbers) {
    struct fenced_tensor *tensor = use(p, which);
    tensor_open(tensor, dice_once_in(dice, 2) ? i32 : i64, rank, shape, NULL, dice);
    for (int64_t i = 0; i < tensor_count(&tensor->dl); i++)
        put(tensor->dl.dtype, tensor_element(tensor, i), (double)numbers[i]);
}

static void give_list(struct problem *p, int which, int64_t count, const int64_t *numbers) {
    give(p, which, 1, &count, numbers);
}

/* Where settings go; names of formats lack a prefix. */
struct saying {
    kvmill_cache_attend *op;
    const char *prefix;
};

static bool say_one(void *to, const struct setting *setting) {
    const struct saying *saying = to;
    struct setting whole = *setting;
    snprintf(whole.name, sizeof whole.name, "%s%.30s", saying->prefix, setting->name);
    return setting_apply(&whole, kvmill_cache_attend_op.parts[0], saying->op);
}

static void say(kvmill_cache_attend *op, const char *prefix, const char *settings) {
    setting_say(settings, dice, &(struct saying){op, prefix}, say_one);
}

static void choose_op(struct problem *p) {
    kvmill_cache_attend *op = &p->op;
    kvmill_cache_attend_init(op, sizeof *op);
    say(op, "key_", FORMATS);
    p->format[0] = p->format[1] =
        format_of(op->key_cache_format, op->key_T2, op->key_T3, op->key_quant_group);
    if (dice_once_in(dice, 3)) {
        say(op, "value_", FORMATS);
        p->format[1] =
            format_of(op->value_cache_format, op->value_T2, op->value_T3, op->value_quant_group);
    }
    say(op, "",
        is_coded(&p->format[0]) || is_coded(&p->format[1])
            ? "key_head_dim=64 value_head_dim={0|32}"
            : "key_head_dim={16|64|80|40|128} value_head_dim={0|0|{16|64|80|32}}");
    say(op, "",
        "{num_heads=71 num_kv_heads=1|num_heads=8 num_kv_heads=2|num_heads=5 num_kv_heads=1|"
        "num_heads=4 num_kv_heads=4|num_heads=6 num_kv_heads=2|num_heads=1 num_kv_heads=1} "
        "T1={float32|float16|bfloat16} output_T1={none|none|float32} "
        "mask_T1={none|{bool|float16|bfloat16|float32}} page_size={1|2|3|4|5|6|7|8|9} "
        "softcap={0|0|0|3} is_causal={0|1} left_window_size={-1|-1|{0|1|5|17|39}} "
        "right_window_size={-1|-1|-1|{0|1|5}} softmax_scale={0|0|0.3} "
        "is_alibi={0|0|1} {||alibi_heads=80 alibi_first={0|3|9} max_bias={0|4}}");
    if (is_plain(p))
        say(op, "", "mask_T1=none is_causal=0 left_window_size=-1 right_window_size=-1 is_alibi=0");
    op->alibi_of_mask = op->is_alibi && op->mask_T1.bits && !dice_once_in(dice, 4);
    p->viewed = p->format[0].type <= ORACLE_BF16 && p->format[1].type == p->format[0].type &&
                op->value_head_dim <= op->key_head_dim && dice_once_in(dice, 3);
}

/* Returns the most rows of a sequence; for plain problems around 2048, the most positions of a
   kernel's call. */
static int64_t choose_most(const struct problem *p) {
    if (is_long(p))
        return is_plain(p) ? dice_range(dice, 2046, 2600) : 5000;
    return dice_once_in(dice, 4) ? 300 : 40;
}

/* Chooses the queries and rows of sequences. */
static void choose_sizes(struct problem *p) {
    struct oracle_attend *o = &p->oracle;
    int64_t most = choose_most(p);
    p->place = is_plain(p) ? LENGTHS : (enum place)dice_range(dice, 0, PLACES - 1);
    if (p->op.num_kv_heads == 1 && p->place == PAGES_OF_HEADS)
        p->place = PAGES;
    p->ragged = dice_once_in(dice, 2);
    p->each = is_long(p) ? 1 : dice_range(dice, 0, 4);
    o->batch = is_long(p) ? 1 : dice_range(dice, dice_once_in(dice, 20) ? 0 : 1, 3);
    o->heads = p->op.num_heads, o->kv_heads = p->op.num_kv_heads;
    o->dim = p->op.key_head_dim;
    o->value_dim = p->op.value_head_dim ? p->op.value_head_dim : o->dim;
    o->starts = take(o->batch + 1, sizeof(int64_t));
    o->lengths = take(o->batch * o->kv_heads, sizeof(int64_t));
    if (p->place != RANGES && p->place != SLOTS && !is_plain(p) && dice_once_in(dice, 3))
        o->rings = take(o->batch * o->kv_heads, sizeof(int64_t));
    p->op.mode = o->rings != NULL ? "circular" : NULL;
    for (int64_t b = 0; b < o->batch; b++) {
        o->starts[b + 1] =
            o->starts[b] + (p->ragged && !is_long(p) ? dice_range(dice, 0, 9) : p->each);
        int64_t length = is_long(p) ? most : dice_range(dice, 0, most);
        if (o->rings != NULL)
            length = length * 5 / 2;
        for (int64_t g = 0; g < o->kv_heads; g++)
            o->lengths[b * o->kv_heads + g] = length;
    }
    o->queries = o->starts[o->batch];
    p->rows = most + dice_range(dice, 0, 3);
    if (p->place >= PAGES)
        p->rows = (most / p->op.page_size + 2) * p->op.page_size * 2;
    p->cells = p->place == LENGTHS ? p->rows * o->batch : p->rows;
}

/* ---- Places of rows ---- */

static void choose_pages(struct problem *p) {
    struct oracle_attend *o = &p->oracle;
    int64_t size = p->op.page_size, pages = p->rows / size;
    int64_t owners = o->batch * (p->place == PAGES_OF_HEADS ? o->kv_heads : 1), total = 0;
    int64_t *starts = take(owners + 1, sizeof *starts), *ids = take(owners * (pages + 1), 8);
    int64_t *order = take(pages, sizeof *order);
    for (int64_t n = 0; n < owners; n++) {
        int64_t b = p->place == PAGES_OF_HEADS ? n / o->kv_heads : n;
        int64_t length = o->lengths[b * o->kv_heads], count = (length + size - 1) / size;
        if (o->rings != NULL)
            count = dice_range(dice, count > 0, count < pages ? count : pages);
        dice_order(dice, order, pages);
        memcpy(ids + total, order, (size_t)count * sizeof *ids);
        for (int64_t g = b * o->kv_heads; g < (b + 1) * o->kv_heads; g++) {
            if (p->place == PAGES_OF_HEADS && g != n)
                continue;
            for (int64_t j = 0; j < length; j++)
                o->cells[g][j] = order[j / size % count] * size + j % size;
            if (o->rings != NULL)
                o->rings[g] = count * size;
        }
        starts[n + 1] = total += count;
    }
    give_list(p, KVMILL_CACHE_ATTEND_PAGE_IDS, total, ids);
    give_list(p, KVMILL_CACHE_ATTEND_PAGE_STARTS, owners + 1, starts);
    free(starts), free(ids), free(order);
}

static void choose_slots(struct problem *p) {
    struct oracle_attend *o = &p->oracle;
    int64_t *starts = take(o->batch + 1, sizeof *starts), total = 0;
    int64_t *slots = take(o->batch * p->rows, sizeof *slots);
    for (int64_t b = 0; b < o->batch; b++) {
        int64_t length = o->lengths[b * o->kv_heads];
        for (int64_t j = 0; j < length; j++) {
            slots[total + j] = dice_range(dice, 0, p->rows - 1);
            for (int64_t g = 0; g < o->kv_heads; g++)
                o->cells[b * o->kv_heads + g][j] = slots[total + j];
        }
        starts[b + 1] = total += length;
    }
    give_list(p, KVMILL_CACHE_ATTEND_SLOTS, total, slots);
    give_list(p, KVMILL_CACHE_ATTEND_SLOT_STARTS, o->batch + 1, starts);
    free(starts), free(slots);
}

static void choose_ranges(struct problem *p) {
    struct oracle_attend *o = &p->oracle;
    int64_t longest = dice_once_in(dice, 2) ? p->rows : 3; /* short ranges leave gaps */
    o->ranges = take(2 * o->queries, sizeof *o->ranges);
    for (int64_t n = 0; n < o->queries; n++) {
        int64_t first = dice_range(dice, 0, p->rows);
        o->ranges[2 * n] = first;
        o->ranges[2 * n + 1] =
            dice_range(dice, first, first + longest < p->rows ? first + longest : p->rows);
    }
    give(p, KVMILL_CACHE_ATTEND_RANGES, 2, (int64_t[]){o->queries, 2}, o->ranges);
}

static void choose_places(struct problem *p) {
    struct oracle_attend *o = &p->oracle;
    for (int64_t n = 0; n < o->batch * o->kv_heads; n++) {
        if (p->place == RANGES)
            o->lengths[n] = p->rows;
        o->cells[n] = take(o->lengths[n], sizeof(int64_t));
        for (int64_t j = 0; j < o->lengths[n]; j++)
            o->cells[n][j] = (p->place == LENGTHS ? n / o->kv_heads * p->rows : 0) + j % p->rows;
        if (o->rings != NULL)
            o->rings[n] = p->rows;
    }
    if (p->place == RANGES)
        choose_ranges(p);
    else if (p->place == SLOTS)
        choose_slots(p);
    else if (p->place >= PAGES)
        choose_pages(p);
    if (p->place == RANGES || p->place == SLOTS)
        return;
    int64_t lengths[MOST_LISTS];
    for (int64_t b = 0; b < o->batch; b++)
        lengths[b] = o->lengths[b * o->kv_heads];
    give_list(p, KVMILL_CACHE_ATTEND_LENGTHS, o->batch, lengths);
}

/* ---- Masks and biases ---- */

/* Fills each row of a mask: random numbers, hidden ends or blocks, and seldom a NaN or an
   infinity. */
static void fill_mask(double *mask, int64_t rows, int64_t columns, bool is_bool) {
    for (int64_t r = 0; r < rows; r++) {
        int64_t kind = dice_range(dice, 0, 3), first = dice_range(dice, 0, columns);
        int64_t last = dice_range(dice, first, columns);
        int64_t strange = dice_once_in(dice, 20) ? dice_range(dice, 0, columns - 1) : -1;
        for (int64_t j = 0; j < columns; j++) {
            double *at = &mask[r * columns + j];
            bool ends = j < first || j >= last, block = (j / 64 + r) % 3 != 0;
            bool some = dice_once_in(dice, 3);
            *at = kind > 1 && !is_bool ? (double)dice_range(dice, -32, 32) / 16 : 0;
            if (kind == 0 ? ends : kind == 1 ? block : kind == 2 && some)
                *at = -INFINITY;
            if (j == strange && !is_bool)
                *at = dice_once_in(dice, 2) ? NAN : INFINITY;
        }
    }
}

static void choose_mask(struct problem *p) {
    struct oracle_attend *o = &p->oracle;
    int rank = (int)dice_range(dice, 1, 4);
    int64_t longest = 1;
    for (int64_t n = 0; n < o->batch * o->kv_heads; n++)
        longest = o->lengths[n] > longest ? o->lengths[n] : longest;
    int64_t dims[] = {p->ragged ? 1 : o->batch, o->heads, p->ragged ? o->queries : p->each,
                      dice_once_in(dice, 3) ? dice_range(dice, 1, longest) : longest};
    for (int d = 0; d < 3; d++)
        if (d < 4 - rank || dice_once_in(dice, 3))
            dims[d] = 1;
    o->mask = take(dims[0] * dims[1] * dims[2] * dims[3], sizeof *o->mask);
    fill_mask(o->mask, dims[0] * dims[1] * dims[2], dims[3], p->op.mask_T1.bits == 8);
    memcpy(o->mask_dims, dims, sizeof dims);
    struct fenced_tensor *mask = use(p, KVMILL_CACHE_ATTEND_ATTN_MASK);
    open_strided(mask, p->op.mask_T1, rank, dims + 4 - rank, false);
    for (int64_t i = 0; i < dims[0] * dims[1] * dims[2] * dims[3]; i++)
        put(p->op.mask_T1, tensor_element(mask, i), o->mask[i]);
}

static double *choose_heads(struct problem *p, int which, DLDataType type) {
    double *numbers = take(p->oracle.heads, sizeof *numbers);
    tensor_open(use(p, which), type, 1, &p->oracle.heads, NULL, dice);
    for (int64_t h = 0; h < p->oracle.heads; h++) {
        numbers[h] = (double)dice_range(dice, 1, 16) / 16;
        put(type, tensor_element(&p->tensor[which], h), numbers[h]);
    }
    return numbers;
}

static void choose_terms(struct problem *p) {
    struct oracle_attend *o = &p->oracle;
    if (p->op.mask_T1.bits)
        choose_mask(p);
    if (dice_once_in(dice, 3))
        o->sinks =
            choose_heads(p, KVMILL_CACHE_ATTEND_SINKS, dice_once_in(dice, 2) ? f32 : p->op.T1);
    if (p->op.is_alibi && dice_once_in(dice, 2))
        o->slopes = choose_heads(p, KVMILL_CACHE_ATTEND_ALIBI_SLOPES, f32);
    else if (p->op.is_alibi) {
        int64_t whole = p->op.alibi_heads ? p->op.alibi_heads : o->heads;
        double power = p->op.max_bias > 0 ? p->op.max_bias / 8 : 1;
        o->slopes = take(o->heads, sizeof *o->slopes);
        for (int64_t h = 0; h < o->heads; h++)
            o->slopes[h] =
                (double)(float)pow(oracle_alibi_slope(whole, p->op.alibi_first + h), power);
    }
    if (dice_once_in(dice, 4)) {
        o->positions = take(o->queries, sizeof *o->positions);
        for (int64_t n = 0; n < o->queries; n++)
            o->positions[n] = dice_range(dice, 0, 60);
        give_list(p, KVMILL_CACHE_ATTEND_POSITIONS, o->queries, o->positions);
    }
}

/* ---- Tensors ---- */

static int cache_shape(const struct problem *p, int64_t last, int64_t *shape) {
    const struct oracle_attend *o = &p->oracle;
    const int64_t four[] = {p->place == LENGTHS ? o->batch : p->rows / p->op.page_size,
                            p->place == LENGTHS ? p->rows : p->op.page_size, o->kv_heads, last};
    const int64_t three[] = {p->rows, o->kv_heads, last};
    bool is_four = p->place == LENGTHS || p->place == PAGE_DIM;
    memcpy(shape, is_four ? four : three, (is_four ? 4 : 3) * sizeof *shape);
    return is_four ? 4 : 3;
}

static void choose_key_positions(struct problem *p) {
    struct oracle_attend *o = &p->oracle;
    int64_t shape[4];
    int rank = cache_shape(p, 1, shape) - 2;
    if (o->rings != NULL || is_plain(p) || !dice_once_in(dice, 5))
        return;
    o->key_positions = take(p->cells, sizeof *o->key_positions);
    for (int64_t c = 0; c < p->cells; c++)
        o->key_positions[c] = dice_range(dice, 0, 60);
    give(p, KVMILL_CACHE_ATTEND_KEY_POSITIONS, rank, shape, o->key_positions);
}

/* Fills with NaN, as elements or as scales, if the format has floats. */
static void poison(struct fenced_tensor *tensor) {
    for (int64_t i = 0; i < tensor_count(&tensor->dl); i++)
        memset(tensor_element(tensor, i), 0xff, tensor_bytes(&tensor->dl, 1));
}

/* A long cache repeats its first rows: filling it would take longer than attending. */
enum { MOST_DISTINCT = 997 };

static void copy_row(struct fenced_tensor *tensor, int64_t to, int64_t from, int64_t elements) {
    memcpy(tensor_element(tensor, to * elements), tensor_element(tensor, from * elements),
           tensor_bytes(&tensor->dl, elements));
}

/* Fills row i of K and V, or copies row `like`. */
static void fill_cell(struct problem *p, int64_t i, const int64_t *dims, double **numbers,
                      int64_t like) {
    for (int v = 0; v < 2; v++) {
        const struct format *format = &p->format[v];
        struct fenced_tensor *rows = &p->tensor[KVMILL_CACHE_ATTEND_KEY + v],
                             *scales = &p->tensor[KVMILL_CACHE_ATTEND_KEY_SCALE + v];
        int64_t elements = format_elements(format, dims[v]);
        if (v == 1 && p->viewed) {
            memcpy(numbers[1] + i * dims[1], numbers[0] + i * dims[0],
                   (size_t)dims[1] * sizeof **numbers);
            continue;
        }
        int64_t groups = format->group != 0 ? dims[v] / format->group : 0;
        if (like == i) {
            fill_row(format, dims[v], p->bad_row[v] == i, tensor_element(rows, i * elements),
                     groups ? tensor_element(scales, i * groups) : NULL, numbers[v] + i * dims[v]);
            continue;
        }
        copy_row(rows, i, like, elements);
        if (groups > 0)
            copy_row(scales, i, like, groups);
        memcpy(numbers[v] + i * dims[v], numbers[v] + like * dims[v],
               (size_t)dims[v] * sizeof **numbers);
    }
}

/* Makes V a view of the first elements of K's rows. */
static void give_view(struct problem *p, const int64_t *shape) {
    p->view = p->tensor[KVMILL_CACHE_ATTEND_KEY].dl;
    memcpy(p->view_shape, shape, sizeof p->view_shape);
    p->view.shape = p->view_shape;
    p->tensors[KVMILL_CACHE_ATTEND_VALUE] = &p->view;
}

/* Writes only visible rows; the others stay poison. */
static void open_caches(struct problem *p) {
    struct oracle_attend *o = &p->oracle;
    int64_t dims[] = {o->dim, o->value_dim}, shape[4];
    double *numbers[2];
    for (int v = 0; v < 2; v++) {
        const struct format *format = &p->format[v];
        int rank = cache_shape(p, format_elements(format, dims[v]), shape);
        numbers[v] = take(p->cells * o->kv_heads * dims[v], sizeof(double));
        if (v == 1 && p->viewed) {
            give_view(p, shape);
            continue;
        }
        open_strided(use(p, KVMILL_CACHE_ATTEND_KEY + v), format->tensor, rank, shape,
                     p->place == PAGE_DIM || is_plain(p));
        poison(&p->tensor[KVMILL_CACHE_ATTEND_KEY + v]);
        if (format->group == 0)
            continue;
        shape[rank - 1] = dims[v] / format->group;
        tensor_open(use(p, KVMILL_CACHE_ATTEND_KEY_SCALE + v),
                    format->scale == ORACLE_F16 ? f16 : f32, rank, shape, NULL, dice);
        poison(&p->tensor[KVMILL_CACHE_ATTEND_KEY_SCALE + v]);
    }
    bool bad = p->kind == ANY && dice_once_in(dice, 3);
    for (int v = 0; v < 2; v++)
        p->bad_row[v] = bad ? dice_range(dice, 0, p->cells * o->kv_heads) : -1;
    for (int64_t i = 0; i < p->cells * o->kv_heads; i++)
        if (is_long(p) || oracle_attend_sees_cell(o, i / o->kv_heads, i % o->kv_heads))
            fill_cell(p, i, dims, numbers,
                      is_long(p) && i >= MOST_DISTINCT ? i % MOST_DISTINCT : i);
    o->k = numbers[0], o->v = numbers[1];
}

static void open_queries(struct problem *p) {
    struct oracle_attend *o = &p->oracle;
    int64_t shape[] = {o->batch, p->each, o->heads, o->dim}, *dims = shape;
    double *q = take(o->queries * o->heads * o->dim, sizeof *q);
    int rank = 4;
    if (p->ragged) {
        dims++, rank = 3, shape[1] = o->queries;
        give_list(p, KVMILL_CACHE_ATTEND_QUERY_STARTS, o->batch + 1, o->starts);
    }
    open_strided(use(p, KVMILL_CACHE_ATTEND_QUERY), p->op.T1, rank, dims, false);
    for (int64_t i = 0; i < o->queries * o->heads * o->dim; i++) {
        q[i] = (double)dice_range(dice, -32, 32) / 16;
        put(p->op.T1, tensor_element(&p->tensor[KVMILL_CACHE_ATTEND_QUERY], i), q[i]);
    }
    o->q = q, dims[rank - 1] = o->value_dim;
    open_strided(use(p, KVMILL_CACHE_ATTEND_ATTN_OUTPUT),
                 p->op.output_T1.bits ? p->op.output_T1 : p->op.T1, rank, dims, false);
    if (dice_once_in(dice, 2))
        tensor_open(use(p, KVMILL_CACHE_ATTEND_LSE), f32, rank - 1, dims, NULL, dice);
}

void problem_open(struct problem *p, enum problem_kind kind, struct dice *problem_dice) {
    dice = problem_dice;
    struct oracle_attend *o = &p->oracle;
    *p = (struct problem){.kind = kind};
    choose_op(p);
    choose_sizes(p);
    choose_places(p);
    choose_terms(p);
    choose_key_positions(p);
    if (oracle_attend_cuts_window(o, p->op.left_window_size)) /* plans refuse it */
        p->op.left_window_size = -1;
    o->is_causal = p->op.is_causal, o->window = p->op.left_window_size + 1;
    o->right_window = p->op.right_window_size;
    o->together = p->ragged, o->slopes_of_mask = p->op.alibi_of_mask;
    o->scale = p->op.softmax_scale > 0 ? p->op.softmax_scale : 1 / sqrt((double)o->dim);
    o->softcap = p->op.softcap;
    open_caches(p);
    open_queries(p);
    snprintf(p->words, sizeof p->words,
             "place %d, K of type %d, V of type %d, %" PRId64 "/%" PRId64 " heads, D %" PRId64
             ", E %" PRId64 "%s, B %" PRId64 ", %" PRId64 " queries%s%s%s%s%s%s%s",
             p->place, p->format[0].type, p->format[1].type, o->heads, o->kv_heads, o->dim,
             o->value_dim, p->viewed ? " of K" : "", o->batch, o->queries, o->mask ? ", mask" : "",
             o->slopes ? ", slopes" : "", o->sinks ? ", sinks" : "",
             o->positions ? ", positions" : "", o->key_positions ? ", key positions" : "",
             p->op.is_causal ? ", causal" : "", o->rings ? ", ring" : "");
}

void problem_close(struct problem *p) {
    struct oracle_attend *o = &p->oracle;
    void *arrays[] = {o->starts,        o->lengths, o->rings, o->positions,
                      o->key_positions, o->ranges,  o->mask,  o->slopes,
                      o->sinks,         o->q,       o->k,     o->v};
    tensors_close(p->tensor, KVMILL_CACHE_ATTEND_TENSORS);
    for (int i = 0; i < MOST_LISTS; i++)
        free(o->cells[i]);
    for (size_t i = 0; i < COUNT(arrays); i++)
        free(arrays[i]);
}
