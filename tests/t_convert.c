/* Every kernel of every linked pack that writes or reads converted rows, and the portable ones, to
   the bit: random problems in fenced buffers, and the operators' reference numbers.

   SPDX-License-Identifier: Apache-2.0 */
#include "../runtime/portable/portable.h"
#include "common.h"
#include "convert_known.h"
#include "packs.h"

enum {
    USUAL_TOKENS = 12,
    MOST_TOKENS = 40,
    MOST_ROWS = 64,
    MOST_PIECES = 5,
    MOST_TILED_BYTES = 4096
};

static int64_t cases;

/* ---- Shapes ---- */

static bool is_float(int element) {
    return element <= KVMILL_BF16 || element == KVMILL_E4M3 || element == KVMILL_E5M2 ||
           element >= KVMILL_F32T;
}

static bool is_copy(const struct kvmill_convert_shape *shape) {
    return shape->activation == shape->format.element && shape->format.quant_group == 0;
}

static int64_t group_of(const struct kvmill_format *format) {
    enum oracle_type type = oracle_of_element(format->element);
    return oracle_is_blocks(type) ? oracle_block(type, format->dim)
           : oracle_group(format) ? oracle_group(format)
                                  : format->dim;
}

/* ---- Numbers to convert ---- */

static double any_fraction(struct dice *dice) {
    return (double)(int64_t)dice_bits(dice) * 0x1p-63;
}

static double any_float(enum oracle_type type, struct dice *dice) {
    uint32_t bits = (uint32_t)dice_bits(dice);
    double x = oracle_decode(type, type == ORACLE_F32 ? bits : bits & 0xffff);
    return isfinite(x) ? x : 1;
}

static double largest_of(enum oracle_type type) {
    return type == ORACLE_F16 ? 65504 : type == ORACLE_F32 ? 0x1.fffffep127 : 0x1.fep127;
}

/* Returns a half of a code, exactly or nearly, for the scale of `peak`. */
static double near_half(enum oracle_type type, double peak, int most, struct dice *dice) {
    double scale = fmax(oracle_round(type, peak / most), oracle_round(type, 1e-5));
    double half = (double)dice_range(dice, -most, most - 1) + 0.5;
    double beside = (double)dice_range(dice, -3, 3) * (type == ORACLE_F32   ? 0x1p-24
                                                       : type == ORACLE_F16 ? 0x1p-11
                                                                            : 0x1p-8);
    return half * scale * (1 + beside);
}

/* Returns a number halfway between two neighbours of a shorter type. */
static double any_midpoint(struct dice *dice) {
    static const enum oracle_type types[] = {ORACLE_F16, ORACLE_BF16, ORACLE_E4M3, ORACLE_E5M2};
    enum oracle_type type = types[dice_range(dice, 0, 3)];
    uint32_t bits = (uint32_t)dice_bits(dice) & 0x7fff;
    double x = oracle_decode(type, bits) / 2 + oracle_decode(type, bits + 1) / 2;
    return isfinite(x) ? x : 0;
}

/* Returns a magnitude whose scale is about the largest that float16 can hold. */
static double at_the_end_of_half(enum oracle_type type, int most, struct dice *dice) {
    double scale = 65504 + 4 * (double)dice_range(dice, -1, 9);
    double x = scale * most * (1 + (double)dice_range(dice, -2, 2) * 0x1p-24);
    return type == ORACLE_F16 ? 65504 : x;
}

