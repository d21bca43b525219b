/* What differs by processor: texts of calibrations, and that plans take what they say.

   SPDX-License-Identifier: Apache-2.0 */
#include "../runtime/attend/attend_plan.h"
#include "../runtime/core/calibration.h"
#include "../runtime/core/cpu.h"
#include "../runtime/ops/gather.h"
#include "../runtime/ops/tensor_scatter.h"
#include "common.h"

static const struct calibration one = {4, 8, 1, 1 << 20}, other = {1, 2, 4, 64 << 20};

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

/* No part of a text and no text with another letter is one. */
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

static void refuse(const char *name, const char *from, const char *to, bool any,
                   const char *words) {
    char text[CALIBRATION_SIZE], bent[2 * CALIBRATION_SIZE], why[CALIBRATION_WHY] = "";
    struct calibration read;
    kvmill_calibration_print(&one, text);
    const char *at = strstr(text, from);
    if (at == NULL)
        bail_out("no %s in a calibration", from);
    snprintf(bent, sizeof bent, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    bool refused = !parses(bent, any, &read, why);
    if (!ok(refused && strstr(why, words) != NULL, "refused: %s", name))
        diag("%s; wanted: %s", why, words);
}

TEST(refuse_texts) {
    char here[PROCESSOR_SIZE], words[2 * PROCESSOR_SIZE];
    kvmill_processor_words(here);
    snprintf(words, sizeof words, "line 2 is \"processor Another 1-2\"; accepted: processor %s",
             here);
    refuse("another processor", here, "Another 1-2", false, words);
    refuse("another version", "kvmill-calibration 1", "kvmill-calibration 2", true,
           "accepted: kvmill-calibration 1");
    refuse("a number between", "copy_streams 4", "copy_streams 3", true,
           "line 3 is \"copy_streams 3\"; accepted: copy_streams 1, 4");
    refuse("a number written otherwise", "read_streams 8", "read_streams 08", true,
           "accepted: read_streams 1, 2, 4, 8");
    refuse("a negative number", "gather_streams 1", "gather_streams -1", true,
           "accepted: gather_streams 1, 4");
    refuse("no power of two", "around 1048576", "around 1048577", true,
           "accepted: around 262144, 1048576, 4194304");
    refuse("a digit more", "around 1048576", "around 10485760", true, "accepted: around 262144");
    refuse("a line less", "around 1048576\n", "", true, "line 6 is \"end\"");
    refuse("another order", "read_streams 8\ngather_streams 1\n",
           "gather_streams 1\nread_streams 8\n", true, "line 4");
    refuse("a long line", "\nend",
           " and much more that has no end and goes on so that no line of a calibration "
           "could ever be as long as this line is, whatever it says\nend",
           true, "line 6 is \"\"");
}

/* ---- Plans ---- */

/* Without data: plans look at no more. */
static DLTensor tensor(DLDataType type, int rank, int64_t *dims) {
    return (DLTensor){.device = {kDLCPU, 0}, .dtype = type, .ndim = rank, .shape = dims};
}

static int64_t read_streams(void) {
    const struct kvmill_cache_geometry geometry = {.heads = 1};
    return kvmill_attend_plan_of(&geometry, 1).read_streams;
}

static kvmill_plan *plan_scatter(void) {
    static int64_t cache[] = {1, 1, 8, 16}, update[] = {1, 1, 1, 16};
    const DLTensor past = tensor(f32, 4, cache), rows = tensor(f32, 4, update);
    kvmill_tensor_scatter op;
    kvmill_plan *plan = NULL;
    kvmill_tensor_scatter_init(&op, sizeof op);
    op.past_cache = &past;
    op.update = &rows;
    if (kvmill_plan_tensor_scatter(&op, NULL, &plan, NULL) != KVMILL_OK)
        bail_out("no plan of TensorScatter");
    return plan;
}

static kvmill_plan *plan_gather(void) {
    static int64_t operand_dims[] = {4, 32}, index_dims[] = {2, 1}, sizes[] = {1, 32};
    static int64_t axis_0[] = {0}, axis_1[] = {1};
    const DLTensor operand = tensor(f32, 2, operand_dims);
    const DLTensor indices = tensor(i32, 2, index_dims);
    const kvmill_gather op = {.struct_size = sizeof op,
                              .offset_dims = {axis_1, 1},
                              .collapsed_slice_dims = {axis_0, 1},
                              .start_index_map = {axis_0, 1},
                              .slice_sizes = {sizes, 2},
                              .index_vector_dim = 1,
                              .operand = &operand,
                              .start_indices = &indices};
    kvmill_plan *plan = NULL;
    kvmill_error error;
    if (kvmill_plan_gather(&op, NULL, &plan, &error) != KVMILL_OK)
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
    kvmill_plan *scatter = plan_scatter(), *gather = plan_gather();
    ok(are_taken(&one, scatter, gather), "plans of copies take a calibration");
    ok(read_streams() == one.read_streams, "and plans of attention");
    kvmill_calibration_set(&other);
    kvmill_plan *scatters = plan_scatter(), *gathers = plan_gather();
    ok(are_taken(&other, scatters, gathers) && read_streams() == other.read_streams,
       "later ones take a later one");
    ok(are_taken(&one, scatter, gather), "a plan keeps its own");
    kvmill_plan_destroy(scatter);
    kvmill_plan_destroy(gather);
    kvmill_plan_destroy(scatters);
    kvmill_plan_destroy(gathers);
}

void before_tests(void) {
    setenv("KVMILL_CALIBRATION", "", 1);
}
