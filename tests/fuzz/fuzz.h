/* What the fuzzers run: targets, one for each kind of input that nobody has to trust.

   A target takes any bytes. It ends the process where something is wrong that no sanitizer would
   see: a refusal without a reason, what was read and written again and is another.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_FUZZ_H
#define KVMILL_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>

#include "../../base/error.h"

struct fuzz_target {
    const char *name; /* its seeds are in tests/fuzz/seeds/NAME */
    void (*run)(const unsigned char *data, size_t size);
    const char *more; /* files of the tree that are seeds as well, a pattern; or NULL */
    size_t most;      /* bytes worth trying */
};

/* Up to one without a name. */
extern const struct fuzz_target fuzz_targets[];

void fuzz_config(const unsigned char *data, size_t size);
void fuzz_gguf(const unsigned char *data, size_t size);
void fuzz_spec(const unsigned char *data, size_t size);
void fuzz_flow(const unsigned char *data, size_t size);
void fuzz_mlir(const unsigned char *data, size_t size);
void fuzz_evaluation(const unsigned char *data, size_t size);
void fuzz_onnx(const unsigned char *data, size_t size);
void fuzz_npy(const unsigned char *data, size_t size);
void fuzz_tune(const unsigned char *data, size_t size);
void fuzz_database(const unsigned char *data, size_t size);
void fuzz_command(const unsigned char *data, size_t size);
void fuzz_calls(const unsigned char *data, size_t size);
void fuzz_windows(const unsigned char *data, size_t size);

/* NULL where there is none of that name. */
const struct fuzz_target *fuzz_target_of(const char *name);

/* ---- For the targets ---- */

/* The name of a file in memory that holds these bytes until it is asked for again; `which` of two.
 */
const char *fuzz_file(int which, const void *data, size_t size);

/* A directory of the process, below $TMPDIR. Removed when it exits. */
const char *fuzz_directory(void);

/* A file of the tree: "configs/models/llama-3.1-8b.json". The text is the caller's to free. */
char *fuzz_tree_file(const char *name);

/* A number that any byte of the input changes. */
unsigned fuzz_number(const unsigned char *data, size_t size);

/* Say what, and abort. */
__attribute__((format(printf, 2, 3))) void fuzz_require(bool holds, const char *format, ...);

/* Whether it was done; if not, the error must be the user's, with words. */
bool fuzz_accepts(bool done, const struct error *error);

#endif
