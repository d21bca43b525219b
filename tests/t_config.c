/* The readers of models, config.json and GGUF headers: the shipped configs, rules of model classes,
   and invalid input.

   SPDX-License-Identifier: Apache-2.0 */
#include <glob.h>

#include "../base/json.h"
#include "../import/gguf/gguf.h"
#include "../import/hf/config.h"
#include "../import/hf/specs_of_model.h"
#include "../spec/spec.h"
#include "common.h"
#include "onnx_text.h"

static const char *file(void) {
    return scratch_path("config.json");
}

/* The result of reading a file. */
struct reading {
    bool done;
    struct model model;
    struct text notes;
    struct error error;
};

static struct reading read_with(bool (*read)(const char *path, struct model *model,
                                             struct text *notes, struct error *error)) {
    struct reading reading = {.done = false};
    reading.done = read(file(), &reading.model, &reading.notes, &reading.error);
    return reading;
}

static struct reading read_text(const char *text) {
    write_text(file(), text);
    return read_with(model_read);
}

static void close_reading(struct reading *reading) {
    if (reading->done)
        model_free(&reading->model);
    text_free(&reading->notes);
}

/* Checks that the notes contain `words`; NULL: no notes. */
static void expect_notes(struct text *notes, const char *words) {
    if (!ok((notes->data == NULL) == (words == NULL) &&
                (words == NULL || strstr(notes->data, words) != NULL),
            "  with the notes %s", words ? words : "of none"))
        diag("%s", notes->data ? notes->data : "none");
    text_free(notes);
}

/* ---- A model as text: runs of equal layers, "3*sliding 8:4 64+64 w128 s0.125" ---- */

static bool same_layer(const struct layer *a, const struct layer *b) {
    return a->kind == b->kind && a->query_heads == b->query_heads && a->kv_heads == b->kv_heads &&
           a->key_dim == b->key_dim && a->value_dim == b->value_dim && a->window == b->window &&
           a->scale == b->scale && a->softcap == b->softcap && a->sinks == b->sinks &&
           a->value_is_key == b->value_is_key && a->merges == b->merges && a->chunk == b->chunk;
}

static void print_run(struct text *text, const struct layer *layer, int count) {
    static const char *const kinds[] = {"full", "sliding", "latent", "none"};
    text_print(text, "%s%d*%s", text->length > 0 ? "; " : "", count, kinds[layer->kind]);
    if (layer->kind == LAYER_NONE)
        return;
    text_print(text, " %" PRId64 ":%" PRId64 " %" PRId64 "+%" PRId64, layer->query_heads,
               layer->kv_heads, layer->key_dim, layer->value_dim);
    if (layer->window != 0)
        text_print(text, " w%" PRId64, layer->window);
    if (layer->chunk != 0)
        text_print(text, " chunks %" PRId64, layer->chunk);
    text_print(text, " s%.4g", layer->scale);
    if (layer->softcap != 0)
        text_print(text, " c%g", layer->softcap);
    text_print(text, "%s%s%s", layer->sinks ? " sinks" : "", layer->value_is_key ? " view" : "",
               layer->merges ? " merges" : "");
}

/* Returns the model as text, for text_free. */
static struct text describe(const struct model *model) {
    struct text text = {0};
    for (int i = 0, end; i < model->layer_count; i = end) {
        for (end = i; end < model->layer_count; end++)
            if (!same_layer(&model->layers[i], &model->layers[end]))
                break;
        print_run(&text, &model->layers[i], end - i);
    }
    if (model->indexer.topk > 0)
        text_print(&text, ", best %" PRId64 " by %" PRId64 " x %" PRId64, model->indexer.topk,
                   model->indexer.heads, model->indexer.head_dim);
    text_print(&text, "; %s p%" PRId64 "%s%s", model->dtype->name, model->max_positions,
               model->alibi_bias_max != 0 ? " alibi" : "", model->alibi_scaled ? " scaled" : "");
    return text;
}

/* ---- The shipped configs ---- */

static const struct layer *first_full(const struct model *model) {
    for (int i = 0; i < model->layer_count; i++)
        if (model->layers[i].kind == LAYER_FULL || model->layers[i].kind == LAYER_LATENT)
            return &model->layers[i];
    return NULL;
}

