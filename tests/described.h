/* Calls made from the descriptions of ops: attributes, words of shapes, tensors.  Rows of the op's
   case add what a description cannot express.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_DESCRIBED_H
#define KVMILL_TESTS_DESCRIBED_H

#include "../defs/op.h"
#include "fence.h"
#include "settings.h"

enum { MOST_TENSORS = 32, MOST_TYPES = 3 };

/* What an op's description does not say about a tensor.  NULL and false: nothing to add. */
struct described_tensor {
    const char *name;
    const char *shape;        /* in words */
    const char *first, *step; /* integers: their values, in words; NULL: 0 */
    bool given;               /* optional, but the call needs it */
    bool loose;               /* the first dim may have any size that is large enough */
};

struct scene;

struct described_case {
    const char *name;       /* of the op */
    const char *attributes; /* the op with the ranges; NULL: its own */
    int count;              /* of tensors in a plan's list */
    bool aligned;           /* tensors are aligned to their elements */
    bool no_kernels;        /* the flow has no fields, so nothing is summarised */
    const char *call_words; /* dims that no attribute determines */
    const struct described_tensor *tensors;
    const char *settings;              /* legal attributes and types, with alternatives */
    void (*bind)(struct scene *scene); /* sets words that follow from the settings */
    kvmill_status (*plan)(const struct scene *scene, const kvmill_plan_options *options,
                          kvmill_plan **plan, kvmill_error *error);
};

struct scene {
    const struct described_case *by;
    const struct op *op, *attributes;
    struct dice *dice;
    bool may_be_empty; /* the dims of a call may be 0 */
    union {
        kvmill_cache_attention cache;
        kvmill_cache_attend attend;
        kvmill_write_rows write;
        kvmill_attention onnx;
        kvmill_tensor_scatter scatter;
    } base;
    kvmill_tensor_scatter_attention
        step;                  /* TensorScatterAttention: members that are not in `base` */
    kvmill_flow_limits limits; /* of steps of flows, as topk_val */
    int64_t topk_val, dense_below;
    DLDataType types[MOST_TYPES];
    struct op_dim words[OP_MOST_WORDS];
    struct fenced_tensor memory[MOST_TENSORS];
    const DLTensor *tensors[MOST_TENSORS];
};

/* The list ends with a case without a name. */
extern const struct described_case described_cases[];

/* Return the case of an op, or NULL, and the op of a case. */
const struct described_case *described_case_of(const struct op *op);
const struct op *described_op(const struct described_case *by);

/* Returns the case's row for a tensor, or an empty row. */
const struct described_tensor *described_tensor(const struct scene *scene,
                                                const struct op_tensor *tensor);

/* ---- Scenes ---- */

/* Starts a scene with legal attributes of the op, which may be changed before the scene is
   opened. */
void scene_start(struct scene *scene, const struct op *op, const struct described_case *by,
                 struct dice *dice);

/* Sets an attribute or a type; returns false if no member has this name. */
bool scene_apply(void *scene, const struct setting *setting);

/* Gives up to three attributes other values that their ranges and words allow. */
void scene_draw_members(struct scene *scene);

/* Makes the tensors of a call: the required ones, and on average one in `times` of the optional
   ones; 0: only the required ones. */
void described_open(struct scene *scene, int64_t optional_once_in);
void described_close(struct scene *scene);

/* Gives attributes that are tensors the call's tensors, for planning. */
void scene_set_prototypes(struct scene *scene);
/* Runs with a separate workspace. */
kvmill_status scene_run(const struct scene *scene, const kvmill_plan *plan, kvmill_error *error);

/* Return a hash of all bytes of all tensors, and whether no byte outside them was written. */
uint64_t scene_hash(const struct scene *scene);
bool scene_is_intact(const struct scene *scene);

const struct op_struct *scene_attributes(const struct scene *scene);

/* Sets a dim unless it is set: a test may set it before the scene is opened. */
int64_t scene_bind(struct scene *scene, const char *word, int64_t value);

/* Sets an integer or a flag. */
void scene_set_integer(const struct op_member *member, void *base, int64_t value);

/* Whether a range of the scene's op applies, and the largest value that it allows. */
bool scene_range_holds(const struct scene *scene, const struct op_range *range);
int64_t scene_range_most(const struct scene *scene, const struct op_range *range);

DLDataType scene_type(const struct scene *scene, const struct op_tensor *tensor);

/* Returns the text of a dim's word, or NULL if nothing sets it. */
const char *scene_shape(const struct scene *scene, const struct op_tensor *tensor);

#endif
