/* Kernels that run programs of flows against the interpreter, bit for bit: every one of the linked
   packs whose flow is in a spec file of the tests or in configs/flows, or those of the library that
   KVMILL_PROGRAMS names, of the flows in KVMILL_PROGRAMS_SPECS.  t_flow_programs COUNT prints specs
   of as many random flows instead.

   SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../gen/flow_program_family.h"
#include "../ops/flow_text.h"
#include "../runtime/core/numbers.h"
#include "../runtime/flow/flow.h"
#include "../runtime/portable/portable.h"
#include "common.h"
#include "flow_file.h"
#include "flow_index.h"
#include "flow_texts.h"
#include "packs.h"
#include "walk.h"

enum { POOL = 104 };

static uint64_t seed;

static struct { int64_t cache, index, partial, saved, nan, finite; } seen;

static void *take(size_t count, size_t size) {
    void *memory = calloc(count + 1, size);
    if (memory == NULL)
        bail_out("out of memory");
    return memory;
}

/* ---- Numbers ---- */

/* Scenes without the others, which sums do not survive, tell more of sums. */
static bool is_strange;

/* Many that are equal; some that are strange. */
static float random_number(struct dice *dice) {
    static const float strange[] = {0.0f,  -0.0f,  1e-41f, -3e38f, 65520.0f, 1e-30f,
                                    1e30f, -90.0f, 90.0f,  -1e-7f, 3.4e38f,  2049.0f};
    if (is_strange && dice_once_in(dice, 40))
        return strange[dice_range(dice, 0, sizeof strange / sizeof *strange - 1)];
    if (is_strange && dice_once_in(dice, 300))
        return dice_once_in(dice, 2) ? __builtin_nanf("") : -__builtin_inff();
    return dice_once_in(dice, 3) ? (float)dice_range(dice, -3, 3)
                                 : (float)dice_range(dice, -40000, 40000) / 8191;
}

static void fill_floats(struct dice *dice, int element, const struct fence *fence) {
    int64_t bytes = kvmill_activation_bytes(element);
    for (int64_t i = 0; i < (int64_t)fence->size / bytes; i++)
        kvmill_store_float(element, fence->data, i, random_number(dice));
}

/* Codes are any bytes, or small; scales of blocks are floats. */
static void fill_codes(struct dice *dice, const struct kvmill_format *format,
                       const struct fence *fence) {
    size_t block = format->element == KVMILL_Q8_0 ? 34 : format->element == KVMILL_Q4_0 ? 18 : 0;
    for (size_t i = 0; i < fence->size; i++)
        fence->data[i] = (unsigned char)(dice_once_in(dice, 2) ? (uint64_t)dice_range(dice, 0, 2)
                                                               : dice_bits(dice));
    for (size_t at = 0; block != 0 && at < fence->size; at += block)
        kvmill_store_float(KVMILL_F16, fence->data + at, 0, random_number(dice));
}

static bool are_floats_same(int element, const unsigned char *a, const unsigned char *b,
                            int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        float x = kvmill_load_float(element, a, i), y = kvmill_load_float(element, b, i);
        seen.nan += x != x;
        seen.finite += kvmill_is_finite(x) && x != 0;
        if (memcmp(&x, &y, sizeof x) == 0 || (x != x && y != y))
            continue;
        diag("element %lld: %a, interpreted %a", (long long)i, x, y);
        return false;
    }
    return true;
}

/* ---- A cache ---- */

enum { BY_KERNEL, INTERPRETED, WAYS };

struct scene {
    const kvmill_flow *flow;
    struct kvmill_flow_problem problem;
    struct flow_schedule schedule[KVMILL_FLOW_PROGRAMS];
    struct fence data[2], scale[2], query, workspace[WAYS];
    struct fence field[WAYS][KVMILL_MOST_FLOW_FIELDS];
    struct flow_cache cache[WAYS];
    int misalignment;
};

