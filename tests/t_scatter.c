/* TensorScatter through the public interface against the oracle, bit for bit: random geometry,
   every type, portable and with packs, serially, in shuffled parts and on threads.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <kvmill_kernel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crew.h"
#include "fence.h"
#include "oracle/tensor_scatter.h"
#include "packs.h"
#include "tap.h"

static const DLDataType types[] = {{kDLFloat, 16, 1},
                                   {kDLBfloat, 16, 1},
                                   {kDLFloat, 32, 1},
                                   {kDLFloat, 64, 1},
                                   {kDLInt, 8, 1},
                                   {kDLInt, 16, 1},
                                   {kDLInt, 32, 1},
                                   {kDLInt, 64, 1},
                                   {kDLUInt, 8, 1},
                                   {kDLUInt, 16, 1},
                                   {kDLUInt, 32, 1},
                                   {kDLUInt, 64, 1},
                                   {KVMILL_DL_BOOL, 8, 1},
                                   {kDLComplex, 64, 1},
                                   {kDLComplex, 128, 1},
                                   {kDLOpaqueHandle, 64, 1},
                                   {kDLOpaqueHandle, 128, 1},
                                   {KVMILL_DL_FLOAT8_E4M3FN, 8, 1},
                                   {KVMILL_DL_FLOAT8_E4M3FNUZ, 8, 1},
                                   {KVMILL_DL_FLOAT8_E5M2, 8, 1},
                                   {KVMILL_DL_FLOAT8_E5M2FNUZ, 8, 1},
                                   {KVMILL_DL_FLOAT8_E8M0FNU, 8, 1},
                                   {kDLInt, 4, 1},
                                   {kDLUInt, 4, 1},
                                   {KVMILL_DL_FLOAT4_E2M1FN, 4, 1}};
enum { TYPE_COUNT = sizeof types / sizeof *types };

/* What became of the cases, to be sure that every way was gone. */
static struct {
    int64_t cases, stored_by_packs, kept_by_packs, strided, dynamic, in_place, many_parts, wrapped;
} seen;

static uint64_t seed;

/* ---- Geometry ---- */

struct scatter {
    DLDataType dtype;
    int rank, axis;
    bool circular, in_place, has_indices, use_packs;
    int64_t cache_dims[MOST_DIMS], update_dims[MOST_DIMS];
    struct fenced_tensor past, update, indices, present, expected;
    char words[512];
};

static int64_t choose_dim(struct dice *dice) {
    static const int64_t dims[] = {1, 1, 2, 2, 3, 3, 4, 5, 7};
    return dice_once_in(dice, 40) ? 0 : dims[dice_range(dice, 0, 8)];
}

static void choose_shape(struct scatter *scatter, struct dice *dice) {
    int64_t *dims = scatter->cache_dims;
    scatter->rank = (int)dice_range(dice, 2, 6);
    scatter->axis = (int)dice_range(dice, 1, scatter->rank - 1);
    scatter->circular = dice_once_in(dice, 2);
    for (int d = 0; d < scatter->rank; d++)
        dims[d] = choose_dim(dice);
    dims[scatter->axis] = dice_once_in(dice, 40) ? 0 : dice_range(dice, 1, 12);
    memcpy(scatter->update_dims, dims, sizeof scatter->update_dims);
    int64_t capacity = dims[scatter->axis];
    scatter->update_dims[scatter->axis] =
        dice_once_in(dice, 6) ? capacity : dice_range(dice, 0, capacity < 5 ? capacity : 5);
}