/* Fills a group, of any kind; each element has its own dice. */
static void fill_group(enum oracle_type type, unsigned char *row, int64_t begin, int64_t count,
                       int most, struct dice *dice) {
    int kind = (int)dice_range(dice, 0, 11);
    double unit = ldexp(1, (int)dice_range(dice, -22, type == ORACLE_F16 ? 11 : 60));
    unit *= kind < 2 ? (double)dice_range(dice, 0, 7) * 2 + 1 : 1;
    double peak = oracle_round(type, kind < 2     ? most * unit / 128
                                     : kind == 11 ? at_the_end_of_half(type, most, dice)
                                                  : unit * (1 + fabs(any_fraction(dice))));
    int64_t at = begin + dice_range(dice, 0, count - 1);
    for (int64_t i = begin; i < begin + count; i++) {
        double x = kind == 0   ? (double)dice_range(dice, -2 * most, 2 * most) / 2 * unit / 128
                   : kind == 1 ? near_half(type, peak, most, dice)
                   : kind == 2 ? (i % 2 ? 0.0 : -0.0)
                   : kind == 3 ? any_fraction(dice) * 2e-3
                   : kind == 4 ? any_fraction(dice) * largest_of(type)
                   : kind == 5 ? any_float(type, dice)
                   : kind == 6 ? near_half(type, peak, most, dice)
                   : kind == 7 ? any_fraction(dice) * 1e-37
                   : kind == 8 ? any_midpoint(dice)
                               : any_fraction(dice) * peak;
        if (i == at && (kind < 2 || kind == 6 || kind == 11))
            x = dice_once_in(dice, 2) ? peak : -peak;
        oracle_put(type, row, i, x);
    }
    if (dice_once_in(dice, 24))
        oracle_put(type, row, at, dice_once_in(dice, 2) ? NAN : INFINITY);
    if (dice_once_in(dice, 48))
        oracle_put(type, row, begin + dice_range(dice, 0, count - 1), -INFINITY);
}

static void fill_activations(const struct kvmill_convert_shape *shape, unsigned char *row,
                             struct dice *dice) {
    const struct kvmill_format *format = &shape->format;
    int64_t group = group_of(format);
    enum oracle_type type = oracle_of_element(format->element);
    int most = type == ORACLE_I4          ? 7
               : oracle_has_minimum(type) ? (1 << oracle_code_bits(type)) - 1
               : oracle_middle(type) > 0  ? oracle_middle(type)
                                          : 127;
    for (int64_t i = 0; is_float(shape->activation) && i < format->dim; i += group)
        fill_group(oracle_of_element(shape->activation), row, i, group, most, dice);
}

static int numbers_of_block(int element) {
    return oracle_has_minimum(oracle_of_element(element)) ? 2 : 1;
}

/* Fills scales and numbers of a cache; some are numbers that a writer never stores. */
static void fill_floats(enum oracle_type type, unsigned char *array, int64_t count,
                        struct dice *dice) {
    for (int64_t i = 0; i < count; i++) {
        double x = ldexp(1 + any_fraction(dice) / 2, (int)dice_range(dice, -17, 8));
        if (dice_once_in(dice, 4))
            x = any_float(type, dice);
        if (dice_once_in(dice, 40))
            x = dice_once_in(dice, 2) ? NAN : INFINITY;
        oracle_put(type, array, i, x);
    }
}

static void fill_cache_row(const struct kvmill_format *format, unsigned char *data,
                           unsigned char *scale, struct dice *dice) {
    if (is_float(format->element))
        fill_floats(oracle_of_element(format->element), data, format->dim, dice);
    if (oracle_group(format) > 0)
        fill_floats(oracle_of_element(format->scale), scale, format->dim / format->quant_group,
                    dice);
    enum oracle_type type = oracle_of_element(format->element);
    int64_t count = oracle_block(type, format->dim), step = oracle_bytes(type, count);
    for (int64_t i = 0; oracle_is_blocks(type) && i < format->dim / count; i++)
        fill_floats(oracle_block_scale(type), data + i * step, numbers_of_block(format->element),
                    dice);
}

/* ---- Problems ---- */

enum { ACTIVATION, DATA, SCALE, GRIDS };

/* Tensors of bytes: [rows, heads, bytes of a row]. */
struct problem {
    const struct kvmill_kernel *kernel;
    const struct kvmill_convert_shape *shape;
    struct kvmill_convert convert;
    struct oracle_tiles tiles; /* of data; then its rows are adjacent */
    int64_t tokens, slot[MOST_TOKENS];
    bool whole; /* rows fill tiles and lines, except two that are elsewhere */
    struct fenced_tensor grid[GRIDS], expected[GRIDS];
    char words[512];
};

