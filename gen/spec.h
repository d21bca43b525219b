/* Specs: one op with its attributes and shapes, as a user writes it.  The source of everything that
   is generated.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_SPEC_H
#define KVMILL_GEN_SPEC_H

#include <kvmill.h>

#include "config.h"
#include "json.h"
#include "kernel.h"

struct spec;

/* An op that specs can name. */
struct spec_op {
    const char *name;
    bool (*read)(const struct json_place *place, struct spec *spec, struct error *error);
    /* Check everything that is known. */
    bool (*check)(const struct spec *spec, struct error *error);
    bool (*kernels)(const struct spec *spec, const struct isa *isa, struct kernel_list *list,
                    struct error *error);
    json_t *(*write)(const struct spec *spec);
};

/* A TensorScatter spec.  A tensor that the spec does not mention has no shape (NULL). */
struct scatter_spec {
    int64_t axis;
    char mode[16];
    DLDataType dtype;
    DLTensor past_cache, update, write_indices;
};

struct spec {
    const struct spec_op *op;
    char where[320];  /* "file: /kernels/0", for messages; a model's pack: the purpose */
    char purpose[64]; /* what the kernels are for, in words; "" when not said */
    struct scatter_spec scatter;
};

struct spec_list {
    struct spec *items;
    size_t count;
};

/* The op of that name, or NULL. */
const struct spec_op *spec_op_by_name(const char *name);

/* Read a spec file: {"kernels": [...]} or a single spec.  Release with spec_list_free, also after a
   failure. */
bool specs_read(const char *file, struct spec_list *list, struct error *error);

/* The specs of a model's pack. */
struct cache_choice {
    const struct kvmill_dtype *dtype; /* NULL: the model's */
    int layout;                       /* 0 token-major, 1 head-major, -1 both */
};
bool specs_of_model(const struct model *model, const struct cache_choice *choice,
                    struct spec_list *list, struct error *error);

/* The kernels of all specs for all instruction sets. */
bool specs_kernels(const struct spec_list *list, const struct isa_list *isas,
                   struct kernel_list *kernels, struct error *error);

/* As a spec file; release with json_decref. */
json_t *specs_write(const struct spec_list *list);

struct spec *spec_list_append(struct spec_list *list, struct error *error);
void spec_list_free(struct spec_list *list);

/* ---- TensorScatter ---- */

extern const struct spec_op tensor_scatter_spec;

/* Make a new spec a TensorScatter of that mode and type, along the default axis, without shapes. */
void scatter_spec_begin(struct spec *spec, const char *mode, DLDataType dtype);

/* Give `tensor` a shape of its own; spec_list_free releases it. */
bool spec_set_shape(DLTensor *tensor, const int64_t *dims, int rank, struct error *error);

/* The op as the library takes it; points into spec. */
kvmill_tensor_scatter scatter_op_of(const struct spec *spec);

#endif
