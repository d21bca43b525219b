/* The description of an op: its attributes and its tensors, as data.  From it follow the readers
   and writers of specs, the header of a pack, the checks of ranges and tensors, `kvmill run`, and
   the tables of the manual and of the Python binding. Each layer attaches its own data to the op's
   family.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_DEFS_OP_H
#define KVMILL_DEFS_OP_H

#include <stdbool.h>
#include <stddef.h>

#include <kvmill.h>

/* Ops that share a struct of attributes, and the code of each layer. */
enum op_family {
    OP_PLAIN, /* one struct, and tensors whose shapes are words: description and plan are enough */
    OP_TENSOR_SCATTER,
    OP_CACHE_ATTENTION,
    OP_CACHE_ATTEND,
    OP_WRITE_ROWS,
    OP_ATTENTION,
    OP_GATHER,
    OP_SCATTER,
    OP_FLOW,
    OP_FAMILIES
};

enum op_source { OP_OURS, OP_PMX, OP_ONNX, OP_STABLEHLO, OP_VFLOW };

/* What a member of a struct is in C, and how a spec gives it. */
enum op_kind {
    OP_SIZE,    /* size_t: of the struct, or of a list; not in specs */
    OP_COUNT,   /* int64_t */
    OP_INTEGER, /* int64_t, of any value */
    OP_AXIS,    /* int64_t that fits into 32 bits */
    OP_FLAG,    /* int32_t: true, false, 1 or 0 */
    OP_REAL,    /* double */
    OP_TYPE,    /* DLDataType: an element type by its name */
    OP_WORD,    /* const char *: one of `words`, NULL: the default */
    OP_DIMS,    /* kvmill_dims: a list of integers */
    OP_TENSOR,  /* const DLTensor *; a spec says its shape, see struct op_tensor */
    OP_POINTER, /* a pointer to data that the op's own files read */
    OP_STRUCT,  /* a nested struct that the op's own files read */
    OP_OWN      /* only in specs, read by the op's own files */
};

/* Names of members that must not be 0, or, after "!", that must be 0; NULL: there is no condition.
 */
enum { OP_CONDITIONS = 2 };
struct op_condition {
    const char *names[OP_CONDITIONS];
};

/* Sets of ops of one family: bit i stands for op number i. */
typedef unsigned op_set;

struct op_member {
    const char *name;
    enum op_kind kind;
    size_t offset; /* in its struct */
    op_set ops;    /* ops whose specs may have it */
    op_set needed; /* ops whose specs must have it */
    enum op_source source;
    op_set ours;              /* those of these ops whose source has no such attribute */
    int since;                /* the source's version that added it; 0: the first */
    bool always;              /* written even if it has its default */
    int64_t initial;          /* the default of an integer; others are 0 or NULL */
    const char *with;         /* the flag that it belongs to, which giving it sets; or NULL */
    const char *was;          /* the name of an integer in specs of version 0.1; or NULL */
    int64_t was_more;         /* by how much the number was larger there */
    const char *const *words; /* accepted words, up to NULL */
    bool of_rows;             /* accepted types are those in kvmill_row_types */
    bool factor;              /* accepted numbers are 0 and more, finite as float32 */
    const char *help;
};

/* The range of an integer.  A member may have several, for different ops or conditions. */
struct op_range {
    const char *name;
    size_t offset;
    op_set ops;
    int64_t least, most;
    const char *below;        /* the largest value is this member's - 1; or NULL */
    struct op_condition when; /* otherwise the range does not apply */
};

/* Members of a struct of the public header, in the order of a spec. */
struct op_struct {
    const char *name; /* NULL: element types, which a spec states and tensors have */
    size_t size;
    const struct op_member *members;
    int member_count;
    const struct op_range *ranges;
    int range_count;
};

/* A tensor in a plan's list.  A tensor that is both input and output is updated in place. */
struct op_tensor {
    const char *name;
    int index; /* in the list */
    op_set in, out;
    op_set needed;            /* those of the ops that take it for which it is required */
    op_set optional;          /* those of the ops that give it whose runs may leave it out */
    struct op_condition when; /* otherwise the op does not have it */
    struct op_condition used; /* otherwise it may be given, and is ignored */
    bool hint;                /* required, and `kvmill run` computes it from others */
    bool empty_is_absent;
    bool padded; /* its last dim may be longer */
    bool ours;   /* kvmill's own; the op's source does not have it */
    bool rows;   /* kernels walk its last dim, which has stride 1 */
    /* A member of kind OP_TYPE, or the name of a type. */
    const char *type;
    const char *or_type;   /* another type that is accepted; or NULL */
    const char *wide_type; /* the type instead, if `wide_when` holds; or NULL */
    struct op_condition wide_when;
    /* Dims as words, "B S H D"; alternatives are separated by " | "; NULL: words cannot express it.
     */
    const char *shape, *dynamic_shape; /* the second with dynamic batching, if it differs */
    const char *help;
};

/* Far beyond any model, and so small that no product of a few such numbers overflows. */
enum { OP_MOST_HEADS = 1 << 20, OP_MOST_DIM = 1 << 16 };

enum { OP_PARTS = 3 };

struct op {
    const char *name; /* in specs */
    enum op_family family;
    int number; /* within the family */
    bool dynamic;
    enum op_source source;
    bool named; /* whether a spec may name its function or handler */
    /* The structs that its specs fill; a spec stores each of them: spec_part. */
    const struct op_struct *parts[OP_PARTS];
    const struct op_tensor *tensors;
    int tensor_count;
    const char *dims; /* the meaning of the words in shapes; or NULL */
    const char *help;
};

