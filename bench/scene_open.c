/* Opens scenes.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "scene_op.h"

int64_t scene_rotation(int64_t bytes) {
    const char *most = getenv("KVMILL_BENCH_ROTATION");
    int64_t asked = most != NULL ? (int64_t)strtol(most, NULL, 10) << 20 : 0;
    return asked > 0 && asked < bytes ? asked : bytes;
}

bool scene_begin(struct scene *scene, const struct spec *spec, const struct run_size *size,
                 int64_t rotation, bool in_place, struct error *error) {
    *scene = (struct scene){.op = scene_op_of(spec),
                            .spec = spec,
                            .size = *size,
                            .rotation = scene_rotation(rotation),
                            .in_place = in_place};
    if (scene->op == NULL)
        return fail(error, EXIT_USER, "%s: it has no runs that can be timed", spec->where);
    memcpy(scene->use, scene->op->use, sizeof scene->use);
    scene->read = scene->op->read;
    for (int i = 0; i < SCENE_TENSORS; i++)
        scene->share[i] = i;
    return scene->op->open(scene, error);
}

bool scene_open(struct scene *scene, const struct spec *spec, const struct run_size *size,
                int64_t rotation, bool in_place, struct error *error) {
    return scene_begin(scene, spec, size, rotation, in_place, error) &&
           scene_resize(scene, size, error);
}