static int64_t round_up(int64_t x, int64_t to) {
    return (x + to - 1) / to * to;
}

/* Returns the bytes from one row to the next; head_step, from one head to the next. */
static int64_t row_step(const struct problem *problem, int grid) {
    return problem->grid[grid].strides[0];
}

static int64_t head_step(const struct problem *problem, int grid) {
    return problem->grid[grid].strides[1];
}

/* Opens a tensor with the strides that are constants in the kernel. */
static void open_grid(struct problem *problem, int grid, const int64_t shape[3], bool aligned,
                      const char *row_name, const char *head_name, struct dice *dice) {
    int64_t rows = shape[0], heads = shape[1], bytes = shape[2];
    int64_t row = constant_of(problem->kernel, row_name, 0);
    int64_t head = constant_of(problem->kernel, head_name, 0);
    bool packed = problem->tokens > USUAL_TOKENS || dice_once_in(dice, 2);
    int64_t step = bytes + (packed ? 0 : dice_range(dice, 0, 40));
    bool in_tiles = grid == DATA && problem->tiles.rows > 0;
    bool head_major = dice_once_in(dice, 2) || in_tiles || problem->whole;
    step = in_tiles ? bytes : aligned && !(packed && grid == DATA) ? round_up(step, 64) : step;
    int64_t strides[] = {head_major ? step : step * heads, head_major ? step * rows : step, 1};
    if (row > 0 || head > 0) {
        strides[0] = row > 0 ? row : head * heads;
        strides[1] = head > 0 ? head : row * rows;
    }
    int misalignment = aligned ? 0 : (int)dice_range(dice, FENCE_FLUSH, 63);
    tensor_open_at(&problem->grid[grid], u8, 3, shape, strides, misalignment, dice);
}

static unsigned char *row_in(const struct fenced_tensor *grid, int64_t row, int64_t head) {
    return grid->fence.data + row * grid->strides[0] + head * grid->strides[1];
}

static void exchange_slots(struct problem *problem, struct dice *dice) {
    int64_t *a = &problem->slot[dice_range(dice, 0, problem->tokens - 1)];
    int64_t *b = &problem->slot[dice_range(dice, 0, problem->tokens - 1)];
    int64_t slot = *a;
    *a = *b;
    *b = slot;
}

static void choose_slots(struct problem *problem, int64_t rows, struct dice *dice) {
    int64_t order[MOST_ROWS];
    bool are_many = problem->tokens > USUAL_TOKENS, in_order = dice_once_in(dice, 3) || are_many;
    int64_t first = problem->whole || dice_once_in(dice, 2) ? 0 : (rows - problem->tokens) / 2;
    dice_order(dice, order, rows);
    for (int64_t t = 0; t < problem->tokens; t++)
        problem->slot[t] = in_order ? first + t : order[t];
    if (problem->whole || (are_many && dice_once_in(dice, 2)))
        exchange_slots(problem, dice);
}

static void describe_problem(struct problem *problem) {
    const struct kvmill_convert *convert = &problem->convert;
    snprintf(problem->words, sizeof problem->words,
             "%s: tokens %" PRId64 ", heads %" PRId64 ", repeat %" PRId64 ", stream %" PRId64
             ", saturate %" PRId64 ", activation steps %" PRId64 " %" PRId64
             " at %d, data steps %" PRId64 " %" PRId64 " at %d, scale steps %" PRId64 " %" PRId64
             " at %d",
             problem->kernel->symbol, problem->tokens, convert->heads, convert->repeat,
             convert->stream, convert->saturate, convert->token_stride, convert->head_stride,
             (int)((uintptr_t)convert->activation % 64), row_step(problem, DATA),
             head_step(problem, DATA), (int)((uintptr_t)convert->cache.data % 64),
             row_step(problem, SCALE), head_step(problem, SCALE),
             (int)((uintptr_t)convert->cache.scale % 64));
}

