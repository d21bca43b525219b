/* SPDX-License-Identifier: Apache-2.0 */
#include "scatter_scene.h"

#include <inttypes.h>
#include <string.h>

#include "oracle/tensor_scatter.h"
#include "settings.h"
#include "tap.h"

extern const kvmill_pack kvmill_pack_kvmill_default, kvmill_pack_kvmill_test;

static const kvmill_pack *const packs[] = {&kvmill_pack_kvmill_default, &kvmill_pack_kvmill_test};
const kvmill_plan_options scatter_packs = {
    .struct_size = sizeof scatter_packs, .packs = packs, .pack_count = 2};

static const DLDataType float32 = {kDLFloat, 32, 1}, int64 = {kDLInt, 64, 1};

void scene_close(struct scene *scene) {
    for (int i = 0; i < TENSORS; i++)
        tensor_close(&scene->tensor[i]);
}

struct dims {
    int64_t dims[MOST_DIMS], strides[MOST_DIMS];
    int rank;
    bool strided;
};

static void open_tensor(struct scene *scene, int i, DLDataType dtype, const struct dims *dims) {
    tensor_open(&scene->tensor[i], dtype, dims->rank, dims->dims,
                dims->strided ? dims->strides : NULL, scene->dice);
    scene->given[i] = &scene->tensor[i].dl;
}

/* Where the words "past=", "update=", "starts=", "present=" or those of strides go. */
static bool take_dims(struct dims *dims, const struct setting *setting) {
    static const char *const names[] = {"past", "update", "starts", "present"};
    for (int i = 0; i < TENSORS; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(setting->name, names[i], length) != 0)
            continue;
        dims[i].strided |= setting->name[length] == '-';
        int64_t *to = setting->name[length] == '-' ? dims[i].strides : dims[i].dims;
        dims[i].rank = setting_integers(setting->value, to, MOST_DIMS);
        return true;
    }
    return false;
}

void scene_make_in_place(struct scene *scene) {
    scene->given[PRESENT] = scene->given[PAST];
}

void scene_open(struct scene *scene, const char *settings, struct dice *dice) {
    struct dims dims[TENSORS] = {{.rank = 0}};
    DLDataType dtype = float32;
    bool in_place = false, no_data = false;
    *scene = (struct scene){.axis = -2, .dice = dice};
    for (struct setting setting; setting_next(&settings, &setting);)
        if (strcmp(setting.name, "axis") == 0)
            scene->axis = setting_integer(setting.value);
        else if (strcmp(setting.name, "mode") == 0)
            scene->mode = setting.value[0] == 'c' ? "circular" : "linear";
        else if (strcmp(setting.name, "dtype") == 0)
            dtype = setting_type(setting.value);
        else if (strcmp(setting.name, "open") == 0)
            scene->open = true;
        else if (strcmp(setting.name, "in-place") == 0)
            in_place = true;
        else if (strcmp(setting.name, "no-data") == 0)
            no_data = true;
        else if (!take_dims(dims, &setting))
            bail_out("a scene has no %s", setting.name);
    if (dims[PRESENT].strided || dims[PRESENT].rank == 0) {
        memcpy(dims[PRESENT].dims, dims[PAST].dims, sizeof dims[PAST].dims);
        dims[PRESENT].rank = dims[PAST].rank;
    }
    for (int i = 0; i < TENSORS; i++)
        if (i != INDICES)
            open_tensor(scene, i, dtype, &dims[i]);
    if (dims[INDICES].rank > 0 || dims[INDICES].strided) {
        struct dims count = {.dims = {dims[INDICES].rank}, .rank = 1};
        open_tensor(scene, INDICES, int64, &count);
        memcpy(scene->tensor[INDICES].fence.data, dims[INDICES].dims, 8 * (size_t)count.dims[0]);
    }
    for (int i = 0; i < TENSORS; i++)
        if (no_data && scene->tensor[i].fence.size == 0)
            scene->tensor[i].dl.data = NULL;
    if (in_place)
        scene_make_in_place(scene);
}

void *scene_bytes(const struct scene *scene, int i) {
    return scene->tensor[i].fence.data;
}

/* ---- Planning ---- */

kvmill_status scene_plan_as_given(const struct scene *scene, const kvmill_plan_options *options,
                                  kvmill_plan **plan, kvmill_error *error) {
    kvmill_tensor_scatter op = {.struct_size = sizeof op,
                                .axis = scene->axis,
                                .mode = scene->mode,
                                .past_cache = scene->given[PAST],
                                .update = scene->given[UPDATE],
                                .write_indices = scene->given[INDICES],
                                .present_cache = scene->given[PRESENT]};
    return kvmill_plan_tensor_scatter(&op, options, plan, error);
}

/* A plan that leaves all that can go wrong to the run. */
static kvmill_status plan_open(const struct scene *scene, const kvmill_plan_options *options,
                               kvmill_plan **plan, kvmill_error *error) {
    int64_t open[MOST_DIMS];
    for (int d = 0; d < MOST_DIMS; d++)
        open[d] = KVMILL_DYNAMIC;
    const DLTensor *past = &scene->tensor[PAST].dl;
    DLTensor cache = {.ndim = past->ndim, .dtype = past->dtype, .shape = open};
    DLTensor indices = {.ndim = 1, .dtype = int64, .shape = open};
    struct scene prototypes = *scene;
    prototypes.given[PAST] = prototypes.given[UPDATE] = &cache;
    prototypes.given[PRESENT] = NULL;
    prototypes.given[INDICES] = scene->given[INDICES] ? &indices : NULL;
    return scene_plan_as_given(&prototypes, options, plan, error);
}