static void open_side(struct scene *scene, int v, struct dice *dice) {
    const struct kvmill_cache_geometry *geometry = &scene->problem.geometry;
    const struct kvmill_format *format = v ? &geometry->value : &geometry->key;
    struct kvmill_cache_rows *rows = v ? &scene->cache[0].value : &scene->cache[0].key;
    int64_t slots = POOL * geometry->page_size, heads = geometry->kv_heads;
    int64_t bytes = kvmill_format_row_bytes(format), scales = kvmill_format_scale_bytes(format);
    bool together = dice_once_in(dice, 2);
    fence_open(&scene->data[v], (size_t)(slots * heads * bytes), FENCE_FLUSH, FENCE_ABOVE, dice);
    fence_open(&scene->scale[v], (size_t)(slots * heads * scales), FENCE_FLUSH, FENCE_ABOVE, dice);
    if (format->element <= KVMILL_BF16)
        fill_floats(dice, format->element, &scene->data[v]);
    else
        fill_codes(dice, format, &scene->data[v]);
    if (scales > 0)
        fill_floats(dice, format->scale, &scene->scale[v]);
    *rows = (struct kvmill_cache_rows){scene->data[v].data,
                                       scales ? scene->scale[v].data : NULL,
                                       together ? heads * bytes : bytes,
                                       together ? bytes : slots * bytes,
                                       together ? heads * scales : scales,
                                       together ? scales : slots * scales};
}

static void open_fields(struct scene *scene, struct dice *dice) {
    for (int i = 0; i < scene->problem.field_count; i++) {
        const struct kvmill_flow_field_data *field = &scene->problem.fields[i];
        size_t bytes = (size_t)(POOL * scene->problem.geometry.kv_heads * field->bytes);
        for (int way = 0; way < WAYS; way++) {
            fence_open(&scene->field[way][i], bytes, FENCE_FLUSH, FENCE_ABOVE, dice);
            scene->cache[way].field[i] = scene->field[way][i].data;
        }
        fill_floats(dice, field->element, &scene->field[0][i]);
        memcpy(scene->field[1][i].data, scene->field[0][i].data, bytes);
    }
}

static void open_workspaces(struct scene *scene, enum kvmill_flow_part part, int64_t pages,
                            struct dice *dice) {
    size_t bytes = (size_t)kvmill_flow_workspace(&scene->schedule[part], pages);
    for (int way = 0; way < WAYS; way++) {
        fence_open(&scene->workspace[way], bytes, 4 * (int)dice_range(dice, 0, 15), FENCE_ABOVE,
                   dice);
        memset(scene->workspace[way].data, 0xff, bytes);
    }
}

static bool close_workspaces(struct scene *scene) {
    int64_t where;
    bool intact = fence_is_intact(&scene->workspace[BY_KERNEL], &where);
    for (int way = 0; way < WAYS; way++)
        fence_close(&scene->workspace[way]);
    return intact;
}

static void scene_open(struct scene *scene, const struct spec *spec, struct dice *dice) {
    kvmill_error error;
    scene->flow = flow_of_spec(spec);
    if (kvmill_flow_verify(scene->flow, &scene->problem, &error) != KVMILL_OK)
        bail_out("%s", error.message);
    for (int part = 0; part < KVMILL_FLOW_PROGRAMS; part++)
        kvmill_flow_schedule(&scene->problem, (enum kvmill_flow_part)part, &scene->schedule[part]);
    const struct kvmill_cache_geometry *geometry = &scene->problem.geometry;
    open_side(scene, 0, dice);
    open_side(scene, 1, dice);
    open_fields(scene, dice);
    for (int way = 0; way < WAYS; way++)
        scene->cache[way].page_rows = scene->problem.geometry.page_size;
    scene->cache[INTERPRETED].key = scene->cache[BY_KERNEL].key;
    scene->cache[INTERPRETED].value = scene->cache[BY_KERNEL].value;
    fence_open(&scene->query,
               (size_t)(scene->problem.group * geometry->key.dim *
                        kvmill_activation_bytes(geometry->activation)),
               FENCE_FLUSH, FENCE_ABOVE, dice);
    fill_floats(dice, geometry->activation, &scene->query);
}

