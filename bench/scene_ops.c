/* The ops that have scenes.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "scene_op.h"

static const struct scene_op *const ops[] = {
    &attention_scene_op, &batching_scene_op,   &given_scene_op,  &read_back_scene_op,
    &attend_scene_op,    &write_rows_scene_op, &onnx_scene_op,   &rows_scene_op,
    &flow_scene_op,      &gather_scene_op,     &scatter_scene_op};

const struct scene_op *scene_op_of(const struct spec *spec) {
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (ops[i]->knows(spec))
            return ops[i];
    return NULL;
}

void scene_op_words(char words[SCENE_WORDS]) {
    int length = 0;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        length += snprintf(words + length, SCENE_WORDS - (size_t)length, "%s%s", i > 0 ? ", " : "",
                           ops[i]->words);
}