/* Large enough for several parts; every second time in one slab, which then is cut itself. */
static void enlarge(struct scatter *scatter, struct dice *dice) {
    bool one_slab = dice_once_in(dice, 2);
    int64_t bytes = one_slab ? 600000 : 450000, others = 1;
    for (int d = 0; d < scatter->rank; d++) {
        if (scatter->cache_dims[d] == 0 || (one_slab && d < scatter->axis))
            scatter->cache_dims[d] = 1;
        scatter->update_dims[d] = scatter->cache_dims[d];
        others *= d == scatter->axis ? 1 : scatter->cache_dims[d];
    }
    int64_t elements = bytes * 8 / scatter->dtype.bits;
    int64_t capacity = elements * dice_range(dice, 1, 2) / others + 3;
    scatter->cache_dims[scatter->axis] = capacity;
    scatter->update_dims[scatter->axis] = dice_range(dice, 1, capacity);
}

/* ---- Shapes that a kernel of a pack was made for ---- */

static const struct kvmill_kernel *choose_kernel(struct dice *dice) {
    const kvmill_pack *pack = packs[dice_range(dice, 0, 1)];
    return pack->kernels[dice_range(dice, 0, pack->count - 1)];
}

static int64_t field_or(int64_t field, int64_t choice) {
    return field == KVMILL_ANY ? choice : field;
}

/* Split a count over dims [from, to). */
static void factorize(int64_t *dims, int from, int to, int64_t count, struct dice *dice) {
    for (int d = from; d < to; d++) {
        int64_t factor = d + 1 == to ? count : dice_range(dice, 1, 4);
        while (count % factor != 0)
            factor--;
        dims[d] = factor;
        count /= factor;
    }
}

/* False where no tensor of this type folds to the kernel's shape. */
static bool fit_kernel(struct scatter *scatter, const struct kvmill_kernel *kernel,
                       struct dice *dice) {
    const struct kvmill_rows_shape *shape = kernel->shape;
    int bits = scatter->dtype.bits;
    if (kernel->family != KVMILL_STORE_ROWS)
        return false;
    int64_t row_bits = field_or(shape->row, bits * dice_range(dice, 1, 9)) * shape->unit_bits;
    if (row_bits % bits != 0 || (shape->unit_bits == 4) != (bits == 4 && row_bits / bits % 2 == 1))
        return false;
    int64_t *dims = scatter->cache_dims, rows = field_or(shape->rows, dice_range(dice, 1, 6));
    int64_t capacity = field_or(shape->capacity, rows + dice_range(dice, 0, 9));
    if (row_bits * field_or(shape->heads, 1) * capacity > 2000000)
        return false;
    scatter->circular = shape->circular;
    scatter->axis = (int)dice_range(dice, shape->heads == 1 ? 1 : 2, 3);
    scatter->rank = scatter->axis + (int)dice_range(dice, row_bits == bits ? 1 : 2, 3);
    dims[0] = dice_range(dice, 1, 3);
    factorize(dims, 1, scatter->axis, field_or(shape->heads, dice_range(dice, 1, 6)), dice);
    factorize(dims, scatter->axis + 1, scatter->rank, row_bits / bits, dice);
    dims[scatter->axis] = capacity;
    memcpy(scatter->update_dims, dims, sizeof scatter->update_dims);
    scatter->update_dims[scatter->axis] = rows < capacity ? rows : capacity;
    return true;
}

/* ---- Strides ---- */

enum layout { ROW_MAJOR, EXPLICIT, GAPS, BATCH_BACKWARDS, PERMUTED, REPEATED, LAYOUTS };

/* Dims from the innermost to the outermost, each at least as far apart as what it holds. */
static void lay_out(enum layout layout, int rank, const int64_t *dims, int64_t *strides,
                    struct dice *dice) {
    int64_t order[MOST_DIMS], step = 1;
    for (int d = 0; d < rank; d++)
        order[d] = rank - 1 - d;
    if (layout == PERMUTED)
        dice_order(dice, order, rank);
    for (int i = 0; i < rank; i++) {
        int d = (int)order[i];
        bool gap = layout >= GAPS && dice_once_in(dice, layout == PERMUTED ? 4 : 2) && d + 1 < rank;
        step += gap ? dice_range(dice, 1, 5) : 0;
        bool backwards =
            layout == PERMUTED ? dice_once_in(dice, 4) : layout == BATCH_BACKWARDS && d == 0;
        strides[d] = backwards ? -step : step;
        step *= dims[d] + !dims[d];
        if (layout == REPEATED && dice_once_in(dice, 2))
            strides[d] = 0; /* as broadcasting leaves it */
    }
}