static void scene_close(struct scene *scene) {
    for (int v = 0; v < 2; v++) {
        fence_close(&scene->data[v]);
        fence_close(&scene->scale[v]);
    }
    for (int way = 0; way < WAYS; way++)
        for (int i = 0; i < scene->problem.field_count; i++)
            fence_close(&scene->field[way][i]);
    fence_close(&scene->query);
}

static bool are_fields_same(const struct scene *scene) {
    for (int i = 0; i < scene->problem.field_count; i++) {
        const struct kvmill_flow_field_data *field = &scene->problem.fields[i];
        int64_t count = POOL * scene->problem.geometry.kv_heads * field->rows * field->columns;
        int64_t where;
        if (!are_floats_same(field->element, scene->field[BY_KERNEL][i].data,
                             scene->field[INTERPRETED][i].data, count) ||
            !fence_is_intact(&scene->field[BY_KERNEL][i], &where)) {
            diag("field %d", i);
            return false;
        }
    }
    return true;
}

/* ---- Both ways ---- */

static struct flow_kernels kernels_of(const struct kvmill_kernel *kernel) {
    struct flow_kernels kernels = {.select = {.origin = ""}};
    for (int part = 0; part < KVMILL_FLOW_PROGRAMS; part++)
        kernels.program[part].by_size.kernel = kernel;
    for (int i = 0; i < KVMILL_MOST_FLOW_ATOMS; i++)
        kernels.score[i].by_size.kernel = &kvmill_portable_score_pages;
    return kernels;
}

/* Rows that a growing page does not have yet are NaN, of which nothing may come. */
static void hide_rows(const struct scene *scene, int64_t page, int64_t rows) {
    const struct kvmill_cache_geometry *geometry = &scene->problem.geometry;
    for (int64_t n = 2 * rows; n < 2 * geometry->page_size; n++)
        for (int64_t head = 0; head < geometry->kv_heads; head++) {
            const struct kvmill_cache_rows *side =
                n % 2 ? &scene->cache[0].value : &scene->cache[0].key;
            const struct kvmill_format *format = n % 2 ? &geometry->value : &geometry->key;
            int64_t slot = page * geometry->page_size + n / 2;
            memset(side->data + slot * side->row_stride + head * side->head_stride, 0xff,
                   (size_t)kvmill_format_row_bytes(format));
        }
}

static bool is_summary_same(struct scene *scene, const struct kvmill_kernel *kernel,
                            struct dice *dice) {
    const struct flow_kernels kernels = kernels_of(kernel);
    int64_t size = scene->problem.geometry.page_size, page = dice_range(dice, 0, POOL - 1);
    int64_t rows = scene->problem.incremental ? dice_range(dice, 1, size) : size;
    const int64_t slot[] = {-1, page * size + rows - 1};
    const struct flow_tokens tokens = {.slot = slot, .tokens = 2};
    const struct flow_span span = {0, 2};
    hide_rows(scene, page, rows);
    seen.partial += rows < size;
    open_workspaces(scene, KVMILL_CACHE_PROGRAM, 0, dice);
    for (int way = 0; way < WAYS; way++)
        kvmill_flow_summarise_span(&scene->problem, &scene->schedule[KVMILL_CACHE_PROGRAM],
                                   way == BY_KERNEL ? &kernels : NULL, &scene->cache[way], &tokens,
                                   &span, (float *)(void *)scene->workspace[way].data);
    return close_workspaces(scene) && are_fields_same(scene);
}

