/* MLIR bytecode as text.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_STABLEHLO_MLIR_BYTECODE_H
#define KVMILL_IMPORT_STABLEHLO_MLIR_BYTECODE_H

#include "../../base/error.h"
#include "../../base/text.h"

/* What is run. */
const char *python_program(void);

bool is_mlir_bytecode(const struct text *text);

/* Replace the bytecode of file `name` by its text, which the Python that KVMILL_PYTHON names, or
   python3, writes with the package jax.  EXIT_ENVIRONMENT where there is none; EXIT_USER where it
   refuses the bytes. */
bool mlir_text_of_bytecode(const char *name, struct text *text, struct error *error);

#endif