/* Sources may hold the same element many times; 4-bit tensors have no strides to speak of. */
static void open_laid_out(const struct scatter *scatter, struct fenced_tensor *tensor,
                          const int64_t *dims, bool source, struct dice *dice) {
    int64_t strides[MOST_DIMS];
    enum layout layout = dice_once_in(dice, 2)
                             ? ROW_MAJOR
                             : dice_range(dice, EXPLICIT, source ? REPEATED : PERMUTED);
    if (scatter->dtype.bits == 4 && layout > EXPLICIT)
        layout = EXPLICIT;
    lay_out(layout, scatter->rank, dims, strides, dice);
    seen.strided += layout > EXPLICIT;
    tensor_open(tensor, scatter->dtype, scatter->rank, dims, layout == ROW_MAJOR ? NULL : strides,
                dice);
}

/* ---- Indices ---- */

static int64_t choose_start(const struct scatter *scatter, struct dice *dice) {
    int64_t capacity = scatter->cache_dims[scatter->axis];
    int64_t last = capacity - scatter->update_dims[scatter->axis];
    const int64_t linear[] = {0, last, dice_range(dice, 0, last), dice_range(dice, 0, last)};
    const int64_t wrapped[] = {dice_range(dice, last, capacity),
                               capacity + 1,
                               3 * capacity - 1,
                               INT64_MAX,
                               INT64_MAX - dice_range(dice, 0, capacity),
                               (int64_t)(dice_bits(dice) >> 1)};
    if (!scatter->circular || capacity == 0 || dice_once_in(dice, 3))
        return linear[dice_range(dice, 0, 3)];
    seen.wrapped++;
    return wrapped[dice_range(dice, 0, 5)];
}

static void open_indices(struct scatter *scatter, struct dice *dice) {
    static const int64_t steps[] = {1, 1, 2, 3, -1, -2, 0};
    int64_t step = steps[dice_range(dice, 0, 6)], batch = scatter->cache_dims[0];
    const DLDataType int64 = {kDLInt, 64, 1};
    scatter->has_indices = !dice_once_in(dice, 6);
    if (!scatter->has_indices)
        return;
    tensor_open(&scatter->indices, int64, 1, &batch, step == 1 ? NULL : &step, dice);
    unsigned char *first = scatter->indices.fence.data + scatter->indices.dl.byte_offset;
    for (int64_t b = 0; b < batch; b++) {
        int64_t start = choose_start(scatter, dice);
        memcpy(first + b * step * 8, &start, sizeof start);
    }
}

/* ---- A case ---- */

static size_t print_dims(char *text, size_t size, const char *name, const DLTensor *tensor) {
    size_t at = (size_t)snprintf(text, size, ", %s", name);
    for (int d = 0; d < tensor->ndim; d++)
        at += (size_t)snprintf(text + at, size - at, " %" PRId64, tensor->shape[d]);
    for (int d = 0; tensor->strides != NULL && d < tensor->ndim; d++)
        at += (size_t)snprintf(text + at, size - at, "%s%" PRId64, d ? " " : " by ",
                               tensor->strides[d]);
    return at;
}

static void put_into_words(struct scatter *scatter) {
    char *text = scatter->words;
    size_t size = sizeof scatter->words, at;
    at = (size_t)snprintf(text, size, "%d bits, axis %d, %s, %s", scatter->dtype.bits,
                          scatter->axis, scatter->circular ? "circular" : "linear",
                          scatter->in_place ? "in place" : "functional");
    at += print_dims(text + at, size - at, "past", &scatter->past.dl);
    at += print_dims(text + at, size - at, "update", &scatter->update.dl);
    if (!scatter->in_place)
        at += print_dims(text + at, size - at, "present", &scatter->present.dl);
    for (int64_t b = 0; scatter->has_indices && b < scatter->cache_dims[0] && b < 3; b++) {
        int64_t start;
        const struct fenced_tensor *indices = &scatter->indices;
        int64_t step = indices->dl.strides ? indices->strides[0] : 1;
        memcpy(&start, indices->fence.data + indices->dl.byte_offset + b * step * 8, 8);
        at += (size_t)snprintf(text + at, size - at, "%s%" PRId64, b ? " " : ", indices ", start);
    }
}

