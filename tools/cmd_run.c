/* kvmill run: one spec on arrays in files.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../ops/fail.h"
#include "../ops/tensor_scatter.h"
#include "../tune/threads.h"
#include "built_pack.h"
#include "commands.h"
#include "npy.h"

static const struct option_help options[] = {
    {"in", "NAME=FILE.npy", "an input (past_cache, update, write_indices)"},
    {"out", "NAME=FILE.npy", "where an output goes (present_cache)"},
    {"isa", "ISA", "instruction set (the best this CPU has)"},
    {"portable", NULL, "the portable kernel instead of a generated one"},
    {"threads", "N", "threads to run on (1)"},
    {NULL, NULL, NULL},
};

static const char *const input_names[] = {"past_cache", "update", "write_indices", NULL};
static const char *const output_names[] = {"present_cache", NULL};

struct arrays {
    struct npy tensor[KVMILL_TENSOR_SCATTER_TENSORS];
    const char *output; /* file of present_cache */
};

/* ---- Files ---- */

static int position(const char *const *names, const char *word, size_t length) {
    for (int i = 0; names[i] != NULL; i++)
        if (strlen(names[i]) == length && memcmp(names[i], word, length) == 0)
            return i;
    return -1;
}

static bool refuse_name(const char *option, const char *const *names, const char *value,
                        struct error *error) {
    char accepted[128] = "";
    for (int i = 0; names[i] != NULL; i++)
        snprintf(accepted + strlen(accepted), sizeof accepted - strlen(accepted), "%s%s=FILE.npy",
                 i ? ", " : "", names[i]);
    return fail(error, EXIT_USER, "--%s %.200s: accepted: %s", option, value, accepted);
}

/* NAME=FILE: the position of NAME among names, and FILE. */
static bool split_file(const char *option, const char *const *names, const char *value, int *index,
                       const char **file, struct error *error) {
    size_t length = strcspn(value, "=");
    *index = position(names, value, length);
    if (*index < 0 || value[length] != '=' || value[length + 1] == '\0')
        return refuse_name(option, names, value, error);
    *file = value + length + 1;
    return true;
}

static bool read_arrays(const struct options *given, struct arrays *arrays, struct error *error) {
    int index;
    const char *file;
    for (int i = 0; i < given->count; i++) {
        const char *name = given->given[i].name, *value = given->given[i].value;
        if (strcmp(name, "out") == 0) {
            if (!split_file(name, output_names, value, &index, &arrays->output, error))
                return false;
        } else if (strcmp(name, "in") == 0) {
            if (!split_file(name, input_names, value, &index, &file, error))
                return false;
            npy_free(&arrays->tensor[index]);
            if (!npy_read(file, &arrays->tensor[index], error))
                return false;
        }
    }
    for (int i = 0; i < KVMILL_WRITE_INDICES; i++)
        if (arrays->tensor[i].tensor.shape == NULL)
            return fail(error, EXIT_USER, "no %s; accepted: --in %s=FILE.npy", input_names[i],
                        input_names[i]);
    return arrays->output != NULL ||
           fail(error, EXIT_USER, "no output; accepted: --out present_cache=FILE.npy");
}

static void free_arrays(struct arrays *arrays) {
    for (int i = 0; i < KVMILL_TENSOR_SCATTER_TENSORS; i++)
        npy_free(&arrays->tensor[i]);
}

/* ---- The spec meets the arrays ---- */

/* A type NumPy lacks travels as unsigned integers of its width; 4-bit types two to a uint8. */
static bool carries(const struct npy *npy, DLDataType wanted) {
    int bits = kvmill_dtype_bits(wanted);
    DLDataType carrier = {kDLUInt, (uint8_t)(bits == 4 ? 8 : bits), 1};
    return kvmill_dtype_equal(npy->tensor.dtype, wanted) ||
           (kvmill_dtype_equal(npy->tensor.dtype, carrier)) ||
           (bits == 128 && strcmp(npy->descr, "<c16") == 0);
}

static bool fits_dims(const DLTensor *spec, const DLTensor *array) {
    bool fits = spec->ndim == array->ndim;
    for (int d = 0; fits && d < spec->ndim; d++)
        fits = spec->shape[d] == KVMILL_DYNAMIC || spec->shape[d] == array->shape[d];
    return fits;
}

static bool is_known(const DLTensor *spec) {
    for (int d = 0; d < spec->ndim; d++)
        if (spec->shape[d] < 0)
            return false;
    return true;
}

