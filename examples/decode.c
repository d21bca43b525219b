/* A decode loop over a key cache: plan once, run per token.

   Four sequences have prompts of different length.  Every step stores one new key per sequence
   and head after the tokens that the cache already has.  Build: make -C examples (needs
   pkg-config). */
#include <stdio.h>
#include <stdlib.h>

#include <kvmill.h>
#include <kvmill_default.h>

enum { BATCH = 4, HEADS = 8, CAPACITY = 1024, HEAD_DIM = 128, STEPS = 100 };

static DLTensor tensor(void *data, int rank, int64_t *shape, DLDataType dtype) {
    return (DLTensor){
        .data = data, .device = {kDLCPU, 0}, .ndim = rank, .dtype = dtype, .shape = shape};
}

static void check(kvmill_status status, const kvmill_error *error) {
    if (status == KVMILL_OK)
        return;
    fprintf(stderr, "%s: %s\n", kvmill_status_name(status), error->message);
    exit(1);
}

/* Checks what depends only on shapes and types, and chooses a kernel. */
static kvmill_plan *plan_of(const DLTensor *cache, const DLTensor *update,
                            const DLTensor *write_indices) {
    const kvmill_pack *packs[] = {&kvmill_pack_kvmill_default};
    kvmill_plan_options options = {.struct_size = sizeof options, .packs = packs, .pack_count = 1};
    kvmill_tensor_scatter op = {
        .struct_size = sizeof op,
        .axis = -2,
        .mode = "linear",
        .past_cache = cache,
        .update = update,
        .write_indices = write_indices,
    };
    kvmill_plan *plan;
    kvmill_error error;
    char text[1024];
    check(kvmill_plan_tensor_scatter(&op, &options, &plan, &error), &error);
    kvmill_plan_describe(plan, text, sizeof text);
    printf("%s\n", text);
    return plan;
}

int main(void) {
    const DLDataType float16 = {kDLFloat, 16, 1}, int64 = {kDLInt, 64, 1};
    int64_t cache_shape[] = {BATCH, HEADS, CAPACITY, HEAD_DIM};
    int64_t update_shape[] = {BATCH, HEADS, 1, HEAD_DIM};
    int64_t batch_shape[] = {BATCH};

    uint16_t *keys = calloc(BATCH * HEADS * CAPACITY, HEAD_DIM * sizeof *keys);
    uint16_t new_keys[BATCH * HEADS * HEAD_DIM];
    int64_t lengths[BATCH] = {5, 17, 0, 300}; /* tokens each sequence has so far */

    DLTensor cache = tensor(keys, 4, cache_shape, float16);
    DLTensor update = tensor(new_keys, 4, update_shape, float16);
    DLTensor write_indices = tensor(lengths, 1, batch_shape, int64);

    kvmill_plan *plan = plan_of(&cache, &update, &write_indices);
    kvmill_error error;

    /* Run: in place, because past_cache and present_cache are the same tensor. */
    const DLTensor *tensors[] = {&cache, &update, &write_indices, &cache};
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < BATCH * HEADS * HEAD_DIM; i++)
            new_keys[i] = (uint16_t)(step + 1); /* a model would put the new keys here */
        check(kvmill_run(plan, tensors, KVMILL_TENSOR_SCATTER_TENSORS, NULL, &error), &error);
        for (int b = 0; b < BATCH; b++)
            lengths[b]++;
    }

    /* The last key of the last head of sequence 3 is in slot 399. */
    size_t last = ((3 * HEADS + HEADS - 1) * (size_t)CAPACITY + 399) * HEAD_DIM;
    printf("sequence 3 holds %lld tokens, the last one is %d\n", (long long)lengths[3], keys[last]);

    /* An error leaves the cache unchanged. */
    lengths[2] = CAPACITY;
    kvmill_status status = kvmill_run(plan, tensors, KVMILL_TENSOR_SCATTER_TENSORS, NULL, &error);
    printf("%s: %s\n", kvmill_status_name(status), error.message);

    kvmill_plan_destroy(plan);
    free(keys);
    return keys == NULL || status != KVMILL_E_INDEX_RANGE;
}
