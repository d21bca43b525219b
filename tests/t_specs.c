/* Spec files: what is read, what is refused and in which words, and the kernels specs fold to.

   SPDX-License-Identifier: Apache-2.0 */
#include "../defs/dtype.h"
#include "../gen/spec.h"
#include "case_table.h"
#include "common.h"

static const char *file(void) {
    return scratch_path("specs.json");
}

static bool read_text(const char *text, struct spec_list *specs, struct error *error) {
    *specs = (struct spec_list){0};
    *error = (struct error){0};
    write_text(file(), text);
    return specs_read(file(), specs, error);
}

/* ---- Refusals ---- */

static void expect_refusal(const char *text, const char *where, const char *what,
                           const char *name) {
    struct spec_list specs;
    struct error error;
    char start[256];
    snprintf(start, sizeof start, "%s%s", file(), where);
    bool read = read_text(text, &specs, &error);
    ok_failed(read, &error, EXIT_USER, start, what, "refused: %s", name);
    ok(strlen(error.text) < 520, "  in few words");
    spec_list_free(&specs);
}

ROWS(refused, 4) {
    expect_refusal(cells[1], cells[2], cells[3], cells[0]);
}

TABLE(specs);

TEST(unreadable) {
    struct spec_list specs = {0};
    struct error error = {0};
    bool read = specs_read("/nonexistent/specs.json", &specs, &error);
    ok_failed(read, &error, EXIT_USER, "/nonexistent/specs.json: cannot read: ", "",
              "refused: a file that is not there, by its path");
    const char *folder = scratch_folder();
    bool refused = !specs_read(folder, &specs, &error) && error.exit_code != 0 &&
                   strncmp(error.text, folder, strlen(folder)) == 0;
    if (!ok(refused, "refused: a directory, by its path"))
        diag("%s", error.text);
}

/* `start`, letters as many as there is room for, `end`. */
static void expect_long_refusal(size_t size, const char *start, char letter, const char *end,
                                const char *what) {
    char *text = malloc(size + 1);
    if (text == NULL)
        bail_out("out of memory");
    memset(text, letter, size);
    memcpy(text, start, strlen(start));
    memcpy(text + size - strlen(end), end, strlen(end) + 1);
    expect_refusal(text, ":", what, start);
    free(text);
}

TEST(long) {
    static const char *const words[][2] = {
        {"{\"op\": \"", "\"}"},
        {"{\"op\": \"TensorScatter\", \"dtype\": \"", "\"}"},
        {"{\"op\": \"TensorScatter\", \"mode\": \"", "\"}"},
        {"{\"op\": \"TensorScatter\", \"", "\": 1}"},
        {"{\"", "\": 1}"},
        {"{\"op\": \"TensorScatter\", \"dtype\": \"bool\", \"update\": [\"", "\"]}"}};
    for (size_t i = 0; i < COUNT(words); i++)
        expect_long_refusal(5000, words[i][0], 'x', words[i][1], "accepted");
    expect_long_refusal(6000, "[", '[', "[", "accepted: JSON");
    expect_long_refusal((16u << 20) + 1, "", ' ', "", "16 MiB");
}

/* ---- Element types ---- */

static size_t names_of_types;

ROWS(dtype, 2) {
    struct spec_list specs;
    struct error error;
    char text[256];
    snprintf(text, sizeof text, "{\"op\": \"TensorScatter\", \"dtype\": \"%s\"}", cells[0]);
    bool read = read_text(text, &specs, &error);
    DLDataType type = read ? specs.items[0].scatter.dtype : (DLDataType){0};
    ok(read && type.bits * type.lanes == atoi(cells[1]), "dtype %s of %s bits", cells[0], cells[1]);
    spec_list_free(&specs);
    names_of_types++;
}

