/* SPDX-License-Identifier: Apache-2.0 */
#include "build_time.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/timer.h"
#include "../gen/pack.h"
#include "make.h"
#include "scratch.h"

static bool is_kernel(const struct output_file *file) {
    return strstr(file->name, "__") != NULL && name_has_ending(file->name, ".c");
}

/* The kernels to compile. */
struct kernels {
    const struct output_file *largest;
    size_t count, bytes;
};

static struct kernels find_kernels(const struct output *files) {
    struct kernels kernels = {0};
    for (size_t i = 0; i < files->count; i++) {
        const struct output_file *file = &files->files[i];
        if (!is_kernel(file))
            continue;
        kernels.count++;
        kernels.bytes += file->text.length;
        if (kernels.largest == NULL || file->text.length > kernels.largest->text.length)
            kernels.largest = file;
    }
    return kernels;
}

static bool compile(const char *directory, const struct output_file *kernel, double seconds,
                    struct error *error) {
    struct text object = {0}, log = {0};
    bool done = (text_print(&object, "%.*s.o", (int)strlen(kernel->name) - 2, kernel->name) &&
                 text_print(&log, "%s/make.log", directory)) ||
                out_of_memory(error);
    done = done && make_target(directory, object.data, log.data, seconds, error);
    text_free(&object);
    text_free(&log);
    return done;
}

static bool compile_one(const struct output *files, const struct output_file *kernel,
                        double seconds, struct error *error) {
    const char *below = getenv("TMPDIR");
    struct scratch scratch = {0};
    int written;
    bool done = scratch_open(below != NULL && *below != '\0' ? below : "/tmp", "kvmill-time",
                             &scratch, error) &&
                pack_write(files, scratch.directory, &written, error) &&
                compile(scratch.directory, kernel, seconds, error);
    scratch_close(&scratch);
    return done;
}

bool build_time_check(const struct output *files, double seconds, struct error *error) {
    const struct kernels kernels = find_kernels(files);
    struct error unknown; /* ignored: the build reports it, with its log */
    if (isinf(seconds) || kernels.count == 0)
        return true;
    double begin = timer_now();
    bool compiled = compile_one(files, kernels.largest, seconds, &unknown);
    double one = timer_now() - begin, left = seconds > one ? seconds - one : 0;
    if (!compiled && left > 0)
        return true;
    double all = one * (double)kernels.bytes / (double)kernels.largest->text.length;
    all /= kernels.count > 1 ? MAKE_JOBS : 1;
    return all < left ||
           fail(error, EXIT_USER,
                "--budget: %.3g s are left, and the pack's %zu kernels take %s %.0f s to build, "
                "once; accepted: more than that",
                left, kernels.count, compiled ? "about" : "more than",
                compiled ? ceil(all) : floor(all));
}
