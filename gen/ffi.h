/* What a spec's handler for XLA's FFI is made of: templates/pack/ffi.c.m4.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_FFI_H
#define KVMILL_GEN_FFI_H

#include "m4.h"
#include "pack.h"

/* Gathers and scatters. */
bool can_be_handler(const struct spec *spec);

/* All element types of the pack's handlers are XLA's too, and there is a handler at all. */
bool check_handlers(const struct pack *pack, struct error *error);

/* The symbol of spec number `at`, and its file without ".c": PACK_ffi_NAME, or PACK_ffi_NUMBER
   where the spec has no name. */
enum { HANDLER_SIZE = 64 + 48 + 8 };
void handler_name(const struct pack *pack, size_t at, char name[HANDLER_SIZE]);

/* The facts of the spec; false: out of memory. */
bool define_handler(struct expansion *expansion, const struct spec *spec);

#endif