TEST(distinct_dtypes) {
    enum { ALIASES = 2 };
    bool distinct = true;
    size_t known = 0;
    for (; kvmill_dtype_at(known) != NULL; known++)
        for (size_t j = 0; j < known; j++) {
            const struct kvmill_dtype *a = kvmill_dtype_at(known), *b = kvmill_dtype_at(j);
            if (!kvmill_dtype_equal(a->dl, b->dl))
                continue;
            distinct = false;
            diag("%s and %s are one", a->name, b->name);
        }
    ok(distinct, "no two types are the same");
    ok(known == names_of_types - ALIASES, "there are %zu types, %d aliases", known, ALIASES);
}

/* ---- Written and read back ---- */

static json_t *reread(const json_t *specs) {
    struct spec_list list = {0};
    struct error error;
    json_t *again = NULL;
    if (json_dump_file(specs, file(), 0) != 0)
        bail_out("cannot write %s", file());
    if (specs_read(file(), &list, &error))
        again = specs_write(&list);
    else
        diag("%s", error.text);
    spec_list_free(&list);
    return again;
}

static void expect_same_again(const char *name, const struct spec_list *specs) {
    json_t *written = specs_write(specs), *again = reread(written);
    char *one = json_dumps(written, 0), *other = again ? json_dumps(again, 0) : NULL;
    ok(again != NULL && json_equal(written, again), "%s: written and read back, the same", name);
    if (again == NULL || !json_equal(written, again))
        diag("%.300s\n# %.300s", one, other ? other : "nothing");
    free(one);
    free(other);
    json_decref(written);
    json_decref(again);
}

ROWS(again, 2) {
    struct spec_list specs;
    struct error error;
    if (read_text(cells[1], &specs, &error))
        expect_same_again(cells[0], &specs);
    else
        ok(false, "%s: %s", cells[0], error.text);
    spec_list_free(&specs);
}

/* What is read from a spec that leaves things out. */
ROWS(implied, 3) {
    struct spec_list specs;
    struct error error;
    json_t *object = read_text(cells[0], &specs, &error) ? spec_write(&specs.items[0]) : NULL;
    char *got = json_dumps(json_object_get(object, cells[1]), JSON_ENCODE_ANY);
    if (object == NULL)
        diag("%s", error.text);
    ok_text(object == NULL ? NULL
            : got          ? got
                           : "none",
            cells[2], "%s: %s is %s", cells[0], cells[1], cells[2]);
    free(got);
    json_decref(object);
    spec_list_free(&specs);
}

/* The words a spec came with survive. */
TEST(purpose) {
    struct spec_list specs;
    struct error error;
    bool read =
        read_text("{\"op\": \"TensorScatter\", \"dtype\": \"int8\", \"purpose\": \"decode\"}",
                  &specs, &error);
    ok(read && strcmp(specs.items[0].purpose, "decode") == 0, "a spec keeps its purpose");
    spec_list_free(&specs);
}

/* ---- Folding to kernels ---- */

enum { SYMBOLS = 4096 };

static void join_symbols(const struct kernel_list *kernels, char text[SYMBOLS]) {
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < kernels->count && at < SYMBOLS; i++) {
        char symbol[SYMBOL_SIZE];
        kernel_symbol(&kernels->items[i], symbol);
        at += (size_t)snprintf(text + at, SYMBOLS - at, "%s%s", i ? " " : "",
                               symbol + strlen("kvmill_"));
    }
}

/* The kernels of the specs in file `text` for `isas`, without their prefixes. */
static bool fold(const char *text, const char *isas, char symbols[SYMBOLS], struct error *error) {
    struct spec_list specs;
    struct isa_list list;
    struct kernel_list kernels = {0};
    bool done = read_text(text, &specs, error) && isa_list_parse(isas, &list, error) &&
                specs_kernels(&specs, &list, &kernels, error);
    symbols[0] = '\0';
    if (done)
        join_symbols(&kernels, symbols);
    kernel_list_free(&kernels);
    spec_list_free(&specs);
    return done;
}

static bool is_there(const char *isa) {
    bool there = kvmill_isa_by_name(isa, strlen(isa)) != NULL;
    if (!there)
        skip_test("no kernels for %s", isa);
    return there;
}

