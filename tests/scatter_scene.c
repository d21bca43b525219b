/* SPDX-License-Identifier: Apache-2.0 */
#include "scatter_scene.h"

#include "common.h"
#include "oracle/oracle_windows.h"
#include "packs.h"

void scene_close(struct scene *scene) {
    tensors_close(scene->tensor, SCATTER_TENSORS);
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

/* Reads "past=", "update=", "starts=", "present=" or their strides. */
static bool take_dims(struct dims *dims, const struct setting *setting) {
    static const char *const names[] = {"past", "update", "starts", "present"};
    for (int i = 0; i < SCATTER_TENSORS; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(setting->name, names[i], length) != 0)
            continue;
        bool strides = setting->name[length] == '-';
        dims[i].strided |= strides;
        int count =
            setting_integers(setting->value, strides ? dims[i].strides : dims[i].dims, MOST_DIMS);
        dims[i].rank = strides ? dims[i].rank : count;
        return true;
    }
    return false;
}

static void open_indices(struct scene *scene, const struct dims *dims) {
    const int64_t step = dims->strided ? dims->strides[0] : 1;
    struct dims count = {
        .dims = {dims->rank}, .rank = 1, .strides = {step}, .strided = dims->strided && step != 1};
    open_tensor(scene, INDICES, i64, &count);
    for (int b = 0; b < dims->rank; b++)
        memcpy(tensor_element(&scene->tensor[INDICES], b), &dims->dims[b], 8);
}

/* Reads words without a value, and the other words with one. */
static bool take_word(struct scene *scene, const struct setting *setting) {
    if (strcmp(setting->name, "axis") == 0)
        scene->axis = setting_integer(setting->value);
    else if (strcmp(setting->name, "mode") == 0)
        scene->mode = setting->value[0] == 'c' ? "circular" : "linear";
    else if (strcmp(setting->name, "floored") == 0)
        scene->negative_indices = "floored";
    else if (strcmp(setting->name, "unsaid") == 0)
        scene->unsaid = true;
    else if (strcmp(setting->name, "known-starts") == 0)
        scene->known_starts = true;
    else if (strcmp(setting->name, "open") == 0 && setting->value[0] != '\0')
        scene->open_dims = (unsigned)setting_integer(setting->value);
    else if (strcmp(setting->name, "open") == 0)
        scene->open_dims = ~0u, scene->no_strides = scene->unsaid = true;
    else
        return false;
    return true;
}

void scene_open(struct scene *scene, const char *settings, struct dice *dice) {
    struct dims dims[SCATTER_TENSORS] = {{.rank = 0}};
    DLDataType dtype = f32;
    bool in_place = false, no_data = false;
    *scene = (struct scene){.axis = -2, .dice = dice};
    for (struct setting setting; setting_next(&settings, &setting);)
        if (strcmp(setting.name, "dtype") == 0)
            dtype = setting_type(setting.value);
        else if (strcmp(setting.name, "in-place") == 0)
            in_place = true;
        else if (strcmp(setting.name, "no-data") == 0)
            no_data = true;
        else if (!take_word(scene, &setting) && !take_dims(dims, &setting))
            bail_out("a scene has no %s", setting.name);
    memcpy(dims[PRESENT].dims, dims[PAST].dims, sizeof dims[PAST].dims);
    dims[PRESENT].rank = dims[PAST].rank;
    for (int i = 0; i < SCATTER_TENSORS; i++)
        if (i != INDICES)
            open_tensor(scene, i, dtype, &dims[i]);
    if (dims[INDICES].rank > 0 || dims[INDICES].strided)
        open_indices(scene, &dims[INDICES]);
    for (int i = 0; i < SCATTER_TENSORS; i++)
        if (no_data && scene->tensor[i].fence.size == 0)
            scene->tensor[i].dl.data = NULL;
    if (in_place)
        scene->given[PRESENT] = scene->given[PAST];
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
                                .present_cache = scene->given[PRESENT],
                                .negative_indices = scene->negative_indices};
    return kvmill_plan_tensor_scatter(&op, options, plan, error);
}

/* A tensor without data; some of its dims may be open. */
struct prototype {
    DLTensor dl;
    int64_t shape[MOST_DIMS];
};

