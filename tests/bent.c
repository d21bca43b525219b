/* SPDX-License-Identifier: Apache-2.0 */
#include "bent.h"

#include "settings.h"
#include "tap.h"

void bent_from(struct bent *bent, const DLTensor *good) {
    bent->dl = *good;
    for (int d = 0; d <= MOST_DIMS; d++)
        bent->shape[d] = d < good->ndim ? good->shape[d] : 1;
    bent->dl.shape = bent->shape;
}

static void fill(int64_t *list, const char *value) {
    for (int d = 0; d <= MOST_DIMS; d++)
        list[d] = setting_integer(value);
}

/* Whatever has no value. */
static bool bent_so(struct bent *bent, const char *word) {
    if (strcmp(word, "more") == 0)
        bent->dl.ndim++;
    else if (strcmp(word, "empty") == 0)
        bent->dl.ndim = 1, bent->shape[0] = 0;
    else if (strcmp(word, "no-data") == 0)
        bent->dl.data = NULL, bent->dl.byte_offset = 0;
    else if (strcmp(word, "no-shape") == 0)
        bent->dl.shape = NULL;
    else if (strcmp(word, "device") == 0)
        bent->dl.device.device_type = kDLCUDA;
    else
        return false;
    return true;
}

bool bent_by(struct bent *bent, const char *word, const char *value) {
    if (strcmp(word, "type") == 0)
        bent->dl.dtype = setting_type(value);
    else if (strcmp(word, "rank") == 0)
        bent->dl.ndim = (int32_t)setting_integer(value);
    else if (strcmp(word, "offset") == 0)
        bent->dl.byte_offset = (uint64_t)setting_integer(value);
    else if (strcmp(word, "shape") == 0)
        bent->dl.ndim = setting_integers(value, bent->shape, MOST_DIMS);
    else if (strcmp(word, "dims") == 0)
        fill(bent->shape, value);
    else if (word[0] == '.')
        bent->shape[atoi(word + 1)] = setting_integer(value);
    else if (strcmp(word, "strides") == 0) {
        setting_integers(value, bent->strides, MOST_DIMS);
        bent->dl.strides = bent->strides;
    } else if (strcmp(word, "stride") == 0) {
        fill(bent->strides, value);
        bent->dl.strides = bent->strides;
    } else
        return bent_so(bent, word);
    return true;
}