/* Packed nibbles: the spec tells the dims, or the last one is twice that of the array. */
static bool unpack_dims(const char *name, const DLTensor *spec, struct npy *npy,
                        struct error *error) {
    DLTensor *array = &npy->tensor;
    if (array->strides != NULL)
        return fail(error, EXIT_USER, "%s: Fortran order; accepted for 4-bit types: row-major",
                    name);
    if (spec->shape != NULL && is_known(spec)) {
        if ((kvmill_element_count(spec) + 1) / 2 != kvmill_element_count(array))
            return fail(error, EXIT_USER,
                        "%s: holds %" PRId64 " bytes; the spec's shape needs %" PRId64, name,
                        kvmill_element_count(array), (kvmill_element_count(spec) + 1) / 2);
        return spec_set_shape(array, spec->shape, spec->ndim, error);
    }
    if (array->ndim > 0)
        array->shape[array->ndim - 1] *= 2;
    return true;
}

static bool refuse_shape(const char *name, const DLTensor *spec, const DLTensor *array,
                         struct error *error) {
    struct kvmill_shape_text have, want;
    return fail(error, EXIT_USER, "%s: the array's shape is %s; accepted: the spec's, %s", name,
                kvmill_shape_words(array, &have), kvmill_shape_words(spec, &want));
}

/* Give the array the spec's type, and the spec the array's dims. */
static bool reconcile(const char *name, DLTensor *spec, struct npy *npy, struct error *error) {
    if (!carries(npy, spec->dtype))
        return fail(error, EXIT_USER,
                    "%s has type %s; accepted: %s, or unsigned integers of its width", name,
                    npy->descr, kvmill_dtype_name(spec->dtype));
    if (kvmill_dtype_bits(spec->dtype) == 4 && !unpack_dims(name, spec, npy, error))
        return false;
    npy->tensor.dtype = spec->dtype;
    if (spec->shape != NULL && !fits_dims(spec, &npy->tensor))
        return refuse_shape(name, spec, &npy->tensor, error);
    return spec_set_shape(spec, npy->tensor.shape, npy->tensor.ndim, error);
}

/* Indices are numbers, not bits: no other type carries them.  A spec that names them means them. */
static bool check_indices(const struct spec *spec, const struct npy *indices, struct error *error) {
    const DLTensor *wanted = &spec->scatter.write_indices;
    if (indices->tensor.shape == NULL)
        return wanted->shape == NULL ||
               fail(error, EXIT_USER,
                    "no write_indices, which the spec names; accepted: --in "
                    "write_indices=FILE.npy");
    return kvmill_dtype_equal(indices->tensor.dtype, wanted->dtype) ||
           fail(error, EXIT_USER, "write_indices has type %s; accepted: int64, which is <i8",
                indices->descr);
}

static bool reconcile_all(struct spec *spec, struct arrays *arrays, struct error *error) {
    DLTensor *tensors[] = {&spec->scatter.past_cache, &spec->scatter.update,
                           &spec->scatter.write_indices};
    if (!check_indices(spec, &arrays->tensor[KVMILL_WRITE_INDICES], error))
        return false;
    for (int i = 0; i < 3; i++)
        if (arrays->tensor[i].tensor.shape != NULL &&
            !reconcile(input_names[i], tensors[i], &arrays->tensor[i], error))
            return false;
    return true;
}

/* ---- The kernel ---- */

/* The best this CPU has, or what KVMILL_ISA caps it to. */
static const char *best_isa(void) {
    const char *best = "scalar", *name, *cap = getenv("KVMILL_ISA");
    for (size_t i = 0; (name = kvmill_isa_name(i)) != NULL; i++) {
        if (kvmill_isa_usable(name))
            best = name;
        if (cap != NULL && strcmp(cap, name) == 0)
            break;
    }
    return best;
}

static int rank_of(const char *isa) {
    const char *name;
    for (int i = 0; (name = kvmill_isa_name((size_t)i)) != NULL; i++)
        if (strcmp(name, isa) == 0)
            return i;
    return -1;
}

static bool parse_isa(const char *wanted, struct isa_list *isas, struct error *error) {
    struct isa_words words;
    if (strchr(wanted, ',') != NULL)
        return fail(error, EXIT_USER, "--isa: \"%.40s\" is a list; accepted: one of %s", wanted,
                    isa_join(", ", &words));
    return isa_list_parse(wanted, isas, error);
}

static bool check_isa(const struct isa *isa, struct error *error) {
    if (kvmill_isa_usable(isa->name) && rank_of(isa->name) <= rank_of(best_isa()))
        return true;
    return fail(
        error, EXIT_ENVIRONMENT,
        "--isa: this CPU does not run %s, or KVMILL_ISA does not let it; the best here is %s",
        isa->name, best_isa());
}