/* Returns the most heads in a row of a cache, if the kernel has their strides as constants. */
static int64_t most_heads(const struct kvmill_kernel *kernel) {
    int64_t head = constant_of(kernel, "cache.head_stride", 1);
    int64_t most = constant_of(kernel, "cache.row_stride", 4 * head) / head;
    return most > 0 && most < 4 ? most : 4;
}

static int64_t choose_tokens(bool whole, struct dice *dice) {
    bool many = dice_once_in(dice, 4);
    return whole  ? MOST_TOKENS
           : many ? dice_range(dice, USUAL_TOKENS, MOST_TOKENS)
                  : dice_range(dice, 0, USUAL_TOKENS);
}

static void open_problem(struct problem *problem, const struct kvmill_kernel *kernel, bool whole,
                         struct dice *dice) {
    const struct kvmill_convert_shape *shape = kernel->shape;
    int64_t heads = constant_of(kernel, "heads", dice_range(dice, 1, most_heads(kernel)));
    int64_t repeat = constant_of(kernel, "repeat", dice_range(dice, 1, 3));
    int64_t tokens = choose_tokens(whole, dice);
    int64_t rows = tokens + dice_range(dice, 1, 5);
    bool aligned = whole || dice_once_in(dice, 2);
    repeat = convert_is_writer(kernel) ? 1 : repeat;
    *problem = (struct problem){.kernel = kernel,
                                .shape = shape,
                                .tiles = oracle_tiles_of(&shape->format),
                                .tokens = tokens,
                                .whole = whole};
    rows = problem->tiles.rows > 0 ? round_up(rows, problem->tiles.rows) : rows;
    const int64_t activation[] = {tokens + 1, heads * repeat, oracle_activation_bytes(shape)};
    const int64_t data[] = {rows, heads, oracle_data_bytes(&shape->format)};
    const int64_t scale[] = {rows, heads, oracle_scale_bytes(&shape->format)};
    open_grid(problem, ACTIVATION, activation, aligned, "", "head_stride", dice);
    open_grid(problem, DATA, data, aligned, "cache.row_stride", "cache.head_stride", dice);
    open_grid(problem, SCALE, scale, dice_once_in(dice, 2), "cache.scale_row_stride",
              "cache.scale_head_stride", dice);
    choose_slots(problem, rows, dice);
    problem->convert = (struct kvmill_convert){
        .shape = shape,
        .activation = problem->grid[ACTIVATION].fence.data,
        .token_stride = row_step(problem, ACTIVATION),
        .head_stride = head_step(problem, ACTIVATION),
        .cache = {problem->grid[DATA].fence.data,
                  shape->format.scale ? problem->grid[SCALE].fence.data : NULL,
                  row_step(problem, DATA), head_step(problem, DATA), row_step(problem, SCALE),
                  head_step(problem, SCALE)},
        .slot = problem->slot,
        .heads = heads,
        .repeat = repeat,
        .stream = whole || dice_once_in(dice, 2),
        .saturate = dice_once_in(dice, 2),
    };
    describe_problem(problem);
}

static void fill_problem(struct problem *problem, struct dice *dice) {
    const struct fenced_tensor *from = &problem->grid[ACTIVATION], *data = &problem->grid[DATA];
    for (int64_t h = 0; h < from->shape[1]; h++)
        for (int64_t t = 0; t < from->shape[0] && convert_is_writer(problem->kernel); t++)
            fill_activations(problem->shape, row_in(from, t, h), dice);
    for (int64_t h = 0; h < data->shape[1]; h++)
        for (int64_t r = 0; r < data->shape[0] && !convert_is_writer(problem->kernel); r++)
            fill_cache_row(&problem->shape->format, row_in(data, r, h),
                           row_in(&problem->grid[SCALE], r, h), dice);
    tensors_keep(problem->expected, problem->grid, GRIDS, dice);
}

