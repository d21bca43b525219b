/* Kernels of flows, compared with the interpreter bit for bit.  Kernels that run programs: all of
   the linked packs with flows in the tests' spec files or in configs/flows.  Kernels of a flow's
   index program: at each instruction set, also for random flows, compared with running op by op.
   KVMILL_PROGRAMS names a library with more kernels of programs, for the flows in
   KVMILL_PROGRAMS_SPECS.  t_flow_programs COUNT prints specs of COUNT random flows instead.

   SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <glob.h>

#include "../gen/flow_program_family.h"
#include "../import/spec_file.h"
#include "../ops/flow_text.h"
#include "../runtime/portable/portable.h"
#include "common.h"
#include "flow_file.h"
#include "flow_scene.h"
#include "packs.h"

static int64_t nans, numbers; /* that were compared */

static void close_scene(struct flow_scene *scene) {
    nans += scene->nan;
    numbers += scene->finite;
    flow_scene_close(scene);
    free(scene);
}

static struct flow_scene *open_scene(const kvmill_flow *flow, int64_t pool, bool is_strange,
                                     struct dice *dice) {
    struct flow_scene *scene = calloc(1, sizeof *scene);
    must(scene != NULL, "out of memory");
    flow_scene_open(scene, flow, pool, is_strange, dice);
    return scene;
}

/* ---- A kernel that runs a program ---- */

static struct flow_kernels kernels_of(const struct kvmill_kernel *kernel) {
    struct flow_kernels kernels = {.select = {.origin = ""}};
    for (int part = 0; part < KVMILL_FLOW_PROGRAMS; part++)
        kernels.program[part].by_size.kernel = kernel;
    for (int i = 0; i < KVMILL_MOST_FLOW_ATOMS; i++)
        kernels.score[i].by_size.kernel = &kvmill_portable_score_pages;
    return kernels;
}

static bool is_cache_same(struct flow_scene *scene, const struct flow_way *ways,
                          struct dice *dice) {
    int64_t size = scene->problem.block_size;
    bool same = true;
    for (int i = 0; same && i < few_cases(6); i++) {
        int64_t rows = scene->problem.incremental ? dice_range(dice, 1, size) : size;
        same =
            flow_scene_sums_up_same(scene, ways, dice_range(dice, 0, scene->pool - 1), rows, dice);
    }
    return same;
}

static bool is_index_same(struct flow_scene *scene, const struct flow_way *ways,
                          struct dice *dice) {
    static const int64_t counts[] = {0, 1, 17, 100};
    bool same = true;
    for (int i = 0; same && i < 4; i++)
        same = flow_scene_scores_same(scene, ways, counts[i], dice);
    return same;
}

static void test_kernel(const struct kvmill_kernel *kernel, const struct spec *spec,
                        enum kvmill_flow_part part) {
    struct dice dice = dice_for_kernel(kernel);
    const struct flow_kernels kernels = kernels_of(kernel);
    bool same = true, is_cache = part == KVMILL_CACHE_PROGRAM;
    fence_explain_traps(kernel->symbol);
    for (int i = 0; same && i < (is_slow_run() ? few_cases(2) : 4); i++) {
        bool is_strange = i == 0 && (!is_slowest_run() || dice_once_in(&dice, 2));
        struct flow_scene *scene =
            open_scene(flow_of_spec(spec), FLOW_MOST_POOL, is_strange, &dice);
        const struct flow_way ways[] = {{&scene->schedule[part], &kernels},
                                        {&scene->schedule[part], NULL}};
        same = (is_cache ? is_cache_same : is_index_same)(scene, ways, &dice);
        close_scene(scene);
    }
    saw(is_cache ? "cache programs" : "index programs", true);
    kernel_ran(kernel);
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

/* The kernels that have been tried; several flows may have the same program. */
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
    OWN(kernel_list_free) struct kernel_list list = {0};
    struct isa_list isas;
    struct isa_words words;
    struct error error;
    kvmill_error reason;
    if (kvmill_flow_verify(flow_of_spec(spec), &problem, &reason) != KVMILL_OK)
        bail_out("%s: %s", spec->where, reason.message);
    bool done = isa_list_parse(isa_join(",", &words), "scalar", &isas, &error);
    for (int i = 0; done && i < isas.count; i++)
        done = flow_program_kernels(&problem, isas.items[i], &list, &error);
    must(done, error.text);
    for (size_t i = 0; i < list.count; i++)
        try_kernel(&list.items[i], spec);
}