static void open_tensors(struct scatter *scatter, struct dice *dice) {
    scatter->in_place = dice_once_in(dice, 2);
    open_laid_out(scatter, &scatter->update, scatter->update_dims, true, dice);
    open_laid_out(scatter, &scatter->past, scatter->cache_dims, !scatter->in_place, dice);
    open_indices(scatter, dice);
    if (!scatter->in_place)
        open_laid_out(scatter, &scatter->present, scatter->cache_dims, false, dice);
    seen.in_place += scatter->in_place;
}

static void close_tensors(struct scatter *scatter) {
    tensor_close(&scatter->past);
    tensor_close(&scatter->update);
    tensor_close(&scatter->indices);
    tensor_close(&scatter->present);
    tensor_close(&scatter->expected);
}

static const struct fenced_tensor *output_of(const struct scatter *scatter) {
    return scatter->in_place ? &scatter->past : &scatter->present;
}

static void compute_expected(struct scatter *scatter, struct dice *dice) {
    tensor_open_copy(&scatter->expected, output_of(scatter), dice);
    oracle_tensor_scatter(scatter->axis, scatter->circular,
                          scatter->in_place ? &scatter->expected.dl : &scatter->past.dl,
                          &scatter->update.dl, scatter->has_indices ? &scatter->indices.dl : NULL,
                          &scatter->expected.dl);
}

/* ---- Planning ---- */

struct prototype {
    DLTensor dl;
    int64_t shape[MOST_DIMS];
};

/* A tensor without data, some of its dims left open. */
static DLTensor *prototype_of(struct prototype *prototype, const struct fenced_tensor *tensor,
                              unsigned open_dims) {
    prototype->dl = tensor->dl;
    prototype->dl.data = NULL;
    prototype->dl.shape = prototype->shape;
    for (int d = 0; d < tensor->dl.ndim; d++)
        prototype->shape[d] = open_dims >> d & 1 ? KVMILL_DYNAMIC : tensor->shape[d];
    return &prototype->dl;
}

static unsigned choose_open_dims(struct dice *dice) {
    unsigned open_dims = (unsigned)dice_range(dice, 0, 63);
    if (dice_once_in(dice, 2))
        return 0;
    seen.dynamic++;
    return open_dims;
}

static void count_kernels(const kvmill_plan *plan) {
    char text[1024];
    kvmill_plan_describe(plan, text, sizeof text);
    seen.stored_by_packs += strstr(text, "kvmill_store_rows__portable") == NULL;
    seen.kept_by_packs += strstr(text, "kvmill_keep_rows__portable") == NULL;
}

static kvmill_plan *make_plan(const struct scatter *scatter, struct dice *dice) {
    struct prototype past, update, indices, present;
    unsigned open_dims = choose_open_dims(dice);
    kvmill_tensor_scatter op = {
        .struct_size = sizeof op,
        .axis = dice_once_in(dice, 2) ? scatter->axis : scatter->axis - scatter->rank,
        .mode = scatter->circular       ? "circular"
                : dice_once_in(dice, 2) ? "linear"
                                        : NULL,
        .past_cache = prototype_of(&past, &scatter->past, open_dims),
        .update = prototype_of(&update, &scatter->update, open_dims),
        .write_indices = prototype_of(&indices, &scatter->indices, open_dims & 1),
        .present_cache = prototype_of(&present, output_of(scatter), open_dims),
    };
    kvmill_plan_options options = {.struct_size = sizeof options, .packs = packs, .pack_count = 2};
    kvmill_plan *plan;
    kvmill_error error;
    if (!scatter->has_indices)
        op.write_indices = NULL;
    if (scatter->in_place && dice_once_in(dice, 2))
        op.present_cache = NULL;
    if (kvmill_plan_tensor_scatter(&op, scatter->use_packs ? &options : NULL, &plan, &error) !=
        KVMILL_OK) {
        diag("planning failed: %s", error.message);
        return NULL;
    }
    count_kernels(plan);
    return plan;
}