/* Takes the row's bytes from the tile, and puts them back. */
static void expect_row_of_tile(struct problem *problem, int64_t t, int64_t h, unsigned char *row,
                               unsigned char *scales) {
    const struct fenced_tensor *cache = &problem->expected[DATA];
    unsigned char data[MOST_TILED_BYTES], *head = row_in(cache, 0, h);
    oracle_take_row(&problem->tiles, head, problem->slot[t], cache->shape[2], data);
    if (convert_is_writer(problem->kernel))
        oracle_convert_write(problem->shape, problem->convert.saturate != 0, row, data, scales);
    else
        oracle_convert_read(problem->shape, row, data, scales);
    oracle_put_row(&problem->tiles, head, problem->slot[t], cache->shape[2], data);
}

static void expect_row(struct problem *problem, int64_t t, int64_t h, int64_t repeated) {
    const struct fenced_tensor *expected = problem->expected;
    unsigned char *row = row_in(&expected[ACTIVATION], t, h * problem->convert.repeat + repeated);
    unsigned char *data = row_in(&expected[DATA], problem->slot[t], h);
    unsigned char *scales = row_in(&expected[SCALE], problem->slot[t], h);
    if (is_copy(problem->shape))
        memcpy(convert_is_writer(problem->kernel) ? data : row,
               convert_is_writer(problem->kernel) ? row : data, (size_t)expected[DATA].shape[2]);
    else if (problem->tiles.rows > 0)
        expect_row_of_tile(problem, t, h, row, scales);
    else if (convert_is_writer(problem->kernel))
        oracle_convert_write(problem->shape, problem->convert.saturate != 0, row, data, scales);
    else
        oracle_convert_read(problem->shape, row, data, scales);
}

static void compute_expected(struct problem *problem) {
    for (int64_t t = 0; t < problem->tokens; t++)
        for (int64_t h = 0; h < problem->convert.heads; h++)
            for (int64_t r = 0; r < problem->convert.repeat; r++)
                expect_row(problem, t, h, r);
}

