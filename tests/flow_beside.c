/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_step.h"

static int64_t matrix_bytes(const DLTensor *tensor) {
    return tensor->shape[2] * tensor->shape[3] * tensor->dtype.bits / 8;
}

static unsigned char *data_of(const DLTensor *tensor) {
    return (unsigned char *)tensor->data + tensor->byte_offset;
}

/* Copies matrix by matrix to the views, or from them. */
static void move(const struct flow_beside *beside, bool there) {
    for (int i = 0; i < beside->count; i++) {
        const DLTensor *apart = &beside->apart[i], *view = &beside->view[i];
        int64_t bytes = matrix_bytes(apart), element = apart->dtype.bits / 8;
        for (int64_t n = 0; n < apart->shape[0] * apart->shape[1]; n++) {
            int64_t block = n / apart->shape[1], head = n % apart->shape[1];
            unsigned char *dense = data_of(apart) + n * bytes;
            unsigned char *laid =
                data_of(view) + (block * view->strides[0] + head * view->strides[1]) * element;
            memcpy(there ? laid : dense, there ? dense : laid, (size_t)bytes);
        }
    }
}

static void lay(struct flow_beside *beside, bool by_page, int64_t record) {
    int64_t before = 0;
    for (int i = 0; i < beside->count; i++) {
        const DLTensor *apart = &beside->apart[i];
        int64_t element = apart->dtype.bits / 8, all = record / element;
        beside->view[i] = *apart;
        beside->view[i].data = beside->piece.data;
        beside->view[i].byte_offset = (uint64_t)before;
        beside->view[i].strides = beside->strides[i];
        beside->strides[i][0] = by_page ? apart->shape[1] * all : all;
        beside->strides[i][1] = by_page ? all : apart->shape[0] * all;
        beside->strides[i][2] = apart->shape[3];
        beside->strides[i][3] = 1;
        before += matrix_bytes(apart);
    }
}

void flow_beside_open(struct flow_beside *beside, const char *layout, const DLTensor **list,
                      int fields, struct dice *dice) {
    int64_t record = 0;
    *beside = (struct flow_beside){.count = fields};
    if (layout == NULL || strcmp(layout, "apart") == 0)
        beside->count = 0;
    for (int i = 0; i < beside->count; i++) {
        if (list[i] == NULL) {
            beside->count = 0;
            return;
        }
        beside->apart[i] = *list[i];
        memcpy(beside->dims[i], list[i]->shape, sizeof beside->dims[i]);
        beside->apart[i].shape = beside->dims[i];
        record += matrix_bytes(list[i]);
    }
    if (beside->count == 0)
        return;
    int64_t matrices = list[0]->shape[0] * list[0]->shape[1];
    fence_open(&beside->piece, (size_t)(matrices * record), FENCE_FLUSH, FENCE_ABOVE, dice);
    lay(beside, strcmp(layout, "page") == 0, record);
    move(beside, true);
    for (int i = 0; i < beside->count; i++)
        list[i] = &beside->view[i];
}

bool flow_beside_read(const struct flow_beside *beside) {
    move(beside, false);
    return beside->count == 0 || fence_is_intact(&beside->piece, NULL);
}

bool flow_beside_close(struct flow_beside *beside) {
    bool intact = flow_beside_read(beside);
    if (beside->count > 0)
        fence_close(&beside->piece);
    return intact;
}