kvmill_status scene_plan(const struct scene *scene, const kvmill_plan_options *options,
                         kvmill_plan **plan, kvmill_error *error) {
    return (scene->open ? plan_open : scene_plan_as_given)(scene, options, plan, error);
}

/* ---- Judging ---- */

static const struct fenced_tensor *output_of(const struct scene *scene) {
    return &scene->tensor[scene->given[PRESENT] == scene->given[PAST] ? PAST : PRESENT];
}

void scene_expect(const struct scene *scene, struct fenced_tensor *expected) {
    const struct fenced_tensor *output = output_of(scene);
    int axis = (int)(scene->axis < 0 ? scene->axis + output->dl.ndim : scene->axis);
    tensor_open_copy(expected, output, scene->dice);
    oracle_tensor_scatter(axis, scene->mode != NULL && strcmp(scene->mode, "circular") == 0,
                          output == &scene->tensor[PAST] ? &expected->dl : scene->given[PAST],
                          scene->given[UPDATE], scene->given[INDICES], &expected->dl);
}

/* The output is as expected, all else as before. */
static bool is_right(const struct scene *scene, const struct fenced_tensor *before,
                     const struct fenced_tensor *expected) {
    static const char *const names[] = {"past_cache", "update", "write_indices", "present_cache"};
    int64_t where;
    for (int i = 0; i < TENSORS; i++) {
        const struct fenced_tensor *have = &scene->tensor[i];
        if (have->fence.pages == NULL)
            continue;
        if (!fence_is_intact(&have->fence, &where)) {
            diag("byte %" PRId64 " is outside of %s, but was written", where, names[i]);
            return false;
        }
        if (!tensor_is_equal(have, have == output_of(scene) ? expected : &before[i], &where)) {
            diag("byte %" PRId64 " of %s is not as it must be", where, names[i]);
            return false;
        }
    }
    return true;
}

/* ---- Running it in every way there is ---- */

static void backwards(void *data, int64_t parts, void (*part)(void *context, int64_t index),
                      void *context) {
    (void)data;
    while (parts-- > 0)
        part(context, parts);
}

static kvmill_status begin_and_finish(const kvmill_plan *plan, const DLTensor *const *tensors,
                                      kvmill_error *error) {
    kvmill_call call;
    kvmill_status status = kvmill_begin(&call, plan, tensors, NULL, error);
    if (status != KVMILL_OK)
        return status;
    do
        for (int64_t part = 0; part < kvmill_parts(&call); part++)
            kvmill_part(&call, part);
    while (kvmill_next(&call));
    return status;
}

kvmill_status scene_run_way(int way, const kvmill_plan *plan, const DLTensor *const *tensors,
                            kvmill_error *error) {
    if (way == 0)
        return kvmill_run(plan, tensors, NULL, error);
    if (way == 1)
        return begin_and_finish(plan, tensors, error);
    return kvmill_run_parallel(plan, tensors, NULL, backwards, NULL, error);
}

bool scene_run_ways(struct scene *scene, const kvmill_plan *plan,
                    const struct fenced_tensor *expected) {
    struct fenced_tensor before[TENSORS] = {{.shape = {0}}};
    kvmill_error error;
    bool good = true;
    for (int i = 0; i < TENSORS; i++)
        if (scene->tensor[i].fence.pages != NULL)
            tensor_open_copy(&before[i], &scene->tensor[i], scene->dice);
    for (int way = 0; good && way < WAYS; way++) {
        kvmill_status status = scene_run_way(way, plan, scene->given, &error);
        good = status == KVMILL_OK && error.message[0] == '\0' &&
               is_right(scene, before, expected) &&
               scene_run_way(way, plan, scene->given, NULL) == KVMILL_OK;
        if (!good)
            diag("%s: %s", kvmill_status_name(status), error.message);
        for (int i = 0; i < TENSORS; i++)
            if (before[i].fence.size > 0)
                memcpy(scene->tensor[i].fence.data, before[i].fence.data, before[i].fence.size);
    }
    for (int i = 0; i < TENSORS; i++)
        tensor_close(&before[i]);
    return good;
}

/* With and without packs; closes the scene and what is expected of it. */
static void run_expecting(struct scene *scene, struct fenced_tensor *expected, const char *name) {
    bool good = true;
    fence_explain_traps(name);
    for (int use_packs = 0; good && use_packs < 2; use_packs++) {
        kvmill_plan *plan;
        kvmill_error error = {""};
        good = scene_plan(scene, use_packs ? &scatter_packs : NULL, &plan, &error) == KVMILL_OK &&
               scene_run_ways(scene, plan, expected);
        if (!good)
            diag("%s packs: %s", use_packs ? "with" : "without", error.message);
        kvmill_plan_destroy(plan);
    }
    tensor_close(expected);
    scene_close(scene);
    ok(good, "%s", name);
}

void scene_runs(struct scene *scene, const char *name) {
    struct fenced_tensor expected;
    scene_expect(scene, &expected);
    run_expecting(scene, &expected, name);
}

void scene_gives(struct scene *scene, const void *bytes, const char *name) {
    struct fenced_tensor expected;
    tensor_open_copy(&expected, output_of(scene), scene->dice);
    memcpy(expected.fence.data, bytes, expected.fence.size);
    run_expecting(scene, &expected, name);
}