/* Every symbol that folding writes can be read: `kvmill list` depends on it. */
static void expect_symbols(const char *text) {
    char symbols[SYMBOLS], *state;
    struct kernel kernel;
    struct error error;
    bool read = fold(text, "scalar", symbols, &error);
    for (char *word = strtok_r(symbols, " ", &state); read && word != NULL;
         word = strtok_r(NULL, " ", &state)) {
        char symbol[SYMBOL_SIZE];
        snprintf(symbol, sizeof symbol, "kvmill_%s", word);
        read = kernel_parse(symbol, &kernel, &error);
    }
    if (!ok(read, "  its symbols are read back"))
        diag("%s", error.text);
}

ROWS(folded, 3) {
    char symbols[SYMBOLS];
    struct error error;
    expect_symbols(cells[1]);
    if (!is_there("avx2"))
        return;
    if (!fold(cells[1], "avx2", symbols, &error))
        diag("%s", error.text);
    ok_text(symbols, cells[2], "folded: %s", cells[0]);
}

ROWS(empty, 1) {
    diag("%s", cells[0]);
    expect_symbols(cells[0]);
}

ROWS(shapeless, 2) {
    char symbols[SYMBOLS];
    struct error error;
    bool done = fold(cells[0], "scalar", symbols, &error);
    ok_failed(done, &error, EXIT_USER, file(), cells[1], "no kernels without a shape: %s",
              cells[1]);
}

TEST(fold_isas) {
#define SPEC(more)                                                                                 \
    "{\"op\": \"TensorScatter\", \"dtype\": \"float16\", \"past_cache\": [2, 8, 64, 128], "        \
    "\"update\": [2, 8, 1, 128]" more "}"
    char symbols[SYMBOLS];
    struct error error;
    if (!is_there("neon"))
        return;
    fold("{\"kernels\": [" SPEC("") "," SPEC("") "," SPEC(", \"axis\": 2") "]}", "scalar,neon",
         symbols, &error);
    ok_text(symbols,
            "store_rows_u8_h8_mn_s1_d256_linear__scalar_line keep_rows_u8__scalar_pages4 "
            "store_rows_u8_h8_mn_s1_d256_linear__neon_line keep_rows_u8__neon_pages4",
            "equal specs share kernels; each instruction set has its own");
}

/* ---- Models ---- */

static bool specs_of(const char *name, const struct cache_choice *choice, struct spec_list *specs,
                     struct error *error) {
    struct model model = {0};
    *specs = (struct spec_list){0};
    bool done =
        model_read(source_path("configs/models/%s.json", name), &model, &specs->notes, error) &&
        specs_of_model(&model, choice, specs, error);
    model_free(&model);
    return done;
}

static size_t add_dims(char *text, size_t size, const DLTensor *tensor) {
    size_t at = 0;
    for (int d = 0; d < tensor->ndim; d++)
        at += (size_t)(tensor->shape[d] == KVMILL_DYNAMIC
                           ? snprintf(text + at, size - at, "%s?", d ? "," : "")
                           : snprintf(text + at, size - at, "%s%" PRId64, d ? "," : "",
                                      tensor->shape[d]));
    return at;
}

/* "attention 0-31: 32/8 x 128, window 512, circular 0" */
static void describe_attention(const struct spec *spec, char *text, size_t size) {
    const struct attention_spec *attention = &spec->attention;
    const kvmill_cache_attention *op = &attention->op;
    size_t at =
        (size_t)snprintf(text, size, "%s %s: %" PRId64 "/%" PRId64 " x %" PRId64, spec->name,
                         attention->layers, op->num_heads, op->num_kv_heads, op->head_dim);
    if (op->value_differs)
        at += (size_t)snprintf(text + at, size - at, "/%" PRId64, op->value_head_dim);
    if (op->left_window_size >= 0)
        at += (size_t)snprintf(text + at, size - at, ", window %" PRId64, op->left_window_size + 1);
    if (op->mode != NULL)
        at += (size_t)snprintf(text + at, size - at, ", %s %" PRId64, op->mode, op->capacity);
    if (op->softcap != 0)
        snprintf(text + at, size - at, ", softcap %g", op->softcap);
}

