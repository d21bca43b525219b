/* Spec files: reading, refusals and their words, and the kernels of specs.

   SPDX-License-Identifier: Apache-2.0 */
#include "../defs/dtype.h"
#include "../gen/generators.h"
#include "../import/hf/specs_of_model.h"
#include "../import/spec_file.h"
#include "../spec/spec.h"
#include "common.h"

/* The last specs that were read, and the error. */
static struct spec_list specs;
static struct error error;

static const char *file(void) {
    return scratch_path("specs.json");
}

static void forget(void) {
    spec_list_free(&specs);
    specs = (struct spec_list){0};
    error = (struct error){0};
}

static bool read_text(const char *text) {
    forget();
    write_text(file(), text);
    return specs_read(file(), &specs, &error);
}

/* ---- Refusals ---- */

static void expect_refusal(const char *text, const char *where, const char *what,
                           const char *name) {
    char start[256];
    snprintf(start, sizeof start, "%s%s", file(), where);
    ok_failed(read_text(text), &error, EXIT_USER, start, what, "refused: %s", name);
    ok(strlen(error.text) < 480 + strlen(file()), "  in few words");
}

ROWS(refused, 4) {
    expect_refusal(cells[1], cells[2], cells[3], cells[0]);
}

TABLE(specs);

TEST(unreadable) {
    forget();
    ok_failed(specs_read("/dev/null/absent/specs.json", &specs, &error), &error, EXIT_USER,
              "/dev/null/absent/specs.json: cannot read: ", "",
              "refused: a file that is not there, by its path");
    const char *folder = scratch_folder();
    ok(!specs_read(folder, &specs, &error) && error.exit_code != 0 &&
           strncmp(error.text, folder, strlen(folder)) == 0,
       "refused: a directory, by its path: %s", error.text);
}