static int count_sliding(const struct model *model, int64_t *window, double *softcap) {
    int count = 0;
    *window = 0;
    *softcap = 0;
    for (int i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layers[i];
        count += layer->kind == LAYER_SLIDING;
        *window = layer->window != 0 ? layer->window : *window;
        *softcap = layer->softcap;
    }
    return count;
}

/* Returns the row of expected.tsv for this model. */
static const char *row_of(const char *file, const struct model *model) {
    static char row[512];
    char full_row[64] = "-\t-\t-";
    const struct layer *first = &model->layers[0], *full = first_full(model);
    int64_t window;
    double softcap;
    int sliding = count_sliding(model, &window, &softcap);
    if (full != NULL)
        snprintf(full_row, sizeof full_row, "%" PRId64 "\t%" PRId64 "\t%" PRId64, full->kv_heads,
                 full->key_dim, full->value_dim);
    snprintf(row, sizeof row,
             "%s\t%d\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%s\t%" PRId64 "\t%" PRId64
             "\t%d\t%g\t%g\t%s\t%" PRId64,
             file, model->layer_count, first->query_heads, first->kv_heads, first->key_dim,
             first->value_dim, full_row, model->max_positions, window, sliding, softcap,
             model->alibi_bias_max, model->dtype->name,
             cache_bytes_per_token(model, &(struct cache_choice){.layout = -1}));
    return row;
}

static void test_row(const char *line) {
    char name[128];
    struct model model;
    struct text notes = {0};
    struct error error = {0};
    snprintf(name, sizeof name, "%.*s", (int)strcspn(line, "\t"), line);
    if (!ok(model_read(source_path("configs/models/%s", name), &model, &notes, &error),
            "%s is read", name)) {
        diag("%s", error.text);
        return;
    }
    ok_text(row_of(name, &model), line, "%s has the expected row", name);
    expect_notes(&notes, NULL);
    model_free(&model);
}

static void find_models(glob_t *found) {
    must(glob(source_path("configs/models/*.json"), 0, NULL, found) == 0, "no models");
}

TEST(shipped) {
    FREED char *text = read_bytes(source_path("configs/models/expected.tsv"), NULL);
    size_t rows = 0;
    OWN(globfree) glob_t found;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        if (line[0] != '#' && rows++ > 0) /* the first has headings */
            test_row(line);
    find_models(&found);
    ok(found.gl_pathc + 1 == rows, "each of %zu configs has its row", found.gl_pathc);
}

/* ---- Rules and refusals ---- */

/* NAME TEXT MODEL NOTES: the fourth cell is in the notes; without it, there must be no notes. */
static void expect_model(struct reading reading, char *const *cells) {
    OWN(text_free)
    struct text text = reading.done ? describe(&reading.model) : (struct text){NULL, 0};
    ok_text(reading.done ? text.data : reading.error.text, cells[2], "%s", cells[0]);
    expect_notes(&reading.notes, cells[3]);
    close_reading(&reading);
}

ROWS(model, 3) {
    expect_model(read_text(cells[1]), cells);
}

/* Checks a failure, after which nothing may be allocated.  `words` ends with NULL. */
static void expect_failure(struct reading reading, const char *const *words, const char *name) {
    bool good = !reading.done && reading.model.layers == NULL;
    for (; !reading.done && *words != NULL; words++)
        good = strstr(reading.error.text, *words) != NULL && good;
    ok_failed(reading.done, &reading.error, EXIT_USER, file(), "", "refused: %.*s",
              (int)strcspn(name, "\n"), name);
    if (!ok(good, "  in its words"))
        diag("%s", reading.error.text);
    close_reading(&reading);
}

ROWS(refused, 2) {
    expect_failure(read_text(cells[0]), (const char *const *)cells + 1, cells[0]);
}

TABLE(config);

/* t_specs tests files that are no JSON. */
TEST(no_file) {
    static const char *const words[] = {"cannot read: No such file", NULL};
    remove(file());
    expect_failure(read_with(model_read), words, words[0]);
}

/* ---- Every key of every shipped config, replaced by wrong values ---- */

