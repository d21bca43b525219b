/* Names, presence and types of a run's tensors, from the op's description.

   SPDX-License-Identifier: Apache-2.0 */
#include "../defs/dtype.h"
#include "run_op.h"

struct described described_by(const struct spec *spec) {
    struct spec *own = (struct spec *)(uintptr_t)spec;
    const struct op *op = spec->op;
    bool apart = kvmill_op_types(op) != op->parts[0];
    const struct spec_family *family = spec->family;
    return (struct described){op, family->part(own, 0), family->part(own, apart)};
}

static bool has(const struct described *described, const struct op_tensor *tensor) {
    return tensor != NULL &&
           kvmill_op_presence(described->op, described->base, tensor) != OP_ABSENT;
}

static bool takes(const struct described *described, const struct op_tensor *tensor) {
    return has(described, tensor) && (tensor->in & kvmill_op_bit(described->op)) != 0;
}

const char *described_input(const struct described *described, int index) {
    const struct op_tensor *tensor = kvmill_op_tensor(described->op, index);
    return takes(described, tensor) ? tensor->name : NULL;
}

const char *described_output(const struct described *described, int index) {
    const struct op_tensor *tensor = kvmill_op_tensor(described->op, index);
    bool gives = tensor != NULL && kvmill_op_gives(described->op, described->base, tensor);
    return gives ? tensor->name : NULL;
}

bool described_require(const struct described *described, const struct arrays *arrays,
                       struct error *error) {
    for (int i = 0; i < described->op->tensor_count; i++) {
        const struct op_tensor *tensor = &described->op->tensors[i];
        bool needed = takes(described, tensor) && !tensor->hint &&
                      kvmill_op_presence(described->op, described->base, tensor) == OP_REQUIRED;
        if (needed && !array_require(tensor->name, &arrays->tensor[tensor->index], error))
            return false;
    }
    return true;
}

/* Returns the tensor's type.  If the op allows a second type and the array has it, returns that. */
static DLDataType type_of(const struct described *described, const struct op_tensor *tensor,
                          const struct npy *npy) {
    DLDataType other = kvmill_op_other_type(described->op, described->types, tensor);
    bool is_other = other.bits != 0 && kvmill_dtype_equal(npy->tensor.dtype, other);
    return is_other ? other
                    : kvmill_op_type(described->op, described->base, described->types, tensor);
}

static bool adopt(const struct described *described, const struct op_tensor *tensor,
                  struct arrays *arrays, struct error *error) {
    struct npy *npy = &arrays->tensor[tensor->index];
    DLDataType type = type_of(described, tensor, npy);
    if (kvmill_op_presence(described->op, described->base, tensor) == OP_IGNORED)
        return true;
    if (type.code == kDLInt && type.bits >= 32)
        return array_is_integer(tensor->name, type, npy, error);
    if (kvmill_op_gives(described->op, described->base, tensor) &&
        !array_keep(tensor->name, npy, &arrays->file[tensor->index], error))
        return false;
    return array_adopt(tensor->name, type, NULL, npy, error);
}

bool described_adopt(const struct described *described, struct arrays *arrays,
                     struct error *error) {
    for (int i = 0; i < described->op->tensor_count; i++) {
        const struct op_tensor *tensor = &described->op->tensors[i];
        if (is_given(&arrays->tensor[tensor->index]) && !adopt(described, tensor, arrays, error))
            return false;
    }
    return true;
}

bool described_makes(const struct described *described, const struct arrays *arrays, int index) {
    const struct op_tensor *tensor = kvmill_op_tensor(described->op, index);
    bool optional = tensor != NULL && (tensor->optional & kvmill_op_bit(described->op)) != 0;
    return described_output(described, index) != NULL &&
           (!optional || arrays->output[index] != NULL);
}

bool described_make(const struct described *described, int index, const int64_t *dims, int rank,
                    struct arrays *arrays, struct error *error) {
    const struct op_tensor *tensor = kvmill_op_tensor(described->op, index);
    DLDataType type = kvmill_op_type(described->op, described->base, described->types, tensor);
    return npy_make(type, dims, rank, &arrays->tensor[index], error);
}

/* ---- Tensors with shapes that a spec may contain ---- */

/* Checks an array: indices have the type of the description, other tensors that of the spec. */
static bool reconcile(const struct op_tensor *tensor, DLTensor *known, struct npy *npy,
                      struct error *error) {
    const struct kvmill_dtype *fixed = kvmill_dtype_by_name(tensor->type);
    if (known->dtype.bits == 0)
        known->dtype = npy->tensor.dtype;
    if (fixed != NULL && fixed->dl.code == kDLInt &&
        !array_is_integer(tensor->name, fixed->dl, npy, error))
        return false;
    return array_reconcile(tensor->name, known, npy, error);
}

bool run_reconcile(struct spec *spec, struct arrays *arrays, struct error *error) {
    const struct described described = described_by(spec);
    for (int i = 0; i < spec->op->tensor_count; i++) {
        const struct op_tensor *tensor = &spec->op->tensors[i];
        struct npy *npy = &arrays->tensor[tensor->index];
        if (!takes(&described, tensor))
            continue;
        DLTensor *known = spec->family->tensor(spec, tensor->index);
        bool needed = (tensor->needed & kvmill_op_bit(spec->op)) != 0 || known->shape != NULL;
        if ((needed && !array_require(tensor->name, npy, error)) ||
            (is_given(npy) && !reconcile(tensor, known, npy, error)))
            return false;
    }
    return true;
}
