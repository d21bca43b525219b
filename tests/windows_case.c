/* SPDX-License-Identifier: Apache-2.0 */
#include "windows_case.h"

#include <dlfcn.h>

#include "../ops/element.h"
#include "common.h"

enum role { WINDOW, DROPPED, BATCHING };

static int64_t random_extent(struct dice *dice, bool large) {
    if (dice_once_in(dice, 25))
        return 0;
    return dice_range(dice, 1, large ? 24 : 5);
}

static void choose_axes(struct dice *dice, bool large, bool gathers, struct geometry *g) {
    g->rank = (int)dice_range(dice, large ? 2 : 0, 5);
    bool paired = !large || dice_once_in(dice, 3); /* otherwise parts have to read indices */
    for (int d = 0; d < g->rank; d++) {
        enum role role = dice_once_in(dice, 2) ? WINDOW : (enum role)dice_range(dice, 0, 2);
        if (role == BATCHING && !paired)
            role = DROPPED;
        g->dims[d] = random_extent(dice, large);
        if (role == DROPPED && gathers && g->dims[d] == 0)
            g->dims[d] = 1;
        g->slice[d] = g->dims[d] > 0;
        if (role != WINDOW && gathers && dice_once_in(dice, 8))
            g->slice[d] = 0;
        if (role == WINDOW)
            g->slice[d] = dice_once_in(dice, 2) ? g->dims[d] : dice_range(dice, 0, g->dims[d]);
        if (role == WINDOW && g->slice[d] == 0 && !dice_once_in(dice, 10))
            g->slice[d] = g->dims[d] > 0;
        if (role == WINDOW)
            g->windows++;
        else if (role == DROPPED)
            g->dropped[g->droppeds++] = d;
        else
            g->batching[g->pairs++] = d;
    }
}

static bool is_in(const int64_t *list, int count, int64_t item) {
    for (int i = 0; i < count; i++)
        if (list[i] == item)
            return true;
    return false;
}

/* Chooses the axes of index vectors; large problems mostly use all axes. */
static void choose_map(struct dice *dice, bool large, struct geometry *g) {
    int64_t order[MOST_DIMS];
    dice_order(dice, order, g->rank);
    for (int i = 0; i < g->rank; i++)
        if (!is_in(g->batching, g->pairs, order[i]) && !dice_once_in(dice, large ? 20 : 3))
            g->map[g->components++] = order[i];
}

static void choose_indices(struct dice *dice, bool large, struct geometry *g) {
    int64_t order[MOST_DIMS], space[MOST_DIMS];
    int rank = g->pairs + (int)dice_range(dice, 0, 2);
    dice_order(dice, order, rank);
    for (int j = 0; j < rank; j++)
        space[order[j]] =
            j < g->pairs ? g->dims[g->batching[j]] : random_extent(dice, large && j == g->pairs);
    bool implicit = g->components == 1 && dice_once_in(dice, 3);
    g->ivd = implicit ? rank : (int)dice_range(dice, 0, rank);
    g->indices_rank = rank + !implicit;
    for (int j = 0; j < rank; j++)
        g->indices_dims[j < g->ivd ? j : j + 1] = space[j];
    if (!implicit)
        g->indices_dims[g->ivd] = g->components;
    for (int i = 0; i < g->pairs; i++)
        g->indices_batching[i] = order[i] < g->ivd ? order[i] : order[i] + 1;
}

static void choose_windowed(struct dice *dice, struct geometry *g) {
    int64_t order[MOST_DIMS], place = 0;
    bool is_window[MOST_DIMS] = {false};
    int windows = 0, point = 0;
    g->windowed_rank = g->indices_rank - (g->ivd < g->indices_rank) + g->windows;
    dice_order(dice, order, g->windowed_rank);
    for (int i = 0; i < g->windows; i++)
        is_window[order[i]] = true;
    for (int r = 0; r < g->windowed_rank; r++) {
        if (!is_window[r]) {
            point += point == g->ivd;
            g->windowed_dims[r] = g->indices_dims[point++];
            continue;
        }
        while (is_in(g->dropped, g->droppeds, place) || is_in(g->batching, g->pairs, place))
            place++;
        g->windowed_dims[r] = g->slice[place++];
        g->window[windows++] = r;
    }
}