static bool are_scores_same(struct scene *scene, const struct kvmill_kernel *kernel, int64_t pages,
                            struct dice *dice) {
    const struct kvmill_cache_geometry *geometry = &scene->problem.geometry;
    const struct flow_kernels kernels = kernels_of(kernel);
    int32_t ids[POOL];
    int64_t order[POOL];
    const float *scores[WAYS];
    dice_order(dice, order, POOL);
    for (int i = 0; i < POOL; i++)
        ids[i] = (int32_t)order[i];
    open_workspaces(scene, KVMILL_INDEX_PROGRAM, pages, dice);
    for (int way = 0; way < WAYS; way++) {
        const struct flow_scoring scoring = {
            .problem = &scene->problem,
            .schedule = &scene->schedule[KVMILL_INDEX_PROGRAM],
            .kernels = way == BY_KERNEL ? &kernels : NULL,
            .cache = &scene->cache[way],
            .query = scene->query.data,
            .query_stride = geometry->key.dim * kvmill_activation_bytes(geometry->activation),
            .ids = ids + POOL - pages,
            .pages = pages,
            .kv_head = pages % geometry->kv_heads};
        scores[way] = score_all(&scoring, (float *)(void *)scene->workspace[way].data);
    }
    bool same = are_floats_same(KVMILL_F32, (const unsigned char *)scores[BY_KERNEL],
                                (const unsigned char *)scores[INTERPRETED], pages);
    return close_workspaces(scene) && same && are_fields_same(scene);
}

static bool has_saves(const struct scene *scene) {
    bool has = false;
    for (int i = 0; i < scene->problem.field_count; i++)
        has = has || scene->problem.fields[i].saved;
    return has;
}

static bool is_index_same(struct scene *scene, const struct kvmill_kernel *kernel,
                          struct dice *dice) {
    static const int64_t counts[] = {0, 1, 17, 100};
    bool same = true;
    for (int i = 0; same && i < 4; i++)
        same = are_scores_same(scene, kernel, counts[i], dice);
    seen.saved += has_saves(scene);
    return same;
}

static bool is_cache_same(struct scene *scene, const struct kvmill_kernel *kernel,
                          struct dice *dice) {
    bool same = true;
    for (int i = 0; same && i < few_cases(6); i++)
        same = is_summary_same(scene, kernel, dice);
    return same;
}

static void test_kernel(const struct kvmill_kernel *kernel, const struct spec *spec,
                        enum kvmill_flow_part part) {
    struct dice dice = dice_for_kernel(seed, kernel);
    bool same = true;
    fence_explain_traps(kernel->symbol);
    for (int i = 0; same && i < (is_slow_run() ? few_cases(2) : 4); i++) {
        struct scene *scene = take(1, sizeof *scene);
        is_strange = i == 0 && (!is_slowest_run() || dice_once_in(&dice, 2));
        scene_open(scene, spec, &dice);
        same = part == KVMILL_CACHE_PROGRAM ? is_cache_same(scene, kernel, &dice)
                                            : is_index_same(scene, kernel, &dice);
        scene_close(scene);
        free(scene);
    }
    *(part == KVMILL_CACHE_PROGRAM ? &seen.cache : &seen.index) += 1;
    if (!ok(same, "%s", kernel->symbol)) {
        const struct kvmill_flow_program_shape *shape = kernel->shape;
        diag("%s: %s", spec->where, shape->program);
    }
}

/* ---- Kernels ---- */

static void *library;

static const struct kvmill_kernel *find_in(const kvmill_pack *pack, const char *symbol) {
    for (uint32_t i = 0; i < pack->count; i++)
        if (strcmp(pack->kernels[i]->symbol, symbol) == 0)
            return pack->kernels[i];
    return NULL;
}

static const struct kvmill_kernel *find(const char *symbol) {
    if (library != NULL)
        return dlsym(library, symbol);
    const struct kvmill_kernel *kernel = find_in(&kvmill_pack_kvmill_test, symbol);
    return kernel != NULL ? kernel : find_in(&kvmill_pack_kvmill_default, symbol);
}

