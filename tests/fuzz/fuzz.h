/* The fuzzers' targets, one for each kind of untrusted input.

   A target takes any bytes.  It aborts on errors that no sanitizer detects: a refusal without a
   reason, or input that differs after it was written and read again.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_FUZZ_H
#define KVMILL_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>

#include "../../base/error.h"

typedef void fuzz_run(const unsigned char *data, size_t size);

struct fuzz_target {
    const char *name; /* its seeds are in tests/fuzz/seeds/NAME */
    fuzz_run *run;
    const char *more; /* a pattern of files of the tree that are seeds, too; or NULL */
    size_t most;      /* bytes worth trying */
};

/* The last target has no name. */
extern const struct fuzz_target fuzz_targets[];

fuzz_run fuzz_config, fuzz_gguf, fuzz_spec, fuzz_flow, fuzz_mlir, fuzz_evaluation, fuzz_onnx,
    fuzz_npy, fuzz_tune, fuzz_database, fuzz_command, fuzz_calls, fuzz_windows, fuzz_ggml,
    fuzz_ggml_layout;

/* Returns the target of that name, or NULL. */
const struct fuzz_target *fuzz_target_of(const char *name);

/* ---- For the targets ---- */

/* Returns the name of a file in memory with these bytes, until the next call with the same `which`,
   0 or 1. */
const char *fuzz_file(int which, const void *data, size_t size);

/* Returns a number that depends on every byte of the input. */
unsigned fuzz_number(const unsigned char *data, size_t size);

/* Prints the message and aborts unless `holds`. */
__attribute__((format(printf, 2, 3))) void fuzz_require(bool holds, const char *format, ...);

/* Returns `done`.  If it is false, the error must be the user's, with a message. */
bool fuzz_accepts(bool done, const struct error *error);

#endif
