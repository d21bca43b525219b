/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../base/hash.h"

enum { KIB = 1024 };

const struct fuzz_target fuzz_targets[] = {
    {"config", fuzz_config, "configs/models/*.json", 4 * KIB},
    {"gguf", fuzz_gguf, NULL, 2 * KIB},
    {"spec", fuzz_spec, NULL, 2 * KIB},
    {"flow", fuzz_flow, "configs/flows/*.json", 4 * KIB},
    {"mlir", fuzz_mlir, NULL, 4 * KIB},
    {"evaluation", fuzz_evaluation, NULL, 4 * KIB},
    {"onnx", fuzz_onnx, NULL, 2 * KIB},
    {"npy", fuzz_npy, NULL, 512},
    {"tune", fuzz_tune, NULL, 4 * KIB},
    {"database", fuzz_database, NULL, 48 * KIB},
    {"command", fuzz_command, NULL, 512},
    {"calls", fuzz_calls, NULL, 512},
    {"windows", fuzz_windows, NULL, 512},
    {"ggml", fuzz_ggml, NULL, 512},
    {"ggml_layout", fuzz_ggml_layout, NULL, 32},
    {0},
};

const struct fuzz_target *fuzz_target_of(const char *name) {
    const struct fuzz_target *target = fuzz_targets;
    while (target->name != NULL && strcmp(target->name, name) != 0)
        target++;
    return target->name != NULL ? target : NULL;
}

void fuzz_require(bool holds, const char *format, ...) {
    va_list arguments;
    if (holds)
        return;
    va_start(arguments, format);
    fputs("fuzz: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

bool fuzz_accepts(bool done, const struct error *error) {
    fuzz_require(done || (error->exit_code == EXIT_USER && strlen(error->text) > 10),
                 "refused with exit code %d: \"%s\"", error->exit_code, error->text);
    return done;
}

unsigned fuzz_number(const unsigned char *data, size_t size) {
    return (unsigned)(hash_bytes(HASH_START, data, size) >> 32);
}

const char *fuzz_file(int which, const void *data, size_t size) {
    static int files[2] = {-1, -1};
    static char names[2][32];
    if (files[which] < 0)
        files[which] = memfd_create("fuzz", MFD_CLOEXEC);
    snprintf(names[which], sizeof names[which], "/proc/self/fd/%d", files[which]);
    fuzz_require(files[which] >= 0 && ftruncate(files[which], 0) == 0 &&
                     pwrite(files[which], data, size, 0) == (ssize_t)size,
                 "no file in memory");
    return names[which];
}