static bool build_kernels(const struct options *given, const struct spec_list *specs,
                          struct built_pack *built, struct error *error) {
    const char *wanted = option_value(given, "isa");
    struct pack pack = {.name = "run", .specs = specs};
    struct isa_list isas;
    bool done = parse_isa(wanted ? wanted : best_isa(), &isas, error);
    if (!done || option_value(given, "portable"))
        return done;
    done = check_isa(isas.items[0], error) && specs_kernels(specs, &isas, &pack.kernels, error) &&
           (pack.kernels.count == 0 || built_pack_make(&pack, built, error));
    kernel_list_free(&pack.kernels);
    return done;
}

/* The command hands no instruction set to the library: a bad one comes from KVMILL_ISA. */
static bool library_failed(kvmill_status status, const kvmill_error *reason, struct error *error) {
    bool environment = status == KVMILL_E_MEMORY || status == KVMILL_E_ISA;
    return fail(error, environment ? EXIT_ENVIRONMENT : EXIT_USER, "%s: %s",
                kvmill_status_name(status), reason->message);
}

static bool make_plan(const struct options *given, const struct spec *spec,
                      const struct arrays *arrays, const struct built_pack *built,
                      kvmill_plan **plan, struct error *error) {
    kvmill_error reason;
    kvmill_plan_options choice = {
        .struct_size = sizeof choice,
        .packs = &built->pack,
        .pack_count = built->pack != NULL,
        .portable = option_value(given, "portable") != NULL,
    };
    kvmill_tensor_scatter op = scatter_op_of(spec);
    op.past_cache = &arrays->tensor[KVMILL_PAST_CACHE].tensor;
    op.update = &arrays->tensor[KVMILL_UPDATE].tensor;
    op.write_indices = arrays->tensor[KVMILL_WRITE_INDICES].tensor.shape
                           ? &arrays->tensor[KVMILL_WRITE_INDICES].tensor
                           : NULL;
    op.present_cache = &arrays->tensor[KVMILL_PRESENT_CACHE].tensor;
    kvmill_status status = kvmill_plan_tensor_scatter(&op, &choice, plan, &reason);
    return status == KVMILL_OK || library_failed(status, &reason, error);
}

static bool run_plan(const kvmill_plan *plan, const struct arrays *arrays, int threads,
                     struct error *error) {
    const DLTensor *tensors[KVMILL_TENSOR_SCATTER_TENSORS];
    kvmill_error reason;
    for (int i = 0; i < KVMILL_TENSOR_SCATTER_TENSORS; i++)
        tensors[i] = arrays->tensor[i].tensor.shape ? &arrays->tensor[i].tensor : NULL;
    kvmill_status status = kvmill_run_parallel(plan, tensors, NULL, threads_for, &threads, &reason);
    return status == KVMILL_OK || library_failed(status, &reason, error);
}

/* ---- All of it ---- */

static bool run_spec(const struct options *given, struct spec_list *specs, struct arrays *arrays,
                     struct error *error) {
    struct built_pack built = {0};
    struct npy packed = {0};
    kvmill_plan *plan = NULL;
    long threads = 1;
    if (!option_integer(given, "threads", 1, 256, &threads, error) ||
        !read_arrays(given, arrays, error))
        return false;
    struct npy *past = &arrays->tensor[KVMILL_PAST_CACHE];
    struct npy *present = &arrays->tensor[KVMILL_PRESENT_CACHE];
    bool done = npy_like(past, &packed, error) && reconcile_all(&specs->items[0], arrays, error) &&
                specs->items[0].op->check(&specs->items[0], error) &&
                npy_like(past, present, error) && build_kernels(given, specs, &built, error) &&
                make_plan(given, &specs->items[0], arrays, &built, &plan, error) &&
                run_plan(plan, arrays, (int)threads, error);
    if (done) {
        memcpy(packed.tensor.data, present->tensor.data, npy_bytes(&packed));
        done = npy_write(arrays->output, &packed, error);
    }
    kvmill_plan_destroy(plan);
    built_pack_free(&built);
    npy_free(&packed);
    return done;
}

static bool run(const struct options *given, struct error *error) {
    struct spec_list specs = {0};
    struct arrays arrays = {0};
    if (given->rest_count != 1)
        return fail(error, EXIT_USER, "kvmill run: %d arguments; accepted: one SPECS file",
                    given->rest_count);
    bool done = specs_read(given->rest[0], &specs, error);
    if (done && specs.count != 1)
        done = fail(error, EXIT_USER, "%s: holds %zu specs; accepted: one", given->rest[0],
                    specs.count);
    done = done && run_spec(given, &specs, &arrays, error);
    free_arrays(&arrays);
    spec_list_free(&specs);
    return done;
}

const struct command run_command = {
    .name = "run",
    .synopsis = "SPECS --in NAME=FILE.npy ... --out NAME=FILE.npy [options]",
    .summary = "Run one spec on arrays in files, with the kernel generated for it.",
    .options = options,
    .run = run,
};
