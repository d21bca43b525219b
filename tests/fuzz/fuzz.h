/* What the fuzzers run: targets, one for each kind of input that nobody has to trust.

   A target takes any bytes. It ends the process where something is wrong that no sanitizer would
   see: a refusal without a reason, what was read and written again and is another.

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
    const char *more; /* files of the tree that are seeds as well, a pattern; or NULL */
    size_t most;      /* bytes worth trying */
};

/* Up to one without a name. */
extern const struct fuzz_target fuzz_targets[];

fuzz_run fuzz_config, fuzz_gguf, fuzz_spec, fuzz_flow, fuzz_mlir, fuzz_evaluation, fuzz_onnx,
    fuzz_npy, fuzz_tune, fuzz_database, fuzz_command, fuzz_calls, fuzz_windows;

/* NULL where there is none of that name. */
const struct fuzz_target *fuzz_target_of(const char *name);

/* ---- For the targets ---- */

/* The name of a file in memory that holds these bytes until it is asked for again; `which` of two.
 */
const char *fuzz_file(int which, const void *data, size_t size);

/* A number that any byte of the input changes. */
unsigned fuzz_number(const unsigned char *data, size_t size);

/* Say what, and abort. */
__attribute__((format(printf, 2, 3))) void fuzz_require(bool holds, const char *format, ...);

/* Whether it was done; if not, the error must be the user's, with words. */
bool fuzz_accepts(bool done, const struct error *error);

#endif
