/* The definitions for a spec's handler for XLA's FFI, which templates/pack/ffi.c.m4 expands.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_FFI_H
#define KVMILL_GEN_FFI_H

#include "m4.h"
#include "pack.h"

/* The hooks for handlers of a family of ops. */
struct handler {
    const char *template;
    bool (*check)(const struct spec *spec, struct error *error);
    bool (*define)(struct expansion *expansion, const struct spec *spec);
};
extern const struct handler gather_handler, scatter_handler;

/* NULL if the spec's family has no handlers. */
const struct handler *handler_of(const struct spec *spec);

/* Whether there is a handler, and all element types of the pack's handlers are XLA's, too. */
bool check_handlers(const struct pack *pack, struct error *error);

/* The symbol of spec number `at`, and its file without ".c": PACK_ffi_NAME, or PACK_ffi_NUMBER if
   the spec has no name. */
enum { HANDLER_SIZE = 64 + 48 + 8 };
void handler_name(const struct pack *pack, size_t at, char name[HANDLER_SIZE]);

#endif