/* Those that have been tried; a program may be that of many flows. */
static const struct kvmill_kernel *tried[4096];
static int tried_count;

static bool was_tried(const struct kvmill_kernel *kernel) {
    for (int i = 0; i < tried_count; i++)
        if (tried[i] == kernel)
            return true;
    return false;
}

static void try_kernel(const struct kernel *made, const struct spec *spec) {
    char symbol[SYMBOL_SIZE];
    kernel_symbol(made, symbol);
    const struct kvmill_kernel *kernel = find(symbol);
    bool is_cache = strcmp(made->variant, "cache") == 0;
    if (kernel == NULL || was_tried(kernel) || !isa_is_allowed(kernel->isa))
        return;
    tried[tried_count++] = kernel;
    test_kernel(kernel, spec, is_cache ? KVMILL_CACHE_PROGRAM : KVMILL_INDEX_PROGRAM);
}

static void try_flow(const struct spec *spec) {
    struct kvmill_flow_problem problem;
    struct kernel_list list = {0};
    struct isa_list isas;
    struct isa_words words;
    struct error error;
    kvmill_error reason;
    if (kvmill_flow_verify(flow_of_spec(spec), &problem, &reason) != KVMILL_OK)
        bail_out("%s: %s", spec->where, reason.message);
    bool done = isa_list_parse(isa_join(",", &words), &isas, &error);
    for (int i = 0; done && i < isas.count; i++)
        done = flow_program_kernels(&problem, isas.items[i], &list, &error);
    if (!done)
        bail_out("%s", error.text);
    for (size_t i = 0; i < list.count; i++)
        try_kernel(&list.items[i], spec);
    kernel_list_free(&list);
}

static void try_file(const char *path) {
    struct spec_list specs = {0};
    struct error error = {0};
    if (!specs_read(path, &specs, &error))
        bail_out("%s", error.text);
    for (size_t i = 0; i < specs.count; i++)
        if (spec_is(&specs.items[i], OP_FLOW))
            try_flow(&specs.items[i]);
    spec_list_free(&specs);
}

static void try_directory(const char *name) {
    DIR *directory = opendir(source_path("configs/%s", name));
    if (directory == NULL)
        bail_out("cannot read configs/%s", name);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (strstr(entry->d_name, ".json") != NULL)
            try_file(source_path("configs/%s/%s", name, entry->d_name));
    closedir(directory);
}

static void check_all_tried(const kvmill_pack *pack) {
    for (uint32_t i = 0; i < pack->count; i++) {
        const struct kvmill_kernel *kernel = pack->kernels[i];
        if (kernel->family == KVMILL_FLOW_PROGRAM && isa_is_allowed(kernel->isa))
            ok(was_tried(kernel), "its flow is known: %s", kernel->symbol);
    }
}

static void try_library(const char *path) {
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        bail_out("%s", dlerror());
    try_file(getenv("KVMILL_PROGRAMS_SPECS"));
}

int main(int count, char **words) {
    const char *path = getenv("KVMILL_PROGRAMS");
    if (count == 2) {
        struct dice dice = dice_for(strtoull(getenv("KVMILL_SEED"), NULL, 10), "flows");
        return print_random_flows(&dice, atoi(words[1]));
    }
    seed = dice_seed();
    if (path != NULL) {
        try_library(path);
    } else {
        try_directory("specs");
        try_directory("flows");
        check_all_tried(&kvmill_pack_kvmill_default);
        check_all_tried(&kvmill_pack_kvmill_test);
    }
    ok(seen.cache > 0, "%lld cache programs", (long long)seen.cache);
    ok(seen.index > 0, "%lld index programs", (long long)seen.index);
    ok(seen.nan > 0, "%lld times NaN", (long long)seen.nan);
    ok(seen.finite > seen.nan, "%lld other numbers", (long long)seen.finite);
    diag("%lld pages with rows missing, %lld states", (long long)seen.partial,
         (long long)seen.saved);
    return done_testing();
}
