/* What cache attention does to the cache: new rows are written, all rows read back.

   SPDX-License-Identifier: Apache-2.0 */
#include "cache_attention.h"

#include "onnx_attention.h"

/* A part moves about that many bytes, and more than that altogether goes around the caches. */
static const int64_t part_bytes = 32 << 10;

/* Rows of one call of a kernel. */
enum { MOST_SLOTS = 512 };

/* ---- Sequences and slots ---- */

int64_t kvmill_find_sequence(const struct cache_call *call,
                             int64_t (*before)(const struct cache_call *call, int64_t b),
                             int64_t number) {
    int64_t first = 0, last = call->batch - 1;
    while (first < last) {
        int64_t middle = last - (last - first) / 2;
        if (before(call, middle) <= number)
            first = middle;
        else
            last = middle - 1;
    }
    return first;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void fill_run(int64_t row, int64_t count, int64_t *slots) {
    for (int64_t i = 0; i < count; i++)
        slots[i] = row + i;
}

/* ---- Pages ---- */

/* The list of a query head. */
struct list {
    const int32_t *pages; /* NULL: all */
    int64_t count;
};

static struct list list_of(const struct cache_call *call, int64_t b, int64_t head) {
    const struct page_lists *lists = &call->lists;
    int64_t row = b * lists->rows + head * lists->rows / cache_plan_of(call)->geometry.heads;
    if (lists->starts == NULL)
        return (struct list){NULL, lists->indptr[b + 1] - lists->indptr[b]};
    return (struct list){lists->list + lists->starts[row],
                         lists->starts[row + 1] - lists->starts[row]};
}

int64_t kvmill_positions_along(const struct cache_call *call, int64_t b, int64_t head) {
    const struct page_lists *lists = &call->lists;
    if (lists->ids == NULL)
        return positions_of(call, b);
    int64_t count = list_of(call, b, head).count, pages = lists->indptr[b + 1] - lists->indptr[b];
    int64_t missing = (pages - count) * cache_plan_of(call)->geometry.page_size;
    return count == 0 ? 0 : lists->length[b] - missing;
}

/* The first entry that is not below `page`; pages ascend. */
static int64_t find_entry(const struct list *list, int64_t page) {
    int64_t first = 0, last = list->count;
    while (first < last) {
        int64_t middle = first + (last - first) / 2;
        if (list->pages[middle] < page)
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

int64_t kvmill_first_in_window(const struct cache_call *call, int64_t b, int64_t head,
                               int64_t window) {
    struct list list = list_of(call, b, head);
    int64_t size = cache_plan_of(call)->geometry.page_size;
    int64_t first = call->lists.length[b] - window, page = first / size;
    if (first <= 0)
        return 0;
    int64_t entry = find_entry(&list, page);
    return entry * size + (entry < list.count && list.pages[entry] == page ? first % size : 0);
}

/* Where the pages of a query head lie. */
struct page_table {
    const kvmill_index *starts; /* first rows, `stride` apart; or NULL */
    int64_t stride, size, rows;
    const int32_t *ids;
    struct list list;
};

static struct page_table table_of(const struct cache_call *call, int64_t b, int64_t head) {
    const struct kvmill_cache_geometry *geometry = &cache_plan_of(call)->geometry;
    const struct page_lists *lists = &call->lists;
    if (lists->ids != NULL)
        return (struct page_table){.size = geometry->page_size,
                                   .rows = call->page_rows,
                                   .ids = lists->ids + lists->indptr[b],
                                   .list = list_of(call, b, head)};
    return (struct page_table){.starts = call->cachestarts.data + b * call->cachestarts.stride +
                                         head / geometry->ratio * call->page_head,
                               .stride = call->page_stride,
                               .size = geometry->page_size,
                               .rows = call->page_rows};
}

/* Pages lie one behind the other, or begin where they like if they lie so. */
static int64_t page_row(const struct page_table *table, int64_t page) {
    if (table->starts == NULL)
        return table->ids[table->list.pages ? table->list.pages[page] : page] * table->rows;
    int64_t start = table->starts[page * table->stride];
    return table->rows == table->size ? start : start / table->size * table->rows;
}

static void fill_pages(const struct cache_call *call, int64_t b, int64_t head, int64_t first,
                       int64_t count, int64_t *slots) {
    const struct page_table table = table_of(call, b, head);
    for (int64_t done = 0; done < count;) {
        int64_t page = (first + done) / table.size, at = (first + done) % table.size;
        int64_t run = least(table.size - at, count - done);
        fill_run(page_row(&table, page) + at, run, slots + done);
        done += run;
    }
}

/* Row of position 0 in a cache without pages. */
static int64_t base_row(const struct cache_call *call, int64_t b) {
    if (call->cachestarts.data != NULL)
        return index_at(call->cachestarts, b);
    return call->kvstarts.data ? index_at(call->kvstarts, b) : 0;
}

static bool has_pages(const struct cache_call *call) {
    return call->lists.ids != NULL ||
           (cache_plan_of(call)->geometry.paged && call->cachestarts.data != NULL);
}

void kvmill_fill_slots(const struct cache_call *call, int64_t b, int64_t head, int64_t first,
                       int64_t count, int64_t *slots) {
    if (has_pages(call))
        fill_pages(call, b, head, first, count, slots);
    else if (call->onnx != NULL)
        kvmill_onnx_fill_slots(call->onnx, b, first, count, slots);
    else
        fill_run(base_row(call, b) + first, count, slots);
}

/* ---- One way ---- */

/* Rows of the cache to or from activations, whose tokens are the new ones or all positions. */
struct way {
    bool writes;
    int64_t (*before)(const struct cache_call *call, int64_t b);
    const struct token_rows *activations;
    int64_t heads, repeat, total;
};

static struct way way_to(const struct cache_call *call) {
    return (struct way){true, tokens_before, call->current, cache_plan_of(call)->geometry.kv_heads,
                        1,    call->tokens};
}

static struct way way_back(const struct cache_call *call) {
    const struct kvmill_cache_geometry *geometry = &cache_plan_of(call)->geometry;
    return (struct way){
        false,          positions_before, call->loaded, geometry->kv_heads, geometry->repeat,
        call->positions};
}

/* Bytes that are written for a token. */
static int64_t token_bytes(const struct cache_call *call, const struct way *way) {
    const struct kvmill_cache_geometry *geometry = &cache_plan_of(call)->geometry;
    struct kvmill_format plain[] = {geometry->key, geometry->value};
    for (int v = 0; v < 2; v++)
        if (!way->writes)
            plain[v] = (struct kvmill_format){geometry->activation, plain[v].dim, 0, 0};
    return way->heads * way->repeat *
           (kvmill_format_row_bytes(&plain[0]) + kvmill_format_row_bytes(&plain[1]));
}

static int64_t part_tokens(const struct cache_call *call, const struct way *way) {
    int64_t tokens = part_bytes / token_bytes(call, way);
    return tokens > 0 ? tokens : 1;
}

static int64_t count_parts(const struct cache_call *call, const struct way *way) {
    int64_t tokens = part_tokens(call, way);
    return (way->total + tokens - 1) / tokens;
}

/* Activations of token 0 of a sequence. */
static unsigned char *activation_at(const struct cache_call *call, const struct way *way,
                                    const struct token_rows *rows, int64_t b) {
    int64_t before = call->seqstarts.data ? way->before(call, b) : 0;
    return rows->data + b * rows->batch + before * rows->token;
}

/* The address of a side in sequence b. */
static struct kvmill_cache_rows rows_of(const struct cache_side *side, int64_t b) {
    struct kvmill_cache_rows rows = side->rows;
    rows.data += b * side->batch;
    if (rows.scale != NULL)
        rows.scale += b * side->scale_batch;
    return rows;
}

/* K and V (v = 0, 1) of tokens [first, first + count) of a sequence, whose rows are in `slots`. */
static void move_rows(const struct cache_call *call, const struct way *way, int v, int64_t b,
                      int64_t first, int64_t count, const int64_t *slots) {
    const struct cache_plan *plan = cache_plan_of(call);
    const struct token_rows *rows = &way->activations[v];
    const struct by_size *kernels = way->writes ? plan->writers : plan->readers;
    const struct kvmill_convert problem = {
        .shape = &plan->shapes[v],
        .activation = activation_at(call, way, rows, b) + first * rows->token,
        .token_stride = rows->token,
        .head_stride = rows->head,
        .cache = rows_of(&call->side[v], b),
        .slot = slots,
        .heads = way->heads,
        .repeat = way->repeat,
        .stream = way->total * token_bytes(call, way) > part_bytes,
    };
    kvmill_kernel_of_call(&kernels[v], call)->run(&problem, 0, count);
}

/* Tokens [first, last) of a sequence. */
static void move_tokens(const struct cache_call *call, const struct way *way, int64_t b,
                        int64_t first, int64_t last) {
    int64_t slots[MOST_SLOTS];
    int64_t older = way->writes ? positions_of(call, b) - tokens_of(call, b) : 0;
    for (; first < last; first += MOST_SLOTS) {
        int64_t count = least(MOST_SLOTS, last - first);
        kvmill_fill_slots(call, b, 0, older + first, count, slots);
        for (int v = 0; v < 2; v++)
            move_rows(call, way, v, b, first, count, slots);
    }
}

/* Tokens [first, last) of all sequences together. */
static void move_range(const struct cache_call *call, const struct way *way, int64_t first,
                       int64_t last) {
    int64_t b = kvmill_find_sequence(call, way->before, first);
    for (; first < last; b++) {
        int64_t begin = way->before(call, b), end = least(last, way->before(call, b + 1));
        move_tokens(call, way, b, first - begin, end - begin);
        first = end;
    }
}

static void move_part(const struct cache_call *call, const struct way *way, int64_t part) {
    int64_t tokens = part_tokens(call, way);
    move_range(call, way, part * tokens, least(way->total, (part + 1) * tokens));
}

/* ---- Phases ---- */

static int64_t write_parts(const struct cache_call *call) {
    struct way way = way_to(call);
    return count_parts(call, &way);
}

static void write_part(const struct cache_call *call, int64_t part) {
    struct way way = way_to(call);
    move_part(call, &way, part);
}

static int64_t read_parts(const struct cache_call *call) {
    struct way way = way_back(call);
    return count_parts(call, &way);
}

static void read_part(const struct cache_call *call, int64_t part) {
    struct way way = way_back(call);
    move_part(call, &way, part);
}

const struct phase kvmill_write_phase = {write_parts, write_part};
const struct phase kvmill_read_phase = {read_parts, read_part};