static void count_geometry(const struct geometry *g) {
    saw("batching pairs", g->pairs > 0);
    saw("several batching pairs", g->pairs > 1);
    for (int i = 1; i < g->pairs; i++)
        saw("unsorted pairs", g->indices_batching[i] < g->indices_batching[i - 1]);
    saw("index vectors not last", g->ivd < g->indices_rank - 1);
    saw("implicit index vectors", g->ivd == g->indices_rank);
    saw("empty index vectors", g->components == 0);
    for (int i = 0; i < g->droppeds; i++)
        saw("slices of 0 on dropped axes",
            g->dims[g->dropped[i]] > 0 && g->slice[g->dropped[i]] == 0);
    for (int i = 0; i < g->pairs; i++)
        saw("slices of 0 on batching axes",
            g->dims[g->batching[i]] > 0 && g->slice[g->batching[i]] == 0);
    for (int i = 0; i < g->windows; i++)
        saw("window axes not last", g->window[i] < g->windowed_rank - g->windows);
}

static int64_t product(const int64_t *dims, int rank) {
    int64_t count = 1;
    for (int d = 0; d < rank; d++)
        count *= dims[d];
    return count;
}

/* Whether the problem can be divided into parts, and is small enough for the oracles. */
static bool has_right_size(const struct geometry *g, bool large) {
    int64_t count = product(g->windowed_dims, g->windowed_rank);
    return product(g->dims, g->rank) < 1 << 20 && count < 300000 && (!large || count > 40000);
}

void make_geometry(struct dice *dice, bool large, bool gathers, struct geometry *g) {
    do {
        *g = (struct geometry){0};
        choose_axes(dice, large, gathers, g);
        choose_map(dice, large, g);
        choose_indices(dice, large, g);
        choose_windowed(dice, g);
    } while (!has_right_size(g, large));
    count_geometry(g);
}

struct geometry geometry_along(int rank, const int64_t *dims, int axis, int64_t points) {
    struct geometry g = {.rank = rank,
                         .indices_rank = 2,
                         .windowed_rank = rank,
                         .indices_dims = {points, 1},
                         .dropped = {axis},
                         .map = {axis},
                         .droppeds = 1,
                         .components = 1,
                         .ivd = 1};
    for (int d = 0; d < rank; d++) {
        g.dims[d] = dims[d];
        g.slice[d] = d == axis ? 1 : dims[d];
        g.windowed_dims[d] = d == axis ? points : dims[d];
        if (d != axis)
            g.window[g.windows++] = d;
    }
    return g;
}

/* ---- Tensors ---- */

/* Chooses strides: axes in another order of memory, with gaps. */
static void choose_strides(struct dice *dice, int rank, const int64_t *dims, int64_t *strides) {
    int64_t order[MOST_DIMS], step = dice_range(dice, 1, 2);
    dice_order(dice, order, rank);
    for (int i = 0; i < rank; i++) {
        strides[order[i]] = step;
        step *= dims[order[i]] ? dims[order[i]] + dice_range(dice, 0, 1) : 1;
    }
}

static DLDataType bytes_of(DLDataType type) {
    return (DLDataType){kDLUInt, (uint8_t)(oracle_element_bytes(type) * 8), 1};
}

void open_elements(struct dice *dice, DLDataType type, int rank, const int64_t *dims, bool is_dense,
                   struct fenced_tensor *tensor) {
    int64_t strides[MOST_DIMS];
    /* Kernels need dense tensors. */
    bool strided = !is_dense && dice_once_in(dice, windows_cases(0) ? 8 : 3);
    choose_strides(dice, rank, dims, strides);
    tensor_open(tensor, bytes_of(type), rank, dims, strided ? strides : NULL, dice);
    tensor->dl.dtype = type;
    saw("strides", strided);
}

void open_pair(struct dice *dice, DLDataType type, int rank, const int64_t *dims, bool is_dense,
               struct pair *pair) {
    pair->bytes = oracle_element_bytes(type);
    pair->count = product(dims, rank);
    pair->dense = take(pair->count, (size_t)pair->bytes);
    open_elements(dice, type, rank, dims, is_dense, &pair->fenced);
}

