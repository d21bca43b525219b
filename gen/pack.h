/* Packs: the files of a set of kernels, which compile without kvmill's sources.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_PACK_H
#define KVMILL_GEN_PACK_H

#include <kvmill_kernel.h>

#include "../base/output.h"
#include "spec.h"

enum { PROBLEM_SIZE = 64 };

/* A kernel of the pack that was measured to be the best for a problem of that size.  Those with one
   number do the same; they are neighbours in a list. */
struct measured_kernel {
    struct kernel kernel;
    char problem[PROBLEM_SIZE]; /* in words: letters, digits and spaces */
    int choice;
    struct kvmill_call_size size;
};

struct measured_list {
    struct measured_kernel *items;
    size_t count;
};

bool measured_list_add(struct measured_list *list, const struct measured_kernel *measured,
                       struct error *error);
void measured_list_free(struct measured_list *list);

struct pack {
    const char *name; /* a C identifier */
    const struct spec_list *specs;
    struct kernel_list kernels;
    struct measured_list measured;
    bool handlers; /* for XLA's FFI, of the specs that can have one */
};

/* The C text of one kernel. */
bool kernel_source(const struct kernel *kernel, struct text *text, struct error *error);

/* What the kernel's family and variant leave open, a line each: "tunable NAME PRESET VALUES WHAT"
   with the values by commas, then the legal points, "point NAME=VALUE ..." with all names in that
   order. */
bool kernel_space(const struct kernel *kernel, struct text *text, struct error *error);

/* Everything `make` needs: the kernels in their order, then registry, header, Makefile, .pc, the
   specs themselves. */
bool pack_files(const struct pack *pack, struct output *output, struct error *error);

/* Whether a pack may be written there without the loss of anything that is not kvmill's: the
   directory is new, empty, or holds a pack. */
bool pack_target_check(const char *directory, struct error *error);

/* Write the files into directory (made when missing) and remove kernels of an earlier pack that
   this one does not have; a directory made in vain is taken away again. */
bool pack_write(const struct output *output, const char *directory, int *written,
                struct error *error);

/* Predicted bytes of code and constants of a kernel's text. */
int64_t source_code_bytes(const struct text *source);

/* The same of the kernels among the pack's files: those of an instruction set or, with NULL, all.
 */
int64_t pack_code_bytes(const struct pack *pack, const struct output *files, const struct isa *isa);

/* Whether a name can be a pack's. */
bool pack_name_check(const char *name, struct error *error);

#endif
