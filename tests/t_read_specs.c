/* libkvmill_specs through its header only: flow files, regions and element types become the
   library's structs, and errors in a text are reported with their place.

   SPDX-License-Identifier: Apache-2.0 */
#include <glob.h>
#include <kvmill_specs.h>
#include <locale.h>

#include "common.h"

/* The last result, and the error. */
static const kvmill_flow *flow;
static const kvmill_region *region;
static kvmill_error error;

/* Returns a copy of exactly the text's bytes, so that valgrind and sanitizers see reads beyond
   it. */
static char *exactly(const char *text, size_t *length) {
    *length = strlen(text);
    return memcpy(malloc(*length + !*length), text, *length);
}

/* ---- Flows ---- */

static kvmill_status read_flow(const char *text, const kvmill_flow **read, kvmill_error *why) {
    size_t length;
    FREED char *exact = exactly(text, &length);
    return kvmill_read_flow("file.json", exact, length, read, why);
}

/* A flow with every member; its dims follow from attention and words. */
static char *whole;

void before_tests(void) {
    whole = read_bytes(source_path("tests/whole_flow.json"), NULL);
}

static bool is_whole(const kvmill_flow *flow) {
    const kvmill_cache_attention *op = flow->attention;
    const kvmill_flow_op *add = &flow->index[3];
    return op->num_heads == 8 && op->num_kv_heads == 2 && op->dynamic_batching == 1 &&
           op->cache_mode == 1 && op->page_size == 16 && op->T2.bits == 32 &&
           flow->field_count == 1 && strcmp(flow->fields[0].name, "mean") == 0 &&
           flow->fields[0].columns == 32 && flow->fields[0].dtype.bits == 16 &&
           flow->constant_count == 1 && flow->constants[0].columns == 2 &&
           flow->constants[0].values[0] == 0.5f && flow->constants[0].values[1] == 2 &&
           flow->cache_count == 1 && flow->cache[0].dims == 1u << 1 && flow->index_count == 5 &&
           strcmp(add->inputs[1], "t") == 0 && add->alpha == 0.25 && add->beta == 1 &&
           flow->select.topk_val == 5 && flow->select.reserved_bos == 1 &&
           flow->select.ratio_denominator == 8 && strcmp(flow->select.order, "score") == 0 &&
           flow->layers_skip_count == 2 && flow->layers_skip[1] == 3;
}

TEST(flow) {
    OWN_PLAN kvmill_plan *plan = NULL;
    kvmill_flow_limits limits;
    kvmill_flow_limits_init(&limits, sizeof limits);
    limits.batch = limits.pages = 4;
    if (!ok_status(read_flow(whole, &flow, &error), KVMILL_OK, &error, NULL, "a flow is read"))
        return;
    ok(is_whole(flow), "  every member is what the text says, or its default");
    kvmill_status status = kvmill_plan_flow_decode(flow, &limits, NULL, &plan, &error);
    kvmill_free_flow(flow);
    ok_status(status, KVMILL_OK, &error, NULL, "  it is planned, and released before the plan");
}

TEST(shipped_flows) {
    OWN(globfree) glob_t files;
    int right = 0;
    must(glob(source_path("configs/flows/*.json"), 0, NULL, &files) == 0,
         "configs/flows: no files");
    for (size_t i = 0; i < files.gl_pathc; i++) {
        size_t length;
        FREED char *text = read_bytes(files.gl_pathv[i], &length);
        bool done = kvmill_read_flow(files.gl_pathv[i], text, length, &flow, &error) == KVMILL_OK &&
                    kvmill_flow_describe(flow, NULL, &error) == KVMILL_OK;
        if (!done)
            diag("%s: %s", files.gl_pathv[i], error.message);
        right += done;
        kvmill_free_flow(flow);
    }
    ok(right == (int)files.gl_pathc && right >= 10, "%d flow files that ship are read", right);
}

static void expect_place(bool none, const char *start) {
    if (!ok(none && strncmp(error.message, start, strlen(start)) == 0, "  at %s", start))
        diag("%s", error.message);
}

/* TEXT STATUS START WORDS */
ROWS(flow, 4) {
    ok_status(read_flow(cells[0], &flow, &error), status_named(cells[1]), &error, cells[3],
              "refused: %s", cells[3]);
    expect_place(flow == NULL, cells[2]);
}