/* ---- The registry ---- */

/* All ops, up to NULL. */
extern const struct op *const kvmill_ops[];

/* NULL if there is none with this name. */
const struct op *kvmill_op_by_name(const char *name);

/* Op `number` of a family. */
const struct op *kvmill_op_of(enum op_family family, int number);

static inline op_set kvmill_op_bit(const struct op *op) {
    return 1u << op->number;
}

/* What plans of flows do with a flow: ops on its tensors, whose attributes are those of its
   attention.  The first is what `kvmill run` does unless told otherwise. */
enum op_flow_step {
    OP_FLOW_DECODE,
    OP_FLOW_APPEND,
    OP_FLOW_INDEX,
    OP_FLOW_ATTEND,
    OP_FLOW_SUMMARISE,
    OP_FLOW_STEPS
};
extern const struct op kvmill_flow_steps[OP_FLOW_STEPS];

/* ---- Attributes ---- */

/* Zero, except struct_size and defaults. */
void kvmill_op_init(const struct op_struct *part, void *base);

/* NULL if there is none with this name. */
const struct op_member *kvmill_op_member(const struct op_struct *part, const char *name);

static inline void *kvmill_member_at(const struct op_member *member, void *base) {
    return (char *)base + member->offset;
}

static inline const void *kvmill_member_of(const struct op_member *member, const void *base) {
    return (const char *)base + member->offset;
}

size_t kvmill_member_size(const struct op_member *member);

/* The value of an integer or a flag. */
int64_t kvmill_member_value(const struct op_member *member, const void *base);

/* Whether a member is as kvmill_op_init leaves it. */
bool kvmill_member_is_default(const struct op_member *member, const void *base);
bool kvmill_member_is_zero(const struct op_member *member, const void *base);

/* Whether a condition holds. */
bool kvmill_op_holds(const struct op_struct *part, const void *base,
                     const struct op_condition *condition);

/* What the description of a struct does not allow: a value out of its range; a member that is not
   its default before the source's version that added it; a word; a factor. */
enum op_breach_kind { OP_ALLOWED, OP_OUT_OF_RANGE, OP_TOO_EARLY, OP_NOT_A_WORD, OP_NOT_A_FACTOR };
struct op_breach {
    enum op_breach_kind kind;
    const char *name;
    int64_t value, least, most;
    const struct op_member *member; /* NULL: a range */
};

/* The first breach among the ranges and members that the op has. */
struct op_breach kvmill_op_breach(const struct op *op, const struct op_struct *part,
                                  const void *base);

/* ---- Tensors ---- */

/* How a tensor occurs in a plan. */
enum op_presence { OP_ABSENT, OP_REQUIRED, OP_OPTIONAL, OP_IGNORED };

/* `base` is the op's first struct, that of attributes. */
enum op_presence kvmill_op_presence(const struct op *op, const void *base,
                                    const struct op_tensor *tensor);

/* Whether the op writes it. */
bool kvmill_op_gives(const struct op *op, const void *base, const struct op_tensor *tensor);

/* The struct whose members are the element types of tensors: the first struct, or one that only
 * specs have. */
const struct op_struct *kvmill_op_types(const struct op *op);

/* A tensor's element type, and `or_type`; bits 0 if there is none, or it is not given.  `types` is
   the struct with the types: `base`, if they are attributes. */
DLDataType kvmill_op_type(const struct op *op, const void *base, const void *types,
                          const struct op_tensor *tensor);
DLDataType kvmill_op_other_type(const struct op *op, const void *types,
                                const struct op_tensor *tensor);

/* The tensor with this index; NULL if the op's family has none. */
const struct op_tensor *kvmill_op_tensor(const struct op *op, int index);

/* ---- The op in its source, without kvmill's additions ---- */

/* Input or output number i; NULL: there are no more.  A tensor that is updated in place is only an
 * input. */
const struct op_tensor *kvmill_op_source_tensor(const struct op *op, bool out, int i);

/* Whether nodes must have this input, whatever their attributes are. */
bool kvmill_op_source_needs(const struct op *op, const struct op_tensor *tensor);

/* Whether a member of the op's first struct is an attribute of nodes; types follow from tensors. */
bool kvmill_op_source_has(const struct op *op, const struct op_member *member);

/* ---- Shapes ---- */

/* The value of a word of capital letters in a shape; lists of these end with NULL. */
struct op_dim {
    const char *word; /* it ends where the letters do */
    int64_t value;
};

enum { OP_MOST_RANK = 8, OP_MOST_WORDS = 24 };

/* The dims of alternative `which` of a shape, from the words' values (a list that ends with word
   NULL).  A dim may be a sum of products, "B*R+1"; it is KVMILL_DYNAMIC if one of its words is.
   Returns the rank, or -1 if there is no such alternative, or a word has no value. */
int kvmill_op_shape(const char *shape, int which, const struct op_dim *words,
                    int64_t dims[OP_MOST_RANK]);

/* Add what a tensor's dims say about the words of a shape's first alternative to a list with room
   for OP_MOST_WORDS; false if rank or dims contradict the words.  A KVMILL_DYNAMIC dim says
   nothing.  Without a tensor, all words that have no value become KVMILL_DYNAMIC. */
bool kvmill_op_learn(const char *shape, const DLTensor *tensor, struct op_dim *words);

/* The shape of a tensor of this op as text; or NULL. */
const char *kvmill_op_shape_words(const struct op *op, const struct op_tensor *tensor);

#endif
