/* kvmill run: runs one spec on arrays in files.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../import/onnx/onnx.h"
#include "../import/spec_file.h"
#include "commands.h"
#include "make.h"
#include "named_files.h"
#include "run_mlir.h"
#include "run_onnx.h"
#include "run_spec.h"

static const struct option_help options[] = {
    {"in", "NAME=FILE.npy", "an input, by its name in the op or model", &file_values},
    {"out", "NAME=FILE.npy", "file for an output, or for a tensor that is updated in place",
     &file_values},
    {"isa", "ISA", "best instruction set to use (default: the best of this CPU)", &isa_values},
    {"portable", NULL, "use portable kernels (the default for a .mlir file without --pack)", NULL},
    {"threads", "N", "threads to run on (default 1)", NULL},
    COMPILE_OPTIONS,
    {"step", "STEP", "step of a flow: append, index, attend, decode (default decode)",
     &step_values},
    {"pack", "LIBRARY", "a built pack whose kernels a .mlir file uses", &file_values},
    {"max-steps", "N", "limit for a .mlir file: 100 per op, 1 per element (default 10000000000)",
     NULL},
    {"max-memory", "MIB", "limit for a .mlir file: memory for all values at a time (default 1024)",
     NULL},
    {"window-out-of-bounds", "WORD", "for scatters of a .mlir file: skip_element or skip_window",
     &bounds_values},
    {NULL, NULL, NULL, NULL},
};

/* ---- Files ---- */

/* The names of tensors that --in and --out accept for a spec. */
static const char *input_at(const void *spec, int tensor) {
    return run_input(spec, tensor);
}

static const char *output_at(const void *spec, int tensor) {
    return run_output(spec, tensor);
}

static bool read_input(const struct file_names *names, const char *value, struct arrays *arrays,
                       struct error *error) {
    int place = named_file_place(names, "in", value, error);
    if (place < 0)
        return false;
    npy_free(&arrays->tensor[place]);
    return npy_read(named_file_of(names, place, value), &arrays->tensor[place], error);
}

static bool note_output(const struct file_names *names, const char *value, struct arrays *arrays,
                        struct error *error) {
    int place = named_file_place(names, "out", value, error);
    if (place >= 0)
        arrays->output[place] = named_file_of(names, place, value);
    return place >= 0;
}

static bool read_arrays(const struct options *given, const struct spec *spec, struct arrays *arrays,
                        struct error *error) {
    const int count = run_op_of(spec)->tensors;
    const struct file_names inputs = {input_at, spec, count}, outputs = {output_at, spec, count};
    for (int i = 0; i < given->count; i++) {
        const char *name = given->given[i].name, *value = given->given[i].value;
        if (strcmp(name, "out") == 0 && !note_output(&outputs, value, arrays, error))
            return false;
        if (strcmp(name, "in") == 0 && !read_input(&inputs, value, arrays, error))
            return false;
    }
    return named_files_check(&outputs, arrays->output, error);
}

static bool write_array(struct arrays *arrays, int index, struct error *error) {
    struct npy *file = &arrays->file[index], *tensor = &arrays->tensor[index];
    if (!is_given(file))
        return npy_write(arrays->output[index], tensor, error);
    if (tensor->tensor.strides != NULL)
        npy_copy(tensor, file);
    else
        memcpy(file->tensor.data, tensor->tensor.data, npy_bytes(file));
    return npy_write(arrays->output[index], file, error);
}

static bool write_arrays(struct arrays *arrays, struct error *error) {
    for (int i = 0; i < MOST_RUN_TENSORS; i++)
        if (arrays->output[i] != NULL && !write_array(arrays, i, error))
            return false;
    return true;
}

static void free_arrays(struct arrays *arrays) {
    for (int i = 0; i < MOST_RUN_TENSORS; i++) {
        npy_free(&arrays->tensor[i]);
        npy_free(&arrays->file[i]);
    }
}

/* ---- The run ---- */

static bool run_spec(const struct options *given, struct spec_list *specs, struct arrays *arrays,
                     struct error *error) {
    struct spec_runner runner;
    struct spec *spec = &specs->items[0];
    bool done =
        spec_runner_begin(&runner, given, error) && read_arrays(given, spec, arrays, error) &&
        run_op_of(spec)->prepare(spec, arrays, error) && spec_runner_build(&runner, specs, error) &&
        spec_runner_run(&runner, spec, arrays, error);
    if (done && run_op_of(spec)->finish != NULL)
        run_op_of(spec)->finish(spec, arrays);
    done = done && write_arrays(arrays, error);
    spec_runner_end(&runner);
    return done;
}

static bool choose_step(const struct options *given, struct spec *spec, struct error *error) {
    const char *step = option_value(given, "step");
    if (step == NULL)
        return true;
    bool (*choose)(struct spec *, const char *, struct error *) = run_op_of(spec)->choose;
    return choose != NULL ? choose(spec, step, error)
                          : fail(error, EXIT_USER, "--step is for flows");
}

static bool run(const struct options *given, struct error *error) {
    struct spec_list specs = {0};
    struct arrays arrays = {0};
    if (given->rest_count != 1)
        return fail(error, EXIT_USER, "kvmill run: %d arguments; accepted: one SPECS file",
                    given->rest_count);
    if (!make_read_options(given, error))
        return false;
    if (is_mlir_name(given->rest[0]))
        return run_mlir(given, given->rest[0], error);
    if (is_onnx_name(given->rest[0]))
        return run_onnx(given, given->rest[0], error);
    if (option_value(given, "pack"))
        return fail(error, EXIT_USER, "--pack is for .mlir files; a spec gets kernels of its own");
    bool done = specs_read(given->rest[0], &specs, error);
    if (done && specs.count != 1)
        done = fail(error, EXIT_USER, "%s: holds %zu specs; accepted: one", given->rest[0],
                    specs.count);
    done = done && choose_step(given, &specs.items[0], error);
    done = done && run_spec(given, &specs, &arrays, error);
    free_arrays(&arrays);
    spec_list_free(&specs);
    return done;
}

const struct command run_command = {
    .name = "run",
    .synopsis = "(SPECS | MODEL.onnx) --in NAME=FILE.npy ... --out NAME=FILE.npy [options] | "
                "FILE.mlir [options]",
    .summary =
        "Run a spec, an ONNX model or a StableHLO program on arrays in files, with its kernels.",
    .options = options,
    .arguments = &file_values,
    .run = run,
};