static const char intruders[] =
    "[null, true, false, -1, 0, 1.5, 1e300, 4611686018427387904, \"full_attention\", [], {}, "
    "[[[null]]], {\"\": {}}, \"\", [1, 2, 3]]";

static int misbehaviours, mutants;

static void try_mutant(const json_t *document) {
    FREED char *text = json_dumps(document, 0);
    OWN(close_reading) struct reading reading = read_text(text);
    const struct error *error = &reading.error;
    mutants++;
    if (!reading.done && (error->exit_code != EXIT_USER || reading.model.layers != NULL ||
                          strstr(error->text, ": /") == NULL)) {
        misbehaviours++;
        diag("%s -> %s", text, error->text);
    }
}

static void mutate_member(json_t *document, json_t *part, const char *key) {
    json_t *original = json_incref(json_object_get(part, key)),
           *all = json_loads(intruders, 0, NULL);
    const size_t step = is_slowest_run() ? 9 : is_slow_run() ? 3 : 1;
    for (size_t i = (size_t)mutants % step; i < json_array_size(all); i += step) {
        json_object_set(part, key, json_array_get(all, i));
        try_mutant(document);
    }
    json_object_set_new(part, key, original);
    json_decref(all);
}

static void mutate_part(json_t *document, json_t *part) {
    json_auto_t *names = json_copy(part); /* the walk must not see its own changes */
    const char *key;
    json_t *value;
    json_object_foreach(names, key, value) {
        mutate_member(document, part, key);
        if (json_is_object(value))
            mutate_part(document, value);
    }
}

static void mutate_file(const char *path) {
    struct error error;
    json_auto_t *document = json_read_python(path, &error);
    must(document != NULL, error.text);
    mutate_part(document, document);
}

TEST(mutants) {
    OWN(globfree) glob_t found;
    find_models(&found);
    must(glob(source_path("tests/configs/*.json"), GLOB_APPEND, NULL, &found) == 0, "no configs");
    for (size_t i = 0; i < found.gl_pathc; i++)
        mutate_file(found.gl_pathv[i]);
    ok(mutants > 500 && misbehaviours == 0, "%d mutants are read or refused with a path", mutants);
}

/* ---- GGUF ---- */

static struct reading read_gguf_bytes(const struct text *bytes, size_t size) {
    write_bytes(file(), bytes->data, size);
    return read_with(gguf_read);
}

static struct reading read_gguf(const char *header) {
    OWN(text_free) struct text bytes;
    gguf_write(header, &bytes);
    return read_gguf_bytes(&bytes, bytes.length);
}

ROWS(gguf, 3) {
    expect_model(read_gguf(cells[1]), cells);
}

ROWS(refused_gguf, 2) {
    expect_failure(read_gguf(cells[0]), (const char *const *)cells + 1, cells[0]);
}

/* Whether the header is refused in these words; unless `always`, it may also be read. */
static bool is_refused(const struct text *bytes, size_t size, bool always, const char *words) {
    OWN(close_reading) struct reading reading = read_gguf_bytes(bytes, size);
    bool told = reading.error.exit_code == EXIT_USER && strstr(reading.error.text, words) != NULL;
    return reading.done ? !always : told;
}

/* Every truncated header is refused, with the byte where it ends. */
ROWS(cut_gguf, 1) {
    OWN(text_free) struct text bytes;
    int wrong = 0;
    gguf_write(cells[0], &bytes);
    for (size_t size = 0; size < bytes.length; size++)
        wrong += !is_refused(&bytes, size, true, ": byte ");
    ok(wrong == 0, "%zu cuts of a header are refused", bytes.length);
}

/* Each byte in turn becomes each of a few others. */
ROWS(bent_gguf, 1) {
    static const char others[] = {0, 1, 9, 0x7F, (char)0x80, (char)0xFF};
    OWN(text_free) struct text bytes;
    int wrong = 0;
    gguf_write(cells[0], &bytes);
    for (size_t i = 0; i < bytes.length * sizeof others; i++) {
        char *place = bytes.data + i / sizeof others, byte = *place;
        *place = others[i % sizeof others];
        wrong += !is_refused(&bytes, bytes.length, false, "accepted");
        *place = byte;
    }
    ok(wrong == 0, "bent headers are read or refused in words");
}