/* "decode key, head-major: circular ?,8,?,256 <- ?,8,1,256" */
static void describe(const struct spec *spec, char *text, size_t size) {
    if (spec_is(spec, OP_CACHE_ATTENTION)) {
        describe_attention(spec, text, size);
        return;
    }
    const struct scatter_spec *scatter = &spec->scatter;
    size_t at = (size_t)snprintf(text, size, "%s: %s ", spec->purpose, scatter->op.mode);
    at += add_dims(text + at, size - at, &scatter->past_cache);
    at += (size_t)snprintf(text + at, size - at, " <- ");
    add_dims(text + at, size - at, &scatter->update);
}

/* `lines` ends with NULL. */
static void expect_specs(const char *name, const struct spec_list *specs,
                         const char *const *lines) {
    size_t count = 0;
    for (; lines[count] != NULL && count < specs->count; count++) {
        char text[256];
        describe(&specs->items[count], text, sizeof text);
        ok_text(text, lines[count], "%s: spec %zu", name, count);
    }
    ok(lines[count] == NULL && specs->count == count, "%s: %zu specs", name, specs->count);
}

static const struct kvmill_format_parts *cache_type(const char *word) {
    return kvmill_format_parts(kvmill_format_of_word(word, KVMILL_ANY_SCALES));
}

/* CELLS: name, layout and perhaps the type of the cache, specs. */
ROWS(model, 3) {
    struct spec_list specs;
    struct error error = {0};
    struct cache_choice choice = {.layout = atoi(cells[1])};
    const char *type = strchr(cells[1], ' ');
    if (type != NULL)
        choice.type = cache_type(type + 1);
    if (!ok(specs_of(cells[0], &choice, &specs, &error), "%s is read", cells[0]))
        diag("%s", error.text);
    expect_specs(cells[0], &specs, (const char *const *)cells + 2);
    expect_same_again(cells[0], &specs);
    spec_list_free(&specs);
}

/* No shipped model has keys and values of different sizes outside a latent cache: ours has. */
TEST(different_parts) {
    static const char *const lines[] = {"decode key, head-major: linear ?,4,?,192 <- ?,4,1,192",
                                        "prefill key, head-major: linear ?,4,?,192 <- ?,4,?,192",
                                        "decode value, head-major: linear ?,4,?,128 <- ?,4,1,128",
                                        "prefill value, head-major: linear ?,4,?,128 <- ?,4,?,128",
                                        "attention 0, 2: 16/4 x 192/128",
                                        NULL};
    const struct layer layer = {
        .kind = LAYER_FULL, .query_heads = 16, .kv_heads = 4, .key_dim = 192, .value_dim = 128};
    struct layer layers[] = {layer, {.kind = LAYER_NONE}, layer};
    struct model model = {
        .layer_count = 3, .layers = layers, .dtype = kvmill_dtype_by_name("float16")};
    struct cache_choice choice = {.layout = 1};
    struct spec_list specs = {0};
    struct error error = {0};
    ok(specs_of_model(&model, &choice, &specs, &error), "keys and values of different sizes");
    expect_specs("  which have specs of their own", &specs, lines);
    spec_list_free(&specs);
}

TEST(no_cache) {
    struct layer layer = {.kind = LAYER_NONE};
    struct model model = {
        .layer_count = 1, .layers = &layer, .dtype = kvmill_dtype_by_name("float16")};
    struct cache_choice choice = {.layout = -1};
    struct spec_list specs = {0};
    struct error error = {0};
    bool done = specs_of_model(&model, &choice, &specs, &error);
    ok_failed(done, &error, EXIT_USER, NULL, "no layer", "refused: a model without a cache");
    spec_list_free(&specs);
}