/* ---- All kernels of an index program ---- */

static void count_scores(const struct flow_scene *scene, const struct flow_kernels *kernels) {
    for (int i = 0; i < scene->schedule[KVMILL_INDEX_PROGRAM].atoms.count; i++)
        saw("a generated kernel's scores",
            strstr(kernels->score[i].by_size.kernel->symbol, "portable") == NULL);
}

/* Whether the kernels that a plan takes give the same as op by op. */
static bool is_same_with(struct flow_scene *scene, const struct kernel_search *search,
                         struct dice *dice) {
    const struct flow_schedule *fused = &scene->schedule[KVMILL_INDEX_PROGRAM];
    struct flow_schedule steps;
    struct flow_kernels kernels;
    const struct flow_way ways[] = {{fused, &kernels}, {&steps, NULL}};
    kvmill_flow_schedule_steps(&scene->problem, KVMILL_INDEX_PROGRAM, &steps);
    kvmill_flow_select_kernels(search, &scene->problem, fused, &kernels);
    count_scores(scene, &kernels);
    return flow_scene_scores_same(scene, ways, scene->pool, dice) &&
           flow_scene_scores_same(scene, ways, dice_range(dice, 0, scene->pool), dice) &&
           (kvmill_flow_saves(&scene->problem) || flow_scene_lists_same(scene, ways));
}

static void test_index(const kvmill_flow *flow, const char *name, bool is_strange) {
    const struct kernel_search none = {.portable_reason = "asked for"};
    const char *isa;
    struct dice dice = dice_for(name);
    struct flow_scene *scene = open_scene(flow, 40, is_strange, &dice);
    bool right = flow->index_count == 0 || is_same_with(scene, &none, &dice);
    for (size_t i = 0; flow->index_count > 0 && (isa = kvmill_isa_name(i)) != NULL && right; i++) {
        const struct kernel_search search = {
            .packs = packs, .pack_count = PACKS, .isa_cap = (int)i};
        if (isa_is_allowed(isa))
            right = is_same_with(scene, &search, &dice);
        if (!right)
            diag("with %s", isa);
    }
    ok(right, "index of %s%s", name, is_strange ? ", with numbers that are none" : "");
    close_scene(scene);
}

static void try_file(const char *path) {
    OWN(spec_list_free) struct spec_list specs = {0};
    struct error error = {0};
    must(specs_read(path, &specs, &error), error.text);
    for (size_t i = 0; i < specs.count; i++)
        if (spec_is(&specs.items[i], OP_FLOW)) {
            try_flow(&specs.items[i]);
            for (int strange = 0; library == NULL && strange < few_cases(2); strange++)
                test_index(flow_of_spec(&specs.items[i]), specs.items[i].where, strange);
        }
}

static void try_directory(const char *name) {
    OWN(globfree) glob_t found;
    if (glob(source_path("configs/%s/*.json", name), 0, NULL, &found) != 0)
        bail_out("nothing in configs/%s", name);
    for (size_t i = 0; i < found.gl_pathc; i++)
        try_file(found.gl_pathv[i]);
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
    must(library != NULL, dlerror());
    try_file(getenv("KVMILL_PROGRAMS_SPECS"));
}

/* ---- Random flows ---- */

/* Dots or bounds, then folds, possibly with another op in between.  The query is whole, some of its
   channels, or its mean.  Alternatives are in braces. */