/* ---- Running ---- */

static void run_on_threads(void *data, int64_t parts, void (*part)(void *context, int64_t index),
                           void *context) {
    enum { THREADS = 3 };
    (void)data;
    crew_share(THREADS, parts, part, context);
}

static kvmill_status run_in_shuffled_parts(const kvmill_plan *plan, const DLTensor *const *tensors,
                                           struct dice *dice, kvmill_error *error) {
    kvmill_call call;
    kvmill_status status = kvmill_begin(&call, plan, tensors, NULL, error);
    if (status != KVMILL_OK)
        return status;
    seen.many_parts += kvmill_parts(&call) > 2;
    crew_run_phase(&call, 1, dice);
    if (kvmill_next(&call))
        bail_out("a TensorScatter of two phases");
    return KVMILL_OK;
}

static kvmill_status run_plan(const struct scatter *scatter, const kvmill_plan *plan,
                              struct dice *dice, kvmill_error *error) {
    const DLTensor *const tensors[] = {&scatter->past.dl, &scatter->update.dl,
                                       scatter->has_indices ? &scatter->indices.dl : NULL,
                                       &output_of(scatter)->dl};
    switch (dice_range(dice, 0, 4)) {
    case 0:
        return kvmill_run(plan, tensors, NULL, error);
    case 1:
        return kvmill_run_parallel(plan, tensors, NULL, run_on_threads, NULL, error);
    default:
        return run_in_shuffled_parts(plan, tensors, dice, error);
    }
}

static void protect_inputs(const struct scatter *scatter, bool read_only) {
    fence_protect(&scatter->update.fence, read_only);
    if (scatter->has_indices)
        fence_protect(&scatter->indices.fence, read_only);
    if (!scatter->in_place)
        fence_protect(&scatter->past.fence, read_only);
}

static bool is_as_expected(const struct scatter *scatter) {
    int64_t where;
    const struct fenced_tensor *output = output_of(scatter);
    if (!fence_is_intact(&output->fence, &where)) {
        diag("byte %" PRId64 " of %zu is outside of present, but was written", where,
             output->fence.size);
        return false;
    }
    if (tensor_is_equal(output, &scatter->expected, &where))
        return true;
    diag("byte %" PRId64 " of %zu of present: have %02x, want %02x", where, output->fence.size,
         output->fence.data[where], scatter->expected.fence.data[where]);
    return false;
}

static bool plan_and_run(const struct scatter *scatter, struct dice *dice) {
    kvmill_error error;
    kvmill_plan *plan = make_plan(scatter, dice);
    if (plan == NULL)
        return false;
    protect_inputs(scatter, true);
    kvmill_status status = run_plan(scatter, plan, dice, &error);
    protect_inputs(scatter, false);
    if (status != KVMILL_OK)
        diag("%s: %s", kvmill_status_name(status), error.message);
    bool good = status == KVMILL_OK && is_as_expected(scatter);
    if (!good) {
        char text[1024];
        kvmill_plan_describe(plan, text, sizeof text);
        diag("%s", text);
    }
    kvmill_plan_destroy(plan);
    return good;
}

static bool run_case(struct scatter *scatter, struct dice *dice) {
    open_tensors(scatter, dice);
    put_into_words(scatter);
    fence_explain_traps(scatter->words);
    compute_expected(scatter, dice);
    bool good = plan_and_run(scatter, dice);
    if (!good)
        diag("%s", scatter->words);
    close_tensors(scatter);
    seen.cases++;
    return good;
}

