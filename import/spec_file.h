/* Files that contain specs, or ops that become specs.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_SPEC_FILE_H
#define KVMILL_IMPORT_SPEC_FILE_H

#include "../spec/spec.h"

/* Read a spec file: {"kernels": [...]} or a single spec; or, if the file's name ends with .mlir,
   the gathers and scatters of StableHLO text; or, if it ends with .onnx, the nodes of an ONNX
   model.  Release with spec_list_free, also after a failure. */
bool specs_read(const char *file, struct spec_list *list, struct error *error);

/* ---- StableHLO ---- */

/* Whether the name ends with ".mlir" or ".mlirbc". */
bool is_mlir_name(const char *name);

/* The gathers and scatters of a file. */
bool specs_of_mlir(const char *name, struct spec_list *list, struct error *error);

/* ---- ONNX models ---- */

/* The nodes for which kvmill has an op; equal ops on equal types count once.  The list's notes name
   the nodes that are left alone. */
bool specs_of_onnx(const char *name, struct spec_list *list, struct error *error);

/* The same for the nodes that ONNX Runtime hands over to bindings/onnxruntime. */
bool specs_of_onnx_runtime(const char *name, struct spec_list *list, struct error *error);

#endif
