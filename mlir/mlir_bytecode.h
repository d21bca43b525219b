/* MLIR bytecode as text.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_MLIR_MLIR_BYTECODE_H
#define KVMILL_MLIR_MLIR_BYTECODE_H

#include "../base/error.h"
#include "../base/text.h"

bool is_mlir_bytecode(const struct text *text);

/* Replaces the bytecode of file `name` by its text, which Python's package jax writes.  Fails with
   EXIT_ENVIRONMENT if Python or jax is missing, with EXIT_USER if jax refuses the bytes. */
bool mlir_text_of_bytecode(const char *name, struct text *text, struct error *error);

#endif