/* ---- Tests ---- */

static bool run_random_case(DLDataType type, bool use_packs, bool large, struct dice *dice) {
    struct scatter scatter = {.dtype = type, .use_packs = use_packs};
    bool for_kernel = use_packs && !large && !dice_once_in(dice, 3);
    for (int tries = 0; for_kernel && tries < 8; tries++)
        if (fit_kernel(&scatter, choose_kernel(dice), dice))
            return run_case(&scatter, dice);
    choose_shape(&scatter, dice);
    if (large)
        enlarge(&scatter, dice);
    return run_case(&scatter, dice);
}

static void test_type(DLDataType type, bool use_packs) {
    char words[64];
    snprintf(words, sizeof words, "type %d of %d bits with %s", type.code, type.bits,
             use_packs ? "packs" : "no packs");
    struct dice dice = dice_for(seed, words);
    int cases = is_slow_run() ? few_cases(10) : 250;
    bool good = true;
    for (int i = 0; good && i < cases; i++)
        good = run_random_case(type, use_packs, i % 125 == few_cases(10) - 1, &dice);
    ok(good, "%s: random geometry", words);
}

/* Rows of an odd number of nibbles begin in either half of a byte, in the source and in the target
   independently: every combination of odd and even counts and starts. */
static bool run_parities(int64_t parities, bool use_packs, struct dice *dice) {
    struct scatter scatter = {
        .dtype = {kDLInt, 4, 1}, .use_packs = use_packs, .rank = 4, .axis = 2};
    int64_t row = 5 + (parities & 1), capacity = 6 + (parities >> 1 & 1);
    const int64_t dims[] = {1 + (parities >> 2 & 1), 2 + (parities >> 3 & 1), capacity, row};
    memcpy(scatter.cache_dims, dims, sizeof dims);
    memcpy(scatter.update_dims, dims, sizeof dims);
    scatter.update_dims[2] = 1 + (parities >> 4 & 3);
    scatter.circular = parities >> 6 & 1;
    return run_case(&scatter, dice);
}

static void test_parities(bool use_packs) {
    struct dice dice = dice_for(seed, "parities");
    bool good = true;
    int repeats = is_slow_run() ? 1 : 8;
    for (int64_t i = 0; good && i < 128 * repeats; i++)
        good = run_parities(i % 128, use_packs, &dice);
    ok(good, "int4 with %s: every pair of parities", use_packs ? "packs" : "no packs");
}

static void test_small_nibbles(bool use_packs) {
    struct dice dice = dice_for(seed, "small");
    bool good = true;
    for (int64_t i = 0; good && i < few_cases(60); i++) {
        struct scatter scatter = {.dtype = {kDLUInt, 4, 1},
                                  .use_packs = use_packs,
                                  .rank = 3,
                                  .axis = 1,
                                  .circular = i % 2};
        const int64_t dims[] = {1, 1 + i / 2 % 3, 1};
        memcpy(scatter.cache_dims, dims, sizeof dims);
        memcpy(scatter.update_dims, dims, sizeof dims);
        scatter.update_dims[1] = dice_range(&dice, 0, dims[1]);
        good = run_case(&scatter, &dice);
    }
    ok(good, "uint4 with %s: one to three nibbles in all", use_packs ? "packs" : "no packs");
}

/* ---- Parts that may run at the same time ---- */

/* Count, for each byte of present, the parts that write it: past is all ones, update all zeros and
   present neither, so that whoever touches a nibble changes it. */
static void count_writers(const kvmill_plan *plan, const DLTensor *const *tensors, size_t size,
                          unsigned char *writers) {
    unsigned char *present = tensors[KVMILL_TENSOR_SCATTER_PRESENT_CACHE]->data,
                  *before = malloc(size);
    kvmill_call call;
    if (before == NULL || kvmill_begin(&call, plan, tensors, NULL, NULL) != KVMILL_OK)
        bail_out("cannot begin");
    memcpy(before, present, size);
    for (int64_t part = 0; part < kvmill_parts(&call); part++) {
        kvmill_part(&call, part);
        for (size_t i = 0; i < size; i++)
            writers[i] += present[i] != before[i];
        memcpy(present, before, size);
    }
    free(before);
}