/* Copies every element, of any type, as its bytes. */
static void move_pair(const struct pair *pair, unsigned char *dense, bool gather) {
    struct fenced_tensor bytes = pair->fenced;
    bytes.dl.dtype = bytes_of(bytes.dl.dtype);
    tensor_move(&bytes, dense, gather);
}

void put_pair(struct pair *pair) {
    move_pair(pair, pair->dense, false);
}

void close_pair(struct pair *pair) {
    free(pair->dense);
    tensor_close(&pair->fenced);
}

static bool is_nan(DLDataType type, const unsigned char *at) {
    return number_is_float(type) && type.bits >= 16 && isnan(number_get(type, at));
}

bool is_same_element(DLDataType type, const unsigned char *a, const unsigned char *b) {
    size_t bytes = (size_t)oracle_element_bytes(type);
    DLDataType half = {kDLFloat, (uint8_t)(type.bits / 2), 1};
    if (type.code == kDLComplex)
        return is_same_element(half, a, b) && is_same_element(half, a + bytes / 2, b + bytes / 2);
    return memcmp(a, b, bytes) == 0 || (is_nan(type, a) && is_nan(type, b));
}

bool is_as_dense(const struct pair *pair, DLDataType type) {
    size_t size = (size_t)(pair->count * pair->bytes);
    FREED unsigned char *have = malloc(size + 1);
    int64_t where, i = 0;
    move_pair(pair, have, true);
    if (memcmp(have, pair->dense, size) == 0)
        i = pair->count;
    while (i < pair->count &&
           is_same_element(type, have + i * pair->bytes, pair->dense + i * pair->bytes))
        i++;
    if (i < pair->count)
        diag("element %" PRId64 " of %" PRId64 " differs", i, pair->count);
    return i == pair->count && fence_is_intact(&pair->fenced.fence, &where);
}

/* ---- Indices ---- */

static const DLDataType index_types[] = {
    {kDLInt, 64, 1},  {kDLInt, 32, 1},  {kDLInt, 16, 1}, {kDLInt, 8, 1},
    {kDLInt, 4, 1},   {kDLInt, 2, 1},   {kDLUInt, 8, 1}, {kDLUInt, 16, 1},
    {kDLUInt, 32, 1}, {kDLUInt, 64, 1}, {kDLUInt, 4, 1}, {kDLUInt, 2, 1},
};

DLDataType random_index_type(struct dice *dice) {
    return index_types[dice_range(dice, 0, COUNT(index_types) - 1)];
}

void fill_indices(struct dice *dice, const struct geometry *g, DLDataType type,
                  struct pair *indices) {
    static const uint64_t ends[] = {INT64_MAX, (uint64_t)INT64_MIN, UINT64_MAX,
                                    (uint64_t)INT64_MAX - 1, (uint64_t)INT64_MIN + 1};
    bool extreme = false;
    for (int64_t i = 0; i < indices->count; i++) {
        int64_t dim = g->rank ? g->dims[dice_range(dice, 0, g->rank - 1)] : 1;
        uint64_t value = (uint64_t)dice_range(dice, 0, dim);
        if (dice_once_in(dice, 4))
            value = (uint64_t)dice_range(dice, -3, dim + 3);
        if (dice_once_in(dice, 15)) {
            value = ends[dice_range(dice, 0, 4)];
            extreme = true;
        }
        if (type.bits < 64) /* bits beyond the type's are ignored */
            value &= ((uint64_t)1 << type.bits) - 1;
        memcpy(indices->dense + i * indices->bytes, &value, (size_t)indices->bytes);
    }
    saw("extreme indices", extreme);
}

/* ---- Ops ---- */

static kvmill_dims list(const int64_t *items, int count) {
    return (kvmill_dims){items, (size_t)count};
}

kvmill_gather gather_of_geometry(const struct geometry *g) {
    return (kvmill_gather){
        .struct_size = sizeof(kvmill_gather),
        .offset_dims = list(g->window, g->windows),
        .collapsed_slice_dims = list(g->dropped, g->droppeds),
        .operand_batching_dims = list(g->batching, g->pairs),
        .start_indices_batching_dims = list(g->indices_batching, g->pairs),
        .start_index_map = list(g->map, g->components),
        .slice_sizes = list(g->slice, g->rank),
        .index_vector_dim = g->ivd,
    };
}