TEST(nothing) {
    kvmill_element_type element;
    ok_status(kvmill_read_flow(NULL, NULL, 4, &flow, &error), KVMILL_E_NULL, &error, "text is NULL",
              "no flow");
    ok_status(kvmill_read_flow(NULL, "{}", 2, NULL, &error), KVMILL_E_NULL, &error, "flow is NULL",
              "nowhere to put a flow");
    ok_status(kvmill_read_flow(NULL, "{}", 2, &flow, &error), KVMILL_E_ATTRIBUTE, &error,
              "flow: /op: ", "a text without a name");
    ok(kvmill_read_flow(NULL, "{}", 2, &flow, NULL) == KVMILL_E_ATTRIBUTE, "nobody to tell");
    ok_status(kvmill_read_region(NULL, 4, 1, NULL, 0, &region, &error), KVMILL_E_NULL, &error,
              "text is NULL", "no region");
    ok_status(kvmill_read_region("", 0, 1, NULL, 0, NULL, &error), KVMILL_E_NULL, &error,
              "region is NULL", "nowhere to put a region");
    ok_status(kvmill_read_region("", 0, 0, NULL, 0, &region, &error), KVMILL_E_ATTRIBUTE, &error,
              "inputs is 0; accepted: 1 to 16", "no inputs");
    ok_status(kvmill_read_region("", 0, 17, NULL, 0, &region, &error), KVMILL_E_ATTRIBUTE, &error,
              "inputs is 17", "too many inputs");
    ok_status(kvmill_read_region("", 0, 1, NULL, 17, &region, &error), KVMILL_E_ATTRIBUTE, &error,
              "capture_count is 17; accepted: at most 16", "too many captures");
    ok_status(kvmill_read_region("", 0, 1, NULL, 1, &region, &error), KVMILL_E_NULL, &error,
              "captures[0] is NULL", "no captures");
    ok_status(kvmill_read_element_type(NULL, 1, &element, &error), KVMILL_E_NULL, &error,
              "text is NULL", "no element type");
    ok_status(kvmill_read_element_type("f32", 3, NULL, &error), KVMILL_E_NULL, &error,
              "element is NULL", "nowhere to put an element type");
    kvmill_free_flow(NULL);
    kvmill_free_region(NULL);
}

/* ---- Regions ---- */

static kvmill_status read_region(const char *text, size_t inputs, const char *const *captures,
                                 size_t count, const kvmill_region **read, kvmill_error *why) {
    size_t length;
    FREED char *exact = exactly(text, &length);
    return kvmill_read_region(exact, length, inputs, captures, count, read, why);
}

/* old + capture1 * new */
#define SCALED                                                                                     \
    "^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"                                                    \
    "  %c = stablehlo.multiply %b, %capture1 : tensor<f32>\n"                                      \
    "  %d = stablehlo.add %a, %c : tensor<f32>\n"                                                  \
    "  stablehlo.return %d : tensor<f32>\n"

static int64_t four[] = {4}, two_one[] = {2, 1}, two[] = {2};
static const int64_t axis_0[] = {0};

static kvmill_status plan_with(const DLTensor *input, const DLTensor *update,
                               const DLTensor *indices, kvmill_plan **plan) {
    const kvmill_scatter op = {.struct_size = sizeof op,
                               .inserted_window_dims = {axis_0, 1},
                               .scatter_dims_to_operand_dims = {axis_0, 1},
                               .index_vector_dim = 1,
                               .region = region,
                               .count = 1,
                               .inputs = &input,
                               .updates = &update,
                               .scatter_indices = indices};
    return kvmill_plan_scatter(&op, NULL, plan, &error);
}

TEST(region) {
    static const char *const captures[] = {"tensor<i32>",
                                           "tensor<f32>"}; /* unused: float32 to a plan */
    float data[] = {1, 2, 3, 4}, updates[] = {10, 20}, factor = 0.5f, unused = 7;
    int32_t at[] = {3, 1};
    DLTensor input = dense_tensor(f32, 1, four, data), update = dense_tensor(f32, 1, two, updates);
    DLTensor indices = dense_tensor(i32, 2, two_one, at),
             first = dense_tensor(f32, 0, NULL, &unused);
    DLTensor second = dense_tensor(f32, 0, NULL, &factor);
    const DLTensor *tensors[] = {&input, &indices, &update, &input, &first, &second};
    OWN_PLAN kvmill_plan *plan = NULL;
    if (!ok_status(read_region(SCALED, 1, captures, 2, &region, &error), KVMILL_OK, &error, NULL,
                   "a region is read"))
        return;
    ok(region->capture_count == 2 && region->arguments[0].dtype.bits == 32 &&
           region->results[0] > 1,
       "  with captures, used or not");
    kvmill_status status = plan_with(&input, &update, &indices, &plan);
    kvmill_free_region(region);
    if (!ok_status(status, KVMILL_OK, &error, NULL, "  it is planned, and released"))
        return;
    status = kvmill_run(plan, tensors, COUNT(tensors), NULL, &error);
    ok_status(status, KVMILL_OK, &error, NULL, "  and run");
    ok(data[0] == 1 && data[1] == 12 && data[2] == 3 && data[3] == 9, "  with its results");
}