/* Checks the refusal of `start`, letters up to the size, and `end`. */
static void expect_long_refusal(size_t size, const char *start, char letter, const char *end,
                                const char *what) {
    FREED char *text = malloc(size + 1);
    must(text != NULL, "out of memory");
    memset(text, letter, size);
    memcpy(text, start, strlen(start));
    memcpy(text + size - strlen(end), end, strlen(end) + 1);
    expect_refusal(text, ":", what, start);
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
    char text[256];
    snprintf(text, sizeof text, "{\"op\": \"TensorScatter\", \"dtype\": \"%s\"}", cells[0]);
    bool read = read_text(text);
    DLDataType type = read ? specs.items[0].scatter.dtype : (DLDataType){0};
    ok(read && type.bits * type.lanes == atoi(cells[1]), "dtype %s of %s bits", cells[0], cells[1]);
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

static json_t *reread(const json_t *written) {
    OWN(spec_list_free) struct spec_list list = {0};
    json_t *again = NULL;
    if (json_dump_file(written, file(), 0) != 0)
        bail_out("cannot write %s", file());
    if (specs_read(file(), &list, &error))
        again = specs_write(&list);
    return again;
}

static void expect_same_again(const char *name) {
    json_auto_t *written = specs_write(&specs), *again = reread(written);
    FREED char *one = json_dumps(written, 0), *other = again ? json_dumps(again, 0) : NULL;
    if (!ok(json_equal(written, again), "%s: written and read back, the same", name))
        diag("%.300s\n# %.300s", one, other ? other : error.text);
}

ROWS(again, 2) {
    must(read_text(cells[1]), error.text);
    expect_same_again(cells[0]);
}

/* The members of a spec that leaves some out. */
ROWS(implied, 3) {
    must(read_text(cells[0]), error.text);
    json_auto_t *object = spec_write(&specs.items[0]);
    FREED char *got = json_dumps(json_object_get(object, cells[1]), JSON_ENCODE_ANY);
    ok_text(got ? got : "none", cells[2], "%s: %s is %s", cells[0], cells[1], cells[2]);
}

/* ---- Kernels of specs ---- */

/* Symbols without their prefixes. */
static struct text symbols;

static void join_symbols(const struct kernel_list *kernels) {
    for (size_t i = 0; i < kernels->count; i++) {
        char symbol[SYMBOL_SIZE];
        kernel_symbol(&kernels->items[i], symbol);
        text_print(&symbols, "%s%s", i ? " " : "", symbol + strlen("kvmill_"));
    }
}

/* Folds the specs of file `text` to kernels for `isas`. */
static bool fold(const char *text, const char *isas) {
    struct isa_list list;
    OWN(kernel_list_free) struct kernel_list kernels = {0};
    bool done = read_text(text) && isa_list_parse(isas, "scalar", &list, &error) &&
                specs_kernels(&specs, &list, &kernels, &error);
    text_free(&symbols);
    text_append(&symbols, "", 0);
    if (done)
        join_symbols(&kernels);
    return done;
}

static bool is_there(const char *isa) {
    bool there = kvmill_isa_by_name(isa, strlen(isa)) != NULL;
    if (!there)
        skip_test("no kernels for %s", isa);
    return there;
}

/* Every symbol of folded kernels can be parsed: `kvmill list` depends on it. */
static void expect_symbols(const char *text) {
    char *state;
    struct kernel kernel;
    bool read = fold(text, "scalar");
    for (char *word = strtok_r(symbols.data, " ", &state); read && word != NULL;
         word = strtok_r(NULL, " ", &state)) {
        char symbol[SYMBOL_SIZE];
        snprintf(symbol, sizeof symbol, "kvmill_%s", word);
        read = kernel_parse(symbol, &kernel, &error);
    }
    ok(read, "  its symbols are read back%s%s", read ? "" : ": ", read ? "" : error.text);
}

ROWS(folded, 3) {
    expect_symbols(cells[1]);
    if (is_there("avx2"))
        ok_text(fold(cells[1], "avx2") ? symbols.data : error.text, cells[2], "folded: %s",
                cells[0]);
}

ROWS(empty, 1) {
    diag("%s", cells[0]);
    expect_symbols(cells[0]);
}

ROWS(shapeless, 2) {
    ok_failed(fold(cells[0], "scalar"), &error, EXIT_USER, file(), cells[1],
              "no kernels without a shape: %s", cells[1]);
}

TEST(fold_isas) {
#define SPEC(more)                                                                                 \
    "{\"op\": \"TensorScatter\", \"dtype\": \"float16\", \"past_cache\": [2, 8, 64, 128], "        \
    "\"update\": [2, 8, 1, 128]" more "}"
    if (!is_there("neon"))
        return;
    fold("{\"kernels\": [" SPEC("") "," SPEC("") "," SPEC(", \"axis\": 2") "]}", "scalar,neon");
    ok_text(symbols.data,
            "store_rows_u8_h8_mn_s1_d256_linear__scalar_line keep_rows_u8__scalar_pages4 "
            "store_rows_u8_h8_mn_s1_d256_linear__neon_line keep_rows_u8__neon_pages4",
            "equal specs share kernels; each instruction set has its own");
}

/* ---- Models ---- */

static bool specs_of(const char *name, const struct cache_choice *choice) {
    OWN(model_free) struct model model = {0};
    forget();
    bool done =
        model_read(source_path("configs/models/%s.json", name), &model, &specs.notes, &error) &&
        specs_of_model(&model, choice, &specs, &error);
    return done;
}

/* Checks the specs; `lines` ends with NULL. */
static void expect_specs(const char *name, const char *const *lines) {
    size_t count = 0;
    for (; lines[count] != NULL && count < specs.count; count++) {
        json_auto_t *object = spec_write(&specs.items[count]);
        FREED char *text = json_dumps(object, 0);
        ok_text(text, lines[count], "%s: spec %zu", name, count);
    }
    ok(lines[count] == NULL && specs.count == count, "%s: %zu specs", name, specs.count);
}

static const struct kvmill_format_parts *cache_type(const char *word) {
    return kvmill_format_parts(kvmill_format_of_word(word, KVMILL_ANY_SCALES));
}

/* CELLS: name, layout and possibly the type of the cache, specs. */
ROWS(model, 3) {
    struct cache_choice choice = {.layout = atoi(cells[1])};
    const char *type = strchr(cells[1], ' ');
    if (type != NULL)
        choice.type = cache_type(type + 1);
    must(specs_of(cells[0], &choice), error.text);
    expect_specs(cells[0], (const char *const *)cells + 2);
    expect_same_again(cells[0]);
}

static bool specs_of_layers(struct model model, int layout) {
    const struct cache_choice choice = {.layout = layout};
    forget();
    return specs_of_model(&model, &choice, &specs, &error);
}

/* No shipped model has keys and values of different sizes outside a latent cache; this invented one
   has. */
ROWS(different_parts, 6) {
    const struct layer layer = {
        .kind = LAYER_FULL, .query_heads = 16, .kv_heads = 4, .key_dim = 192, .value_dim = 128};
    struct layer layers[] = {layer, {.kind = LAYER_NONE}, layer};
    const struct model model = {
        .layer_count = 3, .layers = layers, .dtype = kvmill_dtype_by_name("float16")};
    must(specs_of_layers(model, 1), error.text);
    expect_specs(cells[0], (const char *const *)cells + 1);
}

TEST(no_cache) {
    struct layer layer = {.kind = LAYER_NONE};
    const struct model model = {
        .layer_count = 1, .layers = &layer, .dtype = kvmill_dtype_by_name("float16")};
    ok_failed(specs_of_layers(model, -1), &error, EXIT_USER, NULL, "no layer",
              "refused: a model without a cache");
}

/* MODEL's cache with a layout and a type: the number of its specs, and words in their text.  A
   scatter's tensors have the type. */
ROWS(cache, 7) {
    const struct cache_choice choice = {.layout = atoi(cells[2]),
                                        .type = cache_type(cells[3]),
                                        .quant_group = atoi(cells[4]),
                                        .math = strcmp(cells[5], "f32") == 0 ? NULL : cells[5]};
    must(specs_of(cells[0], &choice), error.text);
    json_auto_t *document = specs_write(&specs);
    FREED char *text = json_dumps(document, JSON_PRESERVE_ORDER);
    bool good = specs.count == (size_t)atoi(cells[1]);
    for (size_t i = 0; i < specs.count; i++)
        good = good && (!spec_is(&specs.items[i], OP_TENSOR_SCATTER) ||
                        kvmill_dtype_equal(specs.items[i].scatter.dtype,
                                           specs.items[i].scatter.past_cache.dtype));
    if (!ok(good && strstr(text, cells[6]) != NULL, "%s specs: %s", cells[1], cells[6]))
        diag("%zu: %s", specs.count, text);
}

ROWS(misfit, 4) {
    const struct cache_choice choice = {
        .layout = 0, .type = cache_type(cells[1]), .quant_group = atoi(cells[2])};
    ok_failed(specs_of(cells[0], &choice), &error, EXIT_USER, NULL, cells[3], "%s is refused: %s",
              cells[0], cells[3]);
}

/* Facts of a model that attention needs. */
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
    layers[1].scale = 0.25;
    must(specs_of_layers(model, 0) && specs.count == 4, "two geometries are two specs");
    const struct attention_spec *one = &specs.items[2].attention, *two = &specs.items[3].attention;
    const char *name = specs.items[2].name, *other = specs.items[3].name;
    ok(one->op.softmax_scale == 0 && two->op.softmax_scale == 0.25, "the usual scale is not said");
    ok(one->op.is_alibi && one->op.alibi_scale == 0.125 && two->op.alibi_scale == 0.25,
       "a bias before the scale has a scaled slope");
    ok(strcmp(name, "attention") == 0 && strcmp(other, "attention_2") == 0,
       "names of their own: %s, %s", name, other);
    model.alibi_bias_max = 16;
    ok(specs_of_layers(model, 0) && specs.count == 2 && model_without_attention(&model) != NULL,
       "other slopes: rows, but no attention");
}
