/* Compares what kvmill stores in caches of llama.cpp's types with what ggml's reference functions
   make of the same rows, byte for byte, and what both read back.

   SPDX-License-Identifier: Apache-2.0 */
#include "../plans.h"
#include "ggml_engine.h"

enum { DIM = 64, ROWS = 4000, SIDES = 2, BLOCK = 32 };

/* Fills rows with numbers of all magnitudes, and many that are halfway between two codes. */
static void fill(float *rows, int64_t count) {
    uint64_t seed = 7;
    for (int64_t r = 0; r < count; r++) {
        int exponent = (int)(r % 20) - 10;
        for (int i = 0; i < DIM; i++)
            rows[r * DIM + i] = r % 3 == 0 ? (float)ldexp(floor(64 * draw(&seed)) / 2, exponent)
                                           : (float)ldexp(draw(&seed), exponent);
    }
}

/* Stores rows of K, and the same rows of V, in a cache, and reads them back. */
static bool store(const char *format, float *rows, int64_t row_bytes, unsigned char *cache,
                  float *back) {
    static const DLDataType float32 = {kDLFloat, 32, 1}, int64 = {kDLInt, 64, 1};
    kvmill_cache_attention op;
    OWN_PLAN kvmill_plan *plan = NULL;
    kvmill_error error;
    kvmill_cache_attention_init(&op, sizeof op);
    op.num_kv_heads = 1;
    op.head_dim = DIM;
    op.T1 = float32;
    op.T2 = (DLDataType){kDLUInt, 8, 1};
    op.cache_format = format;
    if (kvmill_plan_key_value_cache(&op, NULL, &plan, &error) != KVMILL_OK)
        return diag("%s", error.message);
    int64_t shape[] = {1, ROWS, 1, DIM}, none[] = {1}, zero = 0;
    int64_t stored[] = {1, 1, SIDES, ROWS, 1, row_bytes};
    DLTensor from = dense_tensor(float32, 4, shape, rows),
             key = dense_tensor(float32, 4, shape, back);
    DLTensor value = dense_tensor(float32, 4, shape, back + ROWS * DIM);
    DLTensor start = dense_tensor(int64, 1, none, &zero),
             to = dense_tensor(op.T2, 6, stored, cache);
    const DLTensor *tensors[KVMILL_CACHE_ATTENTION_TENSORS] = {
        [KVMILL_CACHE_ATTENTION_CURRENT_KEY] = &from,   [KVMILL_CACHE_ATTENTION_KEY] = &key,
        [KVMILL_CACHE_ATTENTION_CURRENT_VALUE] = &from, [KVMILL_CACHE_ATTENTION_VALUE] = &value,
        [KVMILL_CACHE_ATTENTION_START_POS] = &start,    [KVMILL_CACHE_ATTENTION_CACHE] = &to};
    FREED void *workspace = malloc(kvmill_plan_workspace_size(plan) + 1);
    bool done =
        kvmill_run(plan, tensors, KVMILL_CACHE_ATTENTION_TENSORS, workspace, &error) == KVMILL_OK;
    return done || diag("%s", error.message);
}

/* No block has numbers below 1e-15 only, for which ggml's iq4_nl gives arbitrary codes. */
static void test_type(enum ggml_type type, float *rows) {
    const char *name = ggml_type_name(type);
    const struct ggml_type_traits *traits = ggml_get_type_traits(type);
    int64_t row_bytes = (int64_t)ggml_row_size(type, DIM), bytes = ROWS * row_bytes;
    FREED unsigned char *ours = malloc((size_t)(SIDES * bytes)), *theirs = malloc((size_t)bytes);
    FREED float *back = malloc(SIDES * ROWS * DIM * sizeof *back);
    FREED float *expected = malloc(ROWS * DIM * sizeof *expected);
    bool done = store(name, rows, row_bytes, ours, back);
    traits->from_float_ref(rows, theirs, ROWS * DIM);
    traits->to_float(theirs, expected, ROWS * DIM);
    ok(done && memcmp(ours, theirs, (size_t)bytes) == 0, "%s: bytes as ggml's reference makes them",
       name);
    ok(done && memcmp(back, expected, ROWS * DIM * sizeof *back) == 0, "  and reads them");
}

int main(void) {
    static const enum ggml_type types[] = {GGML_TYPE_Q8_0, GGML_TYPE_Q5_1, GGML_TYPE_Q5_0,
                                           GGML_TYPE_Q4_1, GGML_TYPE_Q4_0, GGML_TYPE_IQ4_NL};
    FREED float *rows = malloc(ROWS * DIM * sizeof *rows);
    fill(rows, ROWS);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        test_type(types[i], rows);
    return done_testing();
}
