/* What an op is: its attributes and its tensors, as data.  Derived from it are the readers and
   writers of specs, the header of a pack, the checks of ranges and tensors, `kvmill run`, and the
   tables of the manual and of the Python binding.  Each layer attaches its own data to the op's
   family.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_DEFS_OP_H
#define KVMILL_DEFS_OP_H

#include <stdbool.h>
#include <stddef.h>

#include <kvmill.h>

/* Ops that share a struct of attributes, and the code of each layer. */
enum op_family {
    OP_PLAIN, /* of one struct, with tensors whose shapes are words: description and plan are all */
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

/* What a member of a struct is in C, and how a spec says it. */
enum op_kind {
    OP_SIZE,    /* size_t: of the struct, or of a list; no spec says it */
    OP_COUNT,   /* int64_t */
    OP_INTEGER, /* int64_t, of any value */
    OP_AXIS,    /* int64_t that fits into 32 bits */
    OP_FLAG,    /* int32_t: true, false, 1 or 0 */
    OP_REAL,    /* double */
    OP_TYPE,    /* DLDataType: an element type by its name */
    OP_WORD,    /* const char *: one of `words`, NULL: the default */
    OP_DIMS,    /* kvmill_dims: a list of integers */
    OP_TENSOR,  /* const DLTensor *; a spec says its shape, see struct op_tensor */
    OP_POINTER, /* to what the op's own files read */
    OP_STRUCT,  /* a struct of its own, read likewise */
    OP_OWN      /* of the spec alone, read by the op's own files */
};

/* Names of members that must not be 0, or with "!" before them must be; NULL: any may be. */
enum { OP_CONDITIONS = 2 };
struct op_condition {
    const char *names[OP_CONDITIONS];
};

/* Sets of ops of one family: bit i is its op number i. */
typedef unsigned op_set;

struct op_member {
    const char *name;
    enum op_kind kind;
    size_t offset; /* in its struct */
    op_set ops;    /* whose specs may say it */
    op_set needed; /* whose specs must */
    enum op_source source;
    op_set ours;              /* of these, those in which the source has no such attribute */
    int since;                /* version of the source that brought it; 0: the first */
    bool always;              /* written where it is the default, too */
    int64_t initial;          /* the default of an integer; what else is 0 or NULL */
    const char *with;         /* said together with this flag, which saying it sets; or NULL */
    const char *was;          /* what specs of version 0.1 call an integer; or NULL */
    int64_t was_more;         /* and how much more they say */
    const char *const *words; /* that are accepted, up to NULL */
    bool of_rows;             /* of types those are accepted that kvmill_row_types names */
    const char *help;
};

/* What an integer may be.  A member may have several: of ops or of conditions that differ. */
struct op_range {
    const char *name;
    size_t offset;
    op_set ops;
    int64_t least, most;
    const char *below;        /* most is this member's value - 1; or NULL */
    struct op_condition when; /* else it is not looked at */
};

/* Members of a struct of the public header, in the order of a spec. */
struct op_struct {
    const char *name; /* NULL: element types that a spec says and tensors have */
    size_t size;
    const struct op_member *members;
    int member_count;
    const struct op_range *ranges;
    int range_count;
};

/* A tensor of a plan's list.  One that is taken and given is updated in place. */
struct op_tensor {
    const char *name;
    int index; /* in the list */
    op_set in, out;
    op_set needed;            /* of those that take it: those that must */
    op_set optional;          /* of those that give it: those whose runs may leave it out */
    struct op_condition when; /* else there is none */
    struct op_condition used; /* else it may be given, and is left alone */
    bool hint;                /* needed, and `kvmill run` makes it from others */
    bool empty_is_absent;
    bool padded; /* its last dim may be longer */
    bool ours;   /* kvmill's own: the op's source has none */
    bool rows;   /* kernels walk its last dim, which has stride 1 */
    /* A member of kind OP_TYPE, or a type's name. */
    const char *type;
    const char *or_type;   /* accepted as well; or NULL */
    const char *wide_type; /* instead, where `wide_when` holds; or NULL */
    struct op_condition wide_when;
    /* Dims as words, "B S H D"; alternatives by " | "; NULL: attributes say more than words can. */
    const char *shape, *dynamic_shape; /* the second with dynamic batching, where that differs */
    const char *help;
};

/* Far beyond any model, and small enough that no product of a few of them overflows. */
enum { OP_MOST_HEADS = 1 << 20, OP_MOST_DIM = 1 << 16 };

enum { OP_PARTS = 3 };

struct op {
    const char *name; /* in specs */
    enum op_family family;
    int number; /* in the family */
    bool dynamic;
    enum op_source source;
    bool named; /* a spec may name its function or handler */
    /* The structs its specs fill; a spec keeps each of them: spec_part. */
    const struct op_struct *parts[OP_PARTS];
    const struct op_tensor *tensors;
    int tensor_count;
    const char *dims; /* what the words of shapes mean; or NULL */
    const char *help;
};

/* ---- The registry ---- */

/* All there are, up to NULL. */
extern const struct op *const kvmill_ops[];

/* NULL when there is none of that name. */
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

/* NULL when there is none of that name. */
const struct op_member *kvmill_op_member(const struct op_struct *part, const char *name);

static inline void *kvmill_member_at(const struct op_member *member, void *base) {
    return (char *)base + member->offset;
}

static inline const void *kvmill_member_of(const struct op_member *member, const void *base) {
    return (const char *)base + member->offset;
}

size_t kvmill_member_size(const struct op_member *member);

/* An integer or a flag. */
int64_t kvmill_member_value(const struct op_member *member, const void *base);

/* As kvmill_op_init leaves it; all bytes 0. */
bool kvmill_member_is_default(const struct op_member *member, const void *base);
bool kvmill_member_is_zero(const struct op_member *member, const void *base);

/* Whether the members are 0, or not, as the condition says. */
bool kvmill_op_holds(const struct op_struct *part, const void *base,
                     const struct op_condition *condition);

/* ---- Tensors ---- */

/* How a tensor meets a plan. */
enum op_presence { OP_ABSENT, OP_REQUIRED, OP_OPTIONAL, OP_IGNORED };

/* The op's first struct, of attributes, is `base`. */
enum op_presence kvmill_op_presence(const struct op *op, const void *base,
                                    const struct op_tensor *tensor);

/* Whether the op gives it: it is written. */
bool kvmill_op_gives(const struct op *op, const void *base, const struct op_tensor *tensor);

/* The struct that has the element types of tensors as members: the first, or one that specs alone
   have. */
const struct op_struct *kvmill_op_types(const struct op *op);

/* A tensor's element type, and `or_type`; bits 0 where there is none, or it is not told.  `types`
   is the struct with the types: `base` itself where those are attributes. */
DLDataType kvmill_op_type(const struct op *op, const void *base, const void *types,
                          const struct op_tensor *tensor);
DLDataType kvmill_op_other_type(const struct op *op, const void *types,
                                const struct op_tensor *tensor);

/* The tensor with that index, NULL when the op's family has none. */
const struct op_tensor *kvmill_op_tensor(const struct op *op, int index);

/* ---- What the op's source has of it, without what is kvmill's own ---- */

/* Input or output number i; NULL: there are no more.  What is updated in place is an input alone.
 */
const struct op_tensor *kvmill_op_source_tensor(const struct op *op, bool out, int i);

/* Whether nodes must have that input, whatever their attributes are. */
bool kvmill_op_source_needs(const struct op *op, const struct op_tensor *tensor);

/* Whether a member of the op's first struct is an attribute of nodes: types are those of their
   tensors. */
bool kvmill_op_source_has(const struct op *op, const struct op_member *member);

/* ---- Shapes ---- */

/* What a word of capital letters stands for in a shape; lists of them end with NULL. */
struct op_dim {
    const char *word; /* it ends where the letters do */
    int64_t value;
};

enum { OP_MOST_RANK = 8, OP_MOST_WORDS = 24 };

/* Dims of alternative `which` of a shape by the words' values (a list up to word NULL); a dim may
   be a sum of products, "B*R+1", and is KVMILL_DYNAMIC where one of its words is.  The rank, or -1:
   there is no such alternative, or a word has no value. */
int kvmill_op_shape(const char *shape, int which, const struct op_dim *words,
                    int64_t dims[OP_MOST_RANK]);

/* Add what a tensor's dims say of the words of a shape's first alternative to a list with room for
   OP_MOST_WORDS; false: rank or dims are not those of the words.  A dim of KVMILL_DYNAMIC says
   nothing; without a tensor all words become that which have no value yet. */
bool kvmill_op_learn(const char *shape, const DLTensor *tensor, struct op_dim *words);

/* The shape in words of a tensor of this op; or NULL. */
const char *kvmill_op_shape_words(const struct op *op, const struct op_tensor *tensor);

#endif