kvmill_scatter scatter_of_geometry(const struct geometry *g) {
    return (kvmill_scatter){
        .struct_size = sizeof(kvmill_scatter),
        .update_window_dims = list(g->window, g->windows),
        .inserted_window_dims = list(g->dropped, g->droppeds),
        .input_batching_dims = list(g->batching, g->pairs),
        .scatter_indices_batching_dims = list(g->indices_batching, g->pairs),
        .scatter_dims_to_operand_dims = list(g->map, g->components),
        .index_vector_dim = g->ivd,
    };
}

/* ---- Running ---- */

bool run_windows(struct dice *dice, kvmill_plan *plan, const DLTensor *const *tensors,
                 bool has_slots) {
    kvmill_error error;
    int64_t parts = 0;
    kvmill_status status =
        dice_once_in(dice, 3)
            ? kvmill_run(plan, tensors, kvmill_plan_tensor_count(plan), NULL, &error)
            : run_counting_parts(plan, tensors, NULL, 1, dice, &parts, &error);
    saw("several parts", parts > 1);
    saw("several inputs in several parts", has_slots && parts > 1);
    kvmill_plan_destroy(plan);
    return status == KVMILL_OK || diag("%s: %s", kvmill_status_name(status), error.message);
}

void random_bytes(struct dice *dice, struct pair *pair) {
    for (int64_t i = 0; i < pair->count * pair->bytes; i++)
        pair->dense[i] = (unsigned char)dice_bits(dice);
}

void print_tensor_type(FILE *stream, const DLTensor *tensor) {
    fprintf(stream, "tensor<");
    for (int d = 0; d < tensor->ndim; d++)
        fprintf(stream, "%" PRId64 "x", tensor->shape[d]);
    fprintf(stream, "%s>", kvmill_element_word(tensor->dtype));
}

void print_lists(FILE *stream, const struct op *of, const void *op, bool json) {
    const struct op_struct *part = of->parts[0];
    for (int m = 0; m < part->member_count; m++) {
        const struct op_member *member = &part->members[m];
        if (member->kind != OP_DIMS || (!json && strcmp(member->name, "slice_sizes") == 0))
            continue;
        const kvmill_dims *dims = (const void *)((const char *)op + member->offset);
        fprintf(stream, json ? ", \"%s\": [" : "%s = [", member->name);
        for (size_t i = 0; i < dims->count; i++)
            fprintf(stream, "%s%" PRId64, i ? ", " : "", dims->items[i]);
        fprintf(stream, json ? "]" : "], ");
    }
}

/* ---- Problems of gather ---- */

void open_gathering(struct dice *dice, struct gathering *it) {
    const struct geometry *g = &it->g;
    open_pair(dice, it->type, g->rank, g->dims, it->is_dense, &it->operand);
    open_pair(dice, it->index_type, g->indices_rank, g->indices_dims, it->is_dense, &it->indices);
    open_pair(dice, it->type, g->windowed_rank, g->windowed_dims, it->is_dense, &it->result);
    random_bytes(dice, &it->operand);
    fill_indices(dice, g, it->index_type, &it->indices);
    put_pair(&it->operand);
    put_pair(&it->indices);
    for (int i = 0; i < 16; i++)
        it->fill[i] = (unsigned char)dice_bits(dice);
    it->op = gather_of_geometry(g);
    it->op.fill_value = it->fill;
    it->op.operand = it->tensors[0] = &it->operand.fenced.dl;
    it->op.start_indices = it->tensors[1] = &it->indices.fenced.dl;
    it->op.result = it->tensors[2] = &it->result.fenced.dl;
}

void expect_gathering(struct gathering *it, enum oracle_form form) {
    oracle_gather(form, &it->g, &it->op, it->operand.dense, it->indices.dense, it->result.dense);
}

void close_gathering(struct gathering *it) {
    close_pair(&it->operand);
    close_pair(&it->indices);
    close_pair(&it->result);
}

/* ---- The environment ---- */

int windows_cases(int usual) {
    const char *cases = getenv("KVMILL_WINDOWS_CASES");
    return cases ? atoi(cases) : usual;
}

const kvmill_pack *loaded_pack(const char *path, const char *name) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const kvmill_pack *pack = library ? dlsym(library, name) : NULL;
    if (pack == NULL)
        bail_out("%s: no %s", path, name);
    return pack;
}