static int compare_cuts(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void run_in_pieces(const struct problem *problem, struct dice *dice) {
    int64_t pieces = problem->whole ? 1 : dice_range(dice, 1, MOST_PIECES),
            cuts[MOST_PIECES + 1] = {0};
    int64_t order[MOST_PIECES];
    for (int64_t i = 1; i < pieces; i++)
        cuts[i] = dice_range(dice, 0, problem->tokens);
    cuts[pieces] = problem->tokens;
    qsort(cuts, (size_t)pieces + 1, sizeof *cuts, compare_cuts);
    dice_order(dice, order, pieces);
    for (int64_t i = 0; i < pieces; i++)
        problem->kernel->run(&problem->convert, cuts[order[i]], cuts[order[i] + 1]);
}

static void protect_inputs(const struct problem *problem, bool read_only) {
    uint64_t outputs =
        convert_is_writer(problem->kernel) ? 1u << DATA | 1u << SCALE : 1u << ACTIVATION;
    tensors_protect(problem->grid, GRIDS, outputs, read_only);
}

/* ---- Judging ---- */

/* Makes all NaNs equal: a NaN has many bit patterns, and machines choose different ones. */
static void unify(int element, unsigned char *row, int64_t dim) {
    enum oracle_type type = oracle_of_element(element);
    int64_t count = oracle_block(type, dim), step = oracle_bytes(type, count);
    int scale = oracle_block_scale(type) == ORACLE_F32 ? KVMILL_F32 : KVMILL_F16;
    for (int64_t i = 0; oracle_is_blocks(type) && i < dim / count; i++)
        unify(scale, row + i * step, numbers_of_block(element));
    for (int64_t i = 0; is_float(element) && i < dim; i++)
        if (isnan(oracle_get(type, row, i)))
            oracle_put(type, row, i, (double)NAN);
}

static void unify_grid(const struct fenced_tensor *grid, int element, int64_t dim) {
    for (int64_t r = 0; r < grid->shape[0]; r++)
        for (int64_t h = 0; h < grid->shape[1]; h++)
            unify(element, row_in(grid, r, h), dim);
}

static void unify_problem(const struct problem *problem) {
    const struct kvmill_convert_shape *shape = problem->shape;
    bool writes = convert_is_writer(problem->kernel);
    int output = writes ? DATA : ACTIVATION;
    int element = writes ? shape->format.element : shape->activation;
    if (is_copy(shape))
        return;
    unify_grid(&problem->grid[output], element, shape->format.dim);
    unify_grid(&problem->expected[output], element, shape->format.dim);
}

static bool run_case(const struct kvmill_kernel *kernel, bool whole, struct dice *dice) {
    struct problem problem;
    open_problem(&problem, kernel, whole, dice);
    fill_problem(&problem, dice);
    compute_expected(&problem);
    fence_explain_traps(problem.words);
    protect_inputs(&problem, true);
    run_in_pieces(&problem, dice);
    protect_inputs(&problem, false);
    unify_problem(&problem);
    bool good = tensors_are_kept(problem.grid, problem.expected, GRIDS, 0, problem.words);
    tensors_close(problem.grid, GRIDS);
    tensors_close(problem.expected, GRIDS);
    cases++;
    return good;
}

/* ---- The walk ---- */

static void test_kernel(const struct kvmill_kernel *kernel, int problems) {
    struct dice dice = dice_for_kernel(kernel);
    bool good = true;
    if (!isa_is_allowed(kernel->isa)) {
        skip_test("%s: this CPU or KVMILL_ISA rules out %s", kernel->symbol, kernel->isa);
        return;
    }
    for (int i = 0; good && i < (is_slow_run() ? 5 : problems); i++)
        good = run_case(kernel, i == 0, &dice);
    kernel_ran(kernel);
    ok(good, "%s", kernel->symbol);
    if (oracle_tiles_of(&((const struct kvmill_convert_shape *)kernel->shape)->format).rows == 0)
        convert_test_known(kernel); /* of single rows */
}

TEST(packs) {
    const struct kvmill_kernel *kernel;
    for (uint32_t i = 0; (kernel = kernel_at(i)) != NULL; i++)
        if (kernel->family == KVMILL_WRITE_ROWS || kernel->family == KVMILL_READ_ROWS)
            test_kernel(kernel, 80);
}

/* Tests the portable kernel, which has no shape of its own. */
static void test_portable(const struct kvmill_kernel *portable,
                          const struct kvmill_convert_shape *shape) {
    const struct kvmill_format *format = &shape->format;
    struct kvmill_kernel kernel = *portable;
    char symbol[128];
    snprintf(symbol, sizeof symbol, "kvmill_%s_rows_%d_%d_%d_d%d_g%d__portable",
             convert_is_writer(portable) ? "write" : "read", shape->activation, format->element,
             format->scale, (int)format->dim, (int)format->quant_group);
    kernel.symbol = symbol;
    kernel.isa = "scalar";
    kernel.shape = shape;
    test_kernel(&kernel, 25);
}

/* ELEMENT DIM SCALE GROUP */
EACH_ROW(portable_formats, 4) {
    for (int type = KVMILL_F32; type <= KVMILL_BF16; type++) {
        const struct kvmill_convert_shape shape = {
            type,
            {convert_element(cells[0]), atoi(cells[1]), convert_element(cells[2]), atoi(cells[3])}};
        test_portable(&kvmill_portable_write_rows, &shape);
        test_portable(&kvmill_portable_read_rows, &shape);
    }
}

TEST(copied) {
    const struct kvmill_convert_shape shape = {KVMILL_I8, {KVMILL_I8, 5, 0, 0}};
    test_portable(&kvmill_portable_write_rows, &shape);
    test_portable(&kvmill_portable_read_rows, &shape);
}

TEST(cases) {
    ok(cases > 0, "%" PRId64 " problems were run", cases);
}
