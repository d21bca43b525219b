/* Calibrations of processors: their texts, and that plans use them.

   SPDX-License-Identifier: Apache-2.0 */
#include "../runtime/attend/attend_plan.h"
#include "../runtime/core/calibration.h"
#include "../runtime/core/cpu.h"
#include "../runtime/ops/gather_plan.h"
#include "../runtime/ops/tensor_scatter_plan.h"
#include "common.h"

static const struct calibration one = {4, 2, 1, 1 << 20, 4 << 20, 75000},
                                other = {1, 1, 4, 64 << 20, 32 << 20, 2400000};

static bool are_equal(const struct calibration *a, const struct calibration *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

/* ---- Texts ---- */

static bool parses(const char *text, bool any, struct calibration *read, char *why) {
    memset(read, 0, sizeof *read);
    return kvmill_calibration_parse(text, any, read, why);
}

TEST(print_and_parse) {
    char text[CALIBRATION_SIZE], why[CALIBRATION_WHY];
    struct calibration read;
    kvmill_calibration_print(&one, text);
    ok(parses(text, false, &read, why) && are_equal(&one, &read), "what is printed is read");
    kvmill_calibration_print(&other, text);
    ok(parses(text, true, &read, why) && are_equal(&other, &read), "  and so are other numbers");
}

/* A file without the numbers that are measured inside an engine, as earlier versions wrote it. */
TEST(parse_kernels_alone) {
    char text[CALIBRATION_SIZE], why[CALIBRATION_WHY];
    struct calibration read = other, wanted = one;
    kvmill_calibration_print(&one, text);
    strcpy(strstr(text, "asleep"), "end\n");
    wanted.asleep = other.asleep;
    wanted.ggml_split = other.ggml_split;
    ok(kvmill_calibration_parse(text, false, &read, why) && are_equal(&wanted, &read),
       "numbers that a file does not have stay as they are");
}

TEST(ask_by_name) {
    struct calibration before = *kvmill_calibration();
    kvmill_calibration_set(&other);
    ok(kvmill_calibrated("around") == other.around &&
           kvmill_calibrated("ggml_split") == other.ggml_split,
       "kvmill_calibrated");
    ok(kvmill_calibrated("aroun") == 0 && kvmill_calibrated("") == 0 &&
           kvmill_calibrated(NULL) == 0,
       "  0 for no number");
    kvmill_calibration_set(&before);
}

/* A part of a text, or a text with another letter, is not a calibration. */
TEST(change_texts) {
    char text[CALIBRATION_SIZE], why[CALIBRATION_WHY];
    struct calibration read;
    bool cut = true, changed = true;
    size_t length = kvmill_calibration_print(&one, text);
    for (size_t i = 0; i < length; i++) {
        char bent[CALIBRATION_SIZE];
        snprintf(bent, sizeof bent, "%.*s", (int)i, text);
        cut &= !parses(bent, false, &read, why);
        snprintf(bent, sizeof bent, "%s", text);
        bent[i] = text[i] == '#' ? '$' : '#';
        changed &= !parses(bent, false, &read, why);
    }
    ok(cut, "a text that ends early is refused, wherever that is");
    ok(changed, "a text with another letter is refused, wherever that is");
}

/* NAME FROM TO ANY WORDS: a changed text, of any processor or of this one. */
ROWS(refused, 5) {
    char text[CALIBRATION_SIZE], bent[2 * CALIBRATION_SIZE], why[CALIBRATION_WHY] = "";
    char processor[PROCESSOR_SIZE];
    struct calibration read;
    kvmill_processor_words(processor);
    const char *from = strcmp(cells[1], "here") == 0 ? processor : cells[1];
    kvmill_calibration_print(&one, text);
    const char *at = strstr(text, from);
    if (at == NULL)
        bail_out("no %s in a calibration", from);
    snprintf(bent, sizeof bent, "%.*s%s%s", (int)(at - text), text, cells[2], at + strlen(from));
    bool refused = !parses(bent, strcmp(cells[3], "any") == 0, &read, why);
    if (!ok(refused && strstr(why, cells[4]) != NULL, "refused: %s", cells[0]))
        diag("%s; wanted: %s", why, cells[4]);
    if (from == processor)
        ok(strstr(why, processor) != NULL, "  and this one is named");
}

TABLE(calibration);

/* ---- Plans ---- */

static int64_t fetch_level(void) {
    const struct kvmill_cache_geometry geometry = {.heads = 1};
    return kvmill_attend_plan_of(&geometry, 1).into_l2 ? 2 : 1;
}

static kvmill_plan *plan_scatter(void) {
    static int64_t cache[] = {1, 1, 8, 16}, update[] = {1, 1, 1, 16};
    const DLTensor past = dense_tensor(f32, 4, cache, NULL),
                   rows = dense_tensor(f32, 4, update, NULL);
    kvmill_tensor_scatter op;
    kvmill_plan *plan = NULL;
    kvmill_tensor_scatter_init(&op, sizeof op);
    op.past_cache = &past;
    op.update = &rows;
    must(kvmill_plan_tensor_scatter(&op, NULL, &plan, NULL) == KVMILL_OK,
         "no plan of TensorScatter");
    return plan;
}

static kvmill_plan *plan_gather(void) {
    kvmill_plan *plan = NULL;
    kvmill_error error;
    if (plan_rows(f32, 4, 32, 2, &plan, &error) != KVMILL_OK)
        bail_out("no plan of a gather: %s", error.message);
    return plan;
}

static bool are_taken(const struct calibration *calibration, const kvmill_plan *scatter,
                      const kvmill_plan *gather) {
    const struct tensor_scatter_plan *rows = (const void *)scatter;
    const struct gather_plan *windows = (const void *)gather;
    return rows->copy_streams == calibration->copy_streams && rows->around == calibration->around &&
           windows->dense.streams == calibration->gather_streams &&
           windows->dense.around == calibration->around;
}

TEST(take) {
    const struct calibration presets = kvmill_calibration_presets();
    ok(are_equal(kvmill_calibration(), &presets), "no file: the presets of this maker");
    kvmill_calibration_set(&one);
    OWN_PLAN kvmill_plan *scatter = plan_scatter(), *gather = plan_gather();
    ok(are_taken(&one, scatter, gather), "plans of copies take a calibration");
    ok(fetch_level() == one.fetch_level, "and plans of attention");
    kvmill_calibration_set(&other);
    OWN_PLAN kvmill_plan *scatters = plan_scatter(), *gathers = plan_gather();
    ok(are_taken(&other, scatters, gathers) && fetch_level() == other.fetch_level,
       "later ones take a later one");
    ok(are_taken(&one, scatter, gather), "a plan keeps its own");
}

void before_tests(void) {
    setenv("KVMILL_CALIBRATION", "", 1);
}