kvmill_status scene_plan(const struct scene *scene, const kvmill_plan_options *options,
                         kvmill_plan **plan, kvmill_error *error) {
    struct prototype prototypes[SCATTER_TENSORS];
    struct scene known = *scene;
    for (int i = 0; i < SCATTER_TENSORS; i++) {
        struct prototype *prototype = &prototypes[i];
        if (scene->given[i] == NULL)
            continue;
        prototype->dl = *scene->given[i];
        prototype->dl.data = NULL;
        unsigned open = i == INDICES && scene->known_starts ? 0 : scene->open_dims;
        for (int d = 0; d < prototype->dl.ndim; d++)
            prototype->shape[d] = open >> d & 1 ? KVMILL_DYNAMIC : scene->given[i]->shape[d];
        prototype->dl.shape = prototype->shape;
        if (scene->no_strides)
            prototype->dl.strides = NULL;
        known.given[i] = &prototype->dl;
    }
    if (scene->unsaid)
        known.given[PRESENT] = NULL;
    return scene_plan_as_given(&known, options, plan, error);
}

/* ---- Judging ---- */

static const struct fenced_tensor *output_of(const struct scene *scene) {
    return &scene->tensor[scene->given[PRESENT] == scene->given[PAST] ? PAST : PRESENT];
}

static uint64_t output_bit(const struct scene *scene) {
    return UINT64_C(1) << (output_of(scene) - scene->tensor);
}

void scene_expect(const struct scene *scene, struct fenced_tensor *expected) {
    const struct fenced_tensor *output = output_of(scene);
    int axis = (int)(scene->axis < 0 ? scene->axis + output->dl.ndim : scene->axis);
    tensor_open_copy(expected, output, scene->dice);
    oracle_tensor_scatter(axis, scene->mode != NULL && strcmp(scene->mode, "circular") == 0,
                          output == &scene->tensor[PAST] ? &expected->dl : scene->given[PAST],
                          scene->given[UPDATE], scene->given[INDICES], &expected->dl);
}

/* Whether the output is as expected, and everything else unchanged. */
static bool is_right(const struct scene *scene, const struct fenced_tensor *before,
                     const struct fenced_tensor *expected) {
    int64_t where;
    bool right = tensor_is_equal(output_of(scene), expected, &where);
    if (!right)
        diag("byte %" PRId64 " of the output is not as it must be", where);
    return right &&
           tensors_are_kept(scene->tensor, before, SCATTER_TENSORS, output_bit(scene), "a scatter");
}

/* ---- Running a scene in every possible way ---- */

kvmill_status scene_run_way(const struct scene *scene, int way, const kvmill_plan *plan,
                            kvmill_error *error) {
    int threads = (int)dice_range(scene->dice, 1, 8);
    if (way == 2)
        return run_on_crew(plan, scene->given, NULL, threads, error);
    return run_in_parts(plan, scene->given, NULL, way, scene->dice, error);
}

static bool runs_so(struct scene *scene, int way, const kvmill_plan *plan,
                    const struct fenced_tensor *before, const struct fenced_tensor *expected) {
    kvmill_error error;
    tensors_protect(scene->tensor, SCATTER_TENSORS, output_bit(scene), true);
    kvmill_status status = scene_run_way(scene, way, plan, &error);
    bool good = status == KVMILL_OK && error.message[0] == '\0' &&
                is_right(scene, before, expected) &&
                scene_run_way(scene, way, plan, NULL) == KVMILL_OK;
    tensors_protect(scene->tensor, SCATTER_TENSORS, output_bit(scene), false);
    return good || diag("way %d, %s: %s", way, kvmill_status_name(status), error.message);
}

bool scene_run_ways(struct scene *scene, const kvmill_plan *plan,
                    const struct fenced_tensor *expected, int first, int end) {
    struct fenced_tensor before[SCATTER_TENSORS] = {{.shape = {0}}};
    bool good = true;
    tensors_keep(before, scene->tensor, SCATTER_TENSORS, scene->dice);
    for (int way = first; good && way < end; way++) {
        good = runs_so(scene, way, plan, before, expected);
        tensors_restore(scene->tensor, before, SCATTER_TENSORS);
    }
    tensors_close(before, SCATTER_TENSORS);
    return good;
}

/* Runs with and without packs; closes the scene and its expected output. */
static void run_expecting(struct scene *scene, struct fenced_tensor *expected, const char *name) {
    bool good = true;
    fence_explain_traps(name);
    for (int use_packs = 0; good && use_packs < 2; use_packs++) {
        OWN_PLAN kvmill_plan *plan;
        kvmill_error error = {""};
        good = scene_plan(scene, use_packs ? &two_threads[1] : NULL, &plan, &error) == KVMILL_OK &&
               scene_run_ways(scene, plan, expected, 0, WAYS);
        if (!good)
            diag("%s packs: %s", use_packs ? "with" : "without", error.message);
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