#define DOT(Q) "<x = GeMM " Q " c>, "
#define BOUND(Q)                                                                                   \
    "<above = Kron " Q " c dim=1>, <below = Kron " Q " d dim=1>, <most = Maximum above below>, "   \
    "<x = Sum most dim=2>, "
#define SOME                                                                                       \
    "<mask = MaskSlice q dim=2 start=3 end=\"head_dim\" alpha=1 beta=0>, <some = Multiply q "      \
    "mask>, "
#define MEAN(Q) "<mean = Mean " Q " dim=1>, "
#define OF_QUERIES(OF)                                                                             \
    "{" OF("q") "|" OF("q") "|" SOME OF("some") "|" MEAN("q") OF("mean") "|" SOME MEAN("some")     \
        OF("mean") "}"
#define FOLD     "{Max|Mean|Sum|Min}"
#define FOLDS(X) "<f = " FOLD " " X " dim={1>, <g = " FOLD " f dim=2|2>, <g = " FOLD " f dim=1}>"
#define INDEX(OF)                                                                                  \
    OF_QUERIES(OF) "{" FOLDS("x") "|" FOLDS("x") "|<y = Abs x>, " FOLDS("y") "}, <topK g>"

static char *random_flow(struct dice *dice) {
    static const char *const dtypes[] = {"float32", "float16", "bfloat16"};
    const char *dtype = dtypes[dice_range(dice, 0, 2)];
    int kv_heads = (int)dice_range(dice, 1, 2), blocks = (int)dice_range(dice, 1, 4);
    int heads = kv_heads * (int)dice_range(dice, 1, dice_once_in(dice, 5) ? 16 : 5);
    bool bound = dice_once_in(dice, 2);
    char attention[200], index[1024];
    OWN(text_free) struct text given = {0};
    setting_choose(bound ? INDEX(BOUND) : INDEX(DOT), setting_roll, dice, index, sizeof index);
    snprintf(attention, sizeof attention,
             "\"num_heads\": %d, \"num_kv_heads\": %d, \"head_dim\": %d, \"page_size\": %d, "
             "\"T1\": \"%s\"",
             heads, kv_heads, (int)dice_range(dice, 4, dice_once_in(dice, 3) ? 300 : 40),
             4 * blocks, dtypes[dice_range(dice, 0, 2)]);
    text_print(&given, "\"fields\": [");
    for (int f = 0; f <= bound; f++)
        text_print(&given, "%s{\"name\": \"%c\", \"shape\": [%d, \"head_dim\"], \"dtype\": \"%s\"}",
                   f ? ", " : "", 'c' + f, blocks, dtype);
    text_print(&given, "], \"cache\": [<c = MaxInterleave k dim=1 group=4>%s], \"index\": [%s]",
               bound ? ", <d = MinInterleave k dim=1 group=4>" : "", index);
    return flow_text("bare", given.data, attention);
}

static void test_random(void) {
    for (int i = 0; i < (is_slow_run() ? few_cases(5) : 100); i++) {
        OWN(spec_list_free) struct spec_list specs;
        char name[64];
        snprintf(name, sizeof name, "random flow %d", i);
        struct dice dice = dice_for(name);
        FREED char *text = random_flow(&dice);
        test_index(flow_open(text, &specs), name, i % 3 == 0);
    }
}

TEST(programs) {
    const char *path = getenv("KVMILL_PROGRAMS");
    if (path != NULL) {
        try_library(path);
    } else {
        try_directory("specs");
        try_directory("flows");
        check_all_tried(&kvmill_pack_kvmill_default);
        check_all_tried(&kvmill_pack_kvmill_test);
        test_random();
        expect_seen("a generated kernel's scores");
    }
    expect_seen("cache programs; index programs");
    ok(nans > 0, "%" PRId64 " times NaN", nans);
    ok(numbers > nans, "%" PRId64 " other numbers", numbers);
}

int main(int count, char **words) {
    struct dice dice = dice_for("flows");
    return count == 2 ? print_random_flows(&dice, atoi(words[1])) : run_tests(words + 1);
}
