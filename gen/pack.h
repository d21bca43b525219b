/* Packs: sets of kernels as files that can be compiled without kvmill's sources.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_PACK_H
#define KVMILL_GEN_PACK_H

#include <kvmill_kernel.h>

#include "../base/output.h"
#include "../spec/spec.h"
#include "kernel.h"

enum { PROBLEM_SIZE = 64 };

/* A kernel of the pack that was the fastest for a problem of this size.  Kernels with the same
   number compute the same, and are adjacent in a list. */
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
    bool handlers; /* handlers for XLA's FFI, for specs that can have one */
};

/* The C text of one kernel. */
bool kernel_source(const struct kernel *kernel, struct text *text, struct error *error);

/* The tunables of the kernel's family and variant, one per line: "tunable NAME PRESET VALUES WHAT",
   with VALUES separated by commas; then the legal points, "point NAME=VALUE ...", with all names in
   this order. */
bool kernel_space(const struct kernel *kernel, struct text *text, struct error *error);

/* Everything that `make` needs: the kernels in order, then registry, header, Makefile, .pc, and the
 * specs. */
bool pack_files(const struct pack *pack, struct output *output, struct error *error);

/* Whether a pack can be written to a directory without overwriting other files: it is new, empty,
   or contains a pack. */
bool pack_target_check(const char *directory, struct error *error);

/* Write the files to a directory, which is created if necessary, and remove kernels of an earlier
   pack that this one does not have.  If that fails, a directory that was created is removed again.
 */
bool pack_write(const struct output *output, const char *directory, int *written,
                struct error *error);

/* Predicted bytes of code and constants of a kernel's text. */
int64_t source_code_bytes(const struct text *source);

/* The same for the kernels among the pack's files, for one instruction set or, with NULL, for all.
 */
int64_t pack_code_bytes(const struct pack *pack, const struct output *files, const struct isa *isa);

/* Whether a pack may have this name. */
bool pack_name_check(const char *name, struct error *error);

#endif