TEST(cache_type) {
    struct spec_list specs;
    struct error error;
    struct cache_choice choice = {.layout = 0, .type = cache_type("float32")};
    bool read = specs_of("llama-3.1-8b", &choice, &specs, &error) && specs.count == 3;
    for (size_t i = 0; read && i < 2; i++)
        read = specs.items[i].scatter.dtype.bits == 32 &&
               specs.items[i].scatter.past_cache.dtype.bits == 32;
    ok(read, "another element type, one layout: %zu specs", specs.count);
    if (read) {
        const kvmill_cache_attention *op = &specs.items[2].attention.op;
        ok(op->T1.bits == 16 && op->T2.bits == 32 && op->T3.bits == 0,
           "  of the cache, not of the activations");
    }
    spec_list_free(&specs);
}

/* The one spec of a quantised cache of llama-3.1-8b. */
ROWS(quantised, 5) {
    struct spec_list specs;
    struct error error;
    struct cache_choice choice = {.layout = atoi(cells[0]),
                                  .type = cache_type(cells[1]),
                                  .quant_group = atoi(cells[2]),
                                  .math = strcmp(cells[3], "f32") == 0 ? NULL : cells[3]};
    bool read = specs_of("llama-3.1-8b", &choice, &specs, &error) && specs.count == 1;
    json_t *object = read ? spec_write(&specs.items[0]) : NULL;
    char *text = json_dumps(object, JSON_PRESERVE_ORDER);
    if (!ok(text != NULL && strstr(text, cells[4]) != NULL, "one spec: %s", cells[4]))
        diag("%s", text ? text : error.text);
    free(text);
    json_decref(object);
    spec_list_free(&specs);
}

ROWS(misfit, 4) {
    struct spec_list specs;
    struct error error = {0};
    struct cache_choice choice = {
        .layout = 0, .type = cache_type(cells[1]), .quant_group = atoi(cells[2])};
    bool done = specs_of(cells[0], &choice, &specs, &error);
    ok_failed(done, &error, EXIT_USER, NULL, cells[3], "%s is refused: %s", cells[0], cells[3]);
    spec_list_free(&specs);
}

/* Facts of a model that its attention needs. */
TEST(model_facts) {
    const struct layer layer = {.kind = LAYER_FULL,
                                .query_heads = 71,
                                .kv_heads = 1,
                                .key_dim = 64,
                                .value_dim = 64,
                                .scale = 0.125};
    struct layer layers[2] = {layer, layer};
    struct model model = {.layer_count = 2,
                          .layers = layers,
                          .alibi_bias_max = 8,
                          .alibi_scaled = true,
                          .dtype = kvmill_dtype_by_name("bfloat16")};
    struct cache_choice choice = {.layout = 0};
    struct spec_list specs = {0};
    struct error error = {0};
    layers[1].scale = 0.25;
    if (!specs_of_model(&model, &choice, &specs, &error) || specs.count != 4)
        bail_out("two geometries: %zu specs %s", specs.count, error.text);
    const struct attention_spec *one = &specs.items[2].attention, *two = &specs.items[3].attention;
    const char *name = specs.items[2].name, *other = specs.items[3].name;
    ok(one->op.softmax_scale == 0 && two->op.softmax_scale == 0.25, "the usual scale is not said");
    ok(one->op.is_alibi && one->op.alibi_scale == 0.125 && two->op.alibi_scale == 0.25,
       "a bias before the scale has a scaled slope");
    ok(strcmp(name, "attention") == 0 && strcmp(other, "attention_2") == 0,
       "names of their own: %s, %s", name, other);
    spec_list_free(&specs);
    model.alibi_bias_max = 16;
    ok(specs_of_model(&model, &choice, &specs, &error) && specs.count == 2 &&
           model_without_attention(&model) != NULL,
       "other slopes: rows, but no attention");
    spec_list_free(&specs);
}