/* TEXT START WORDS */
ROWS(region, 3) {
    ok_status(read_region(cells[0], 1, NULL, 0, &region, &error), KVMILL_E_ATTRIBUTE, &error,
              cells[2], "refused: %.60s", cells[2]);
    expect_place(region == NULL, cells[1]);
}

ROWS(capture, 1) {
    const char *capture = cells[0];
    ok_status(read_region(SCALED, 1, &capture, 1, &region, &error), KVMILL_E_ATTRIBUTE, &error,
              NULL, "refused: a capture of type \"%s\"", capture);
}

#define HEAD "^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"

TEST(nul) {
    static const char zero[] = HEAD " stablehlo.return %b : tensor<f32>\0 %c";
    ok_status(kvmill_read_region(zero, sizeof zero - 1, 1, NULL, 0, &region, &error),
              KVMILL_E_ATTRIBUTE, &error, "region:2:35: a byte of value 0", "refused: a NUL");
}

/* ---- Element types ---- */

/* A refused text leaves it unchanged. */
static kvmill_element_type element = {.scale = 3};

ROWS(element, 1) {
    size_t length;
    FREED char *exact = exactly(cells[0], &length);
    ok_status(kvmill_read_element_type(exact, length, &element, &error), KVMILL_E_ATTRIBUTE, &error,
              "element type:1:", "refused: \"%s\"", cells[0]);
}

TABLE(read_specs);

TEST(elements) {
    ok(element.scale == 3, "what is refused leaves the element as it was");
    ok_status(kvmill_read_element_type("bf16", 4, &element, &error), KVMILL_OK, &error, NULL,
              "bf16 is read");
    ok(element.dtype.code == kDLBfloat && element.expressed.bits == 0, "  as DLPack has it");
    const char *text = "!quant.uniform<i4<-7:7>:f32, 0.25:-3>";
    ok_status(kvmill_read_element_type(text, strlen(text), &element, &error), KVMILL_OK, &error,
              NULL, "%s is read", text);
    ok(element.dtype.code == kDLInt && element.expressed.bits == 32 && element.scale == 0.25 &&
           element.zero_point == -3 && element.storage_min == -7 && element.storage_max == 7,
       "  all of it");
}

/* ---- Hosts ---- */

/* Reads numbers in a language that writes 0.25 as 0,25. */
TEST(language) {
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "nl_NL.UTF-8"};
    const char *chosen = NULL;
    const char *text = "!quant.uniform<i8:f32, 0.25>";
    kvmill_element_type element;
    for (size_t i = 0; i < COUNT(names) && chosen == NULL; i++)
        chosen = setlocale(LC_ALL, names[i]);
    if (chosen == NULL) {
        skip_test("a language with decimal commas: none is installed");
        return;
    }
    bool done = read_flow(whole, &flow, NULL) == KVMILL_OK && is_whole(flow) &&
                kvmill_read_element_type(text, strlen(text), &element, NULL) == KVMILL_OK &&
                element.scale == 0.25;
    kvmill_free_flow(flow);
    ok(done && localeconv()->decimal_point[0] == ',', "numbers have points in %s, too", chosen);
    setlocale(LC_ALL, "C");
}

static void read_one(void *context, int64_t i) {
    const kvmill_flow *own;
    const kvmill_region *replaced;
    int *right = context;
    bool done = read_flow(whole, &own, NULL) == KVMILL_OK && is_whole(own);
    done &= read_region(HEAD " stablehlo.return %b : tensor<f32>", 1, NULL, 0, &replaced, NULL) ==
                KVMILL_OK &&
            replaced->results[0] == 1;
    kvmill_free_flow(own);
    kvmill_free_region(replaced);
    right[i] = done;
}

TEST(threads) {
    int right[64] = {0}, count = 0;
    crew_share(4, COUNT(right), read_one, right);
    for (size_t i = 0; i < COUNT(right); i++)
        count += right[i];
    ok(count == COUNT(right), "%d readings on 4 threads", count);
}