static bool are_parts_apart(DLDataType type, const struct scatter *scatter, kvmill_plan *plan) {
    size_t size = output_of(scatter)->fence.size, most = 0;
    const DLTensor *const tensors[] = {&scatter->past.dl, &scatter->update.dl, NULL,
                                       &output_of(scatter)->dl};
    unsigned char *writers = calloc(size, 1);
    if (writers == NULL)
        bail_out("no memory");
    memset(scatter->past.fence.data, 0xff, scatter->past.fence.size);
    memset(scatter->update.fence.data, 0x00, scatter->update.fence.size);
    if (!scatter->in_place)
        memset(scatter->present.fence.data, 0x55, scatter->present.fence.size);
    count_writers(plan, tensors, size, writers);
    for (size_t i = 0; i < size; i++)
        if (writers[i] > writers[most])
            most = i;
    if (writers[most] != 1)
        diag("%d bits: %d parts write byte %zu of %zu", type.bits, writers[most], most, size);
    bool good = writers[most] == 1;
    free(writers);
    return good;
}

/* No byte has two writers, also where slabs of an odd number of nibbles meet: so no order and no
 * race of the parts can matter. */
static void test_parts_are_apart(DLDataType type, bool use_packs, bool in_place) {
    struct dice dice = dice_for(seed, "apart");
    struct scatter scatter = {
        .dtype = type, .rank = 4, .axis = 2, .use_packs = use_packs, .in_place = in_place};
    const int64_t dims[] = {3, 5, 401, 255}, rows[] = {3, 5, in_place ? 401 : 301, 255};
    tensor_open(&scatter.past, type, 4, dims, NULL, &dice);
    tensor_open(&scatter.update, type, 4, rows, NULL, &dice);
    if (!in_place)
        tensor_open(&scatter.present, type, 4, dims, NULL, &dice);
    kvmill_plan *plan = make_plan(&scatter, &dice);
    ok(plan != NULL && are_parts_apart(type, &scatter, plan), "%d bits with %s%s: parts are apart",
       type.bits, use_packs ? "packs" : "no packs", in_place ? ", in place" : "");
    kvmill_plan_destroy(plan);
    close_tensors(&scatter);
}

static void test_coverage(void) {
    ok(seen.cases > 0, "%" PRId64 " problems were run", seen.cases);
    ok(seen.stored_by_packs > 0, "%" PRId64 " times a pack's kernel stored", seen.stored_by_packs);
    ok(seen.kept_by_packs > 0, "%" PRId64 " times a pack's kernel kept", seen.kept_by_packs);
    ok(seen.strided > 0, "%" PRId64 " tensors had gaps or another order", seen.strided);
    ok(seen.dynamic > 0, "%" PRId64 " plans had dynamic dims", seen.dynamic);
    ok(seen.in_place > 0, "%" PRId64 " runs were in place", seen.in_place);
    ok(seen.many_parts > 0, "%" PRId64 " runs had more than two parts", seen.many_parts);
    ok(seen.wrapped > 0, "%" PRId64 " starts lay at the end of a ring or beyond", seen.wrapped);
}

int main(void) {
    seed = dice_seed();
    for (int use_packs = 0; use_packs < 2; use_packs++) {
        for (int t = 0; t < TYPE_COUNT; t++)
            test_type(types[t], use_packs);
        test_parities(use_packs);
        test_small_nibbles(use_packs);
        for (int in_place = 0; in_place < 2; in_place++) {
            test_parts_are_apart(types[8], use_packs, in_place);
            test_parts_are_apart(types[22], use_packs, in_place);
        }
    }
    test_coverage();
    return done_testing();
}
