/* Spec files: what is read, what is refused and in which words, and the kernels specs fold to.

   SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../defs/dtype.h"
#include "../gen/spec.h"
#include "tap.h"

static char file[] = "/tmp/t_specs.XXXXXX";

static void write_file(const char *text, size_t length) {
    FILE *stream = fopen(file, "wb");
    if (stream == NULL || fwrite(text, 1, length, stream) != length || fclose(stream) != 0)
        bail_out("cannot write %s: %s", file, strerror(errno));
}

static bool read_text(const char *text, struct spec_list *specs, struct error *error) {
    *specs = (struct spec_list){0};
    *error = (struct error){0};
    write_file(text, strlen(text));
    return specs_read(file, specs, error);
}

/* ---- Refusals ---- */

/* A spec that is right but for what is added. */
#define SPEC(more)   "{\"op\": \"TensorScatter\", \"dtype\": \"float16\"" more "}"
#define SHAPES(p, u) SPEC(", \"past_cache\": " p ", \"update\": " u)
#define SHAPED(more) SPEC(", \"past_cache\": [2, 8, 64, 128], \"update\": [2, 8, 1, 128]" more)

struct refusal {
    const char *name, *text;
    const char *where, *what; /* "file" + where ... what */
};

static const struct refusal refusals[] = {
    /* JSON */
    {"an empty file", "", ":1:0: ", "accepted: JSON"},
    {"truncated JSON", "{\"kernels\": [\n  {\"op\": \"Tens", ":2:", "accepted: JSON"},
    {"truncated behind a comma", "{\"op\":\n\"TensorScatter\",\n", ":3:", "accepted: JSON"},
    {"text behind the document", SHAPED("") "\n]", ":2:1: ", "accepted: JSON"},
    {"a duplicate key", "{\"op\": \"TensorScatter\",\n \"op\": \"TensorScatter\"}",
     ":2:", "duplicate object key"},
    {"a comment", "{ // no\n}", ":1:", "accepted: JSON"},
    {"NaN", SPEC(", \"axis\": NaN"), ":1:", "accepted: JSON"},
    {"an integer beyond 64 bits", SPEC(", \"axis\": 9223372036854775808"), ":1:", "too big"},
    {"not UTF-8", "{\"op\": \"\xff\"}", ":1:", "0xff"},
    {"an array at the top", "[]", ":1:1: ", "accepted: {...}"},
    {"a string at the top", "\"x\"", ":1:", "accepted: "},

    /* The document */
    {"no kernels", "{}", ": /kernels: ", "is missing; accepted: an array"},
    {"a mistyped kernels", "{\"kernel\": []}", ": /kernel: ", "did you mean \"kernels\"?"},
    {"a key beside kernels", "{\"kernels\": [], \"zzzzzzzzzz\": 1}",
     ": /zzzzzzzzzz: ", "accepted: kernels"},
    {"kernels is no array", "{\"kernels\": {}}",
     ": /kernels: ", "is an object; accepted: an array"},
    {"empty kernels", "{\"kernels\": []}", ": /kernels: ", "is empty; accepted: at least one spec"},
    {"a kernel that is no object", "{\"kernels\": [" SHAPED("") ", 7]}",
     ": /kernels/1: ", "is an integer; accepted: an object"},
    {"null for a kernel", "{\"kernels\": [null]}",
     ": /kernels/0: ", "is null; accepted: an object"},

    /* op */
    {"a kernel without op", "{\"kernels\": [{\"dtype\": \"float16\"}]}",
     ": /kernels/0/op: ", "is missing; accepted: a string"},
    {"an op that is no string", "{\"op\": 5}", ": /op: ", "is an integer; accepted: a string"},
    {"an op like a known one", "{\"op\": \"TensorScater\"}",
     ": /op: ", "did you mean \"TensorScatter\"?"},
    {"an op of other letters", "{\"op\": \"Softmax\"}", ": /op: ", "accepted: TensorScatter"},
    {"an op in lower case", "{\"op\": \"tensorscatter\"}",
     ": /op: ", "did you mean \"TensorScatter\"?"},

    /* Keys */
    {"a key like a known one", SPEC(", \"past_cahce\": []"),
     ": /past_cahce: ", "did you mean \"past_cache\"?"},
    {"a key like none", SPEC(", \"zzzzzzzzzzzzzzzz\": 1"),
     ": /zzzzzzzzzzzzzzzz: ", "accepted: op, axis, mode, dtype, past_cache, update, write_indices"},
    {"a key in the second kernel", "{\"kernels\": [" SHAPED("") ", " SPEC(", \"axes\": 1") "]}",
     ": /kernels/1/axes: ", "did you mean \"axis\"?"},
    {"a purpose that is no string", SHAPED(", \"purpose\": 5"),
     ": /purpose: ", "is an integer; accepted: a string"},

    /* dtype */
    {"no dtype", "{\"op\": \"TensorScatter\"}", ": /dtype: ", "is missing; accepted: an element type"},
    {"a dtype that is no string", "{\"op\": \"TensorScatter\", \"dtype\": 16}",
     ": /dtype: ", "is an integer; accepted: a string"},
    {"a dtype like a known one", "{\"op\": \"TensorScatter\", \"dtype\": \"flaot16\"}",
     ": /dtype: ", "did you mean \"float16\"?"},
    {"a dtype like none", "{\"op\": \"TensorScatter\", \"dtype\": \"?\"}",
     ": /dtype: ", "accepted: the types of TensorScatter-24"},

    /* mode */
    {"a mode in upper case", SHAPED(", \"mode\": \"Linear\""),
     ": /mode: ", "is \"Linear\"; did you mean \"linear\"? accepted: linear, circular"},
    {"an empty mode", SHAPED(", \"mode\": \"\""),
     ": /mode: ", "is \"\"; accepted: linear, circular"},
    {"an unknown mode", SHAPED(", \"mode\": \"ring\""), ": /mode: ", "is \"ring\"; accepted: "},
    {"a mode that is no string", SHAPED(", \"mode\": 1"),
     ": /mode: ", "is an integer; accepted: a string"},
    {"null for a mode", SHAPED(", \"mode\": null"), ": /mode: ", "is null; accepted: a string"},

    /* axis */
    {"an axis that is a string", SHAPED(", \"axis\": \"-2\""),
     ": /axis: ", "is a string; accepted: an integer"},
    {"an axis that is real", SHAPED(", \"axis\": -2.0"),
     ": /axis: ", "is a real number; accepted: an integer"},
    {"axis 0", SHAPED(", \"axis\": 0"), ": /: ", "axis is 0; accepted for rank 4: -3 to -1"},
    {"axis -rank", SHAPED(", \"axis\": -4"), ": /: ", "axis is -4; accepted for rank 4: -3 to -1"},
    {"axis rank", SHAPED(", \"axis\": 4"), ": /: ", "or 1 to 3 (axis 0 is the batch)"},
    {"axis -5", SHAPED(", \"axis\": -5"), ": /: ", "axis is -5; "},
    {"an axis beyond 32 bits", SHAPED(", \"axis\": 4294967295"),
     ": /axis: ", "is 4294967295; accepted: -2147483648 to 2147483647"},
    {"the default axis of rank 2", SHAPES("[2, 64]", "[2, 1]"),
     ": /: ", "axis is -2; accepted for rank 2: -1 to -1, or 1 to 1"},

    /* Dims */
    {"a shape that is no array", SPEC(", \"past_cache\": 4"),
     ": /past_cache: ", "is an integer; accepted: an array"},
    {"null for a shape", SPEC(", \"update\": null"), ": /update: ", "is null; accepted: an array"},
    {"a dim that is another word", SPEC(", \"past_cache\": [2, \"??\", 1]"),
     ": /past_cache/1: ", "is \"??\"; accepted: a count, or \"?\""},
    {"a dim that is an empty word", SPEC(", \"past_cache\": [\"\"]"),
     ": /past_cache/0: ", "accepted: a count, or \"?\""},
    {"a dim that is digits in quotes", SPEC(", \"update\": [2, \"8\"]"),
     ": /update/1: ", "is \"8\"; accepted: a count, or \"?\""},
    {"a dim that is real", SPEC(", \"past_cache\": [2.5]"),
     ": /past_cache/0: ", "is a real number; accepted: an integer"},
    {"a dim that is true", SPEC(", \"past_cache\": [true]"),
     ": /past_cache/0: ", "is true; accepted"},
    {"a dim that is null", SPEC(", \"past_cache\": [null]"),
     ": /past_cache/0: ", "is null; accepted"},
    {"a dim that is an array", SPEC(", \"past_cache\": [[2]]"),
     ": /past_cache/0: ", "is an array; accepted"},
    {"a dim of -1", SPEC(", \"past_cache\": [2, -1]"),
     ": /past_cache/1: ", "is -1; accepted: 0 to"},
    {"a dim of -2^63", SPEC(", \"past_cache\": [-9223372036854775808]"),
     ": /past_cache/0: ", "is -9223372036854775808; accepted: 0 to"},
    {"the file's bad dim", "{\"kernels\": [" SHAPED("") ", " SPEC(", \"past_cache\": [2, -1]") "]}",
     ": /kernels/1/past_cache/1: ", "is -1; accepted: 0 to"},

    /* Shapes */
    {"dims beyond 64 bits together",
     SHAPES("[4294967296, 4294967296, 64, 128]", "[4294967296, 4294967296, 1, 128]"),
     ": /: ", "past_cache has shape [4294967296, 4294967296, 64, 128]; accepted: at most"},
    {"a single dim of 2^63 - 1",
     SHAPES("[1, 1, 1, 9223372036854775807]", "[1, 1, 1, 9223372036854775807]"),
     ": /: ", "accepted: at most"},
    {"rank 1", SHAPES("[64]", "[1]"), ": /: ", "past_cache has rank 1; accepted: 2 or more"},
    {"rank 0", SHAPES("[]", "[]"), ": /: ", "past_cache has rank 0; accepted: 2 or more"},
    {"another rank of update", SHAPES("[2, 8, 64, 128]", "[2, 1, 128]"),
     ": /: ", "update has shape [2, 1, 128]; accepted: [2, 8, 64, 128], as past_cache"},
    {"another head count", SHAPES("[2, 8, 64, 128]", "[2, 4, 1, 128]"),
     ": /: ", "except on the sequence axis"},
    {"another batch", SHAPES("[2, 8, 64, 128]", "[3, 8, 1, 128]"), ": /: ", "update has shape"},
    {"another head size", SHAPES("[2, 8, 64, 128]", "[2, 8, 1, 64]"), ": /: ", "update has shape"},
    {"more rows than slots", SHAPES("[2, 8, 64, 128]", "[2, 8, 65, 128]"),
     ": /: ", "update has 65 rows on axis 2; accepted: at most the 64 of past_cache"},
    {"more rows than slots on axis 1",
     SPEC(", \"axis\": 1, \"past_cache\": [2, 3, 4], \"update\": [2, 5, 4]"),
     ": /: ", "update has 5 rows on axis 1"},
    {"more rows than slots in a ring",
     SHAPED(", \"mode\": \"circular\", \"write_indices\": [2, 1]"),
     ": /: ", "write_indices has shape [2, 1]; accepted: [2], the batch"},
    {"another number of indices", SHAPED(", \"write_indices\": [3]"),
     ": /: ", "write_indices has shape [3]; accepted: [2], the batch"},
    {"no index dim", SHAPED(", \"write_indices\": []"), ": /: ", "write_indices has shape []"},
    {"bad shapes in the second kernel",
     "{\"kernels\": [" SHAPED("") ", " SHAPED(", \"axis\": 0") "]}", ": /kernels/1: ", "axis is 0"},
};

static void test_refusal(const struct refusal *refusal) {
    struct spec_list specs;
    struct error error;
    char where[256];
    snprintf(where, sizeof where, "%s%s", file, refusal->where);
    bool refused = !read_text(refusal->text, &specs, &error);
    bool told = refused && error.exit_code == EXIT_USER &&
                strncmp(error.text, where, strlen(where)) == 0 &&
                strstr(error.text, refusal->what) != NULL;
    if (!ok(told, "refused: %s", refusal->name))
        diag("wanted %s...%s, got %s", where, refusal->what, refused ? error.text : "success");
    spec_list_free(&specs);
}

static void test_refusals(void) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        test_refusal(&refusals[i]);
}

static void test_missing_file(void) {
    struct spec_list specs = {0};
    struct error error = {0};
    bool refused = !specs_read("/nonexistent/specs.json", &specs, &error);
    ok(refused && error.exit_code == EXIT_USER &&
           strncmp(error.text, "/nonexistent/specs.json: cannot read: ", 38) == 0,
       "refused: a file that is not there, by its path");
    refused = !specs_read("/tmp", &specs, &error);
    if (!ok(refused && error.exit_code != 0 && strncmp(error.text, "/tmp: ", 6) == 0,
            "refused: a directory, by its path"))
        diag("%s", error.text);
}

static void test_huge_file(void) {
    size_t length = (16u << 20) + 1;
    char *text = malloc(length + 1);
    struct spec_list specs;
    struct error error;
    if (text == NULL)
        bail_out("out of memory");
    memset(text, ' ', length);
    text[length] = '\0';
    bool refused = !read_text(text, &specs, &error);
    ok(refused && error.exit_code == EXIT_USER && strstr(error.text, "16 MiB") != NULL,
       "refused: more than 16 MiB, saying so");
    free(text);
}

static void test_deep_file(void) {
    char text[6000];
    struct spec_list specs;
    struct error error;
    memset(text, '[', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    bool refused = !read_text(text, &specs, &error);
    ok(refused && error.exit_code == EXIT_USER, "refused: 6000 open brackets");
}

/* Messages stay short, whatever is in the file. */
static void test_long_word(const char *start, const char *end) {
    char text[5000];
    struct spec_list specs;
    struct error error;
    memset(text, 'x', sizeof text);
    memcpy(text, start, strlen(start));
    memcpy(text + sizeof text - strlen(end) - 1, end, strlen(end) + 1);
    bool refused = !read_text(text, &specs, &error);
    if (!ok(refused && error.exit_code == EXIT_USER && strlen(error.text) < 500,
            "refused: 5000 letters behind %s, in few words", start))
        diag("%s", error.text);
    spec_list_free(&specs);
}

static void test_long_words(void) {
    test_long_word("{\"op\": \"", "\"}");
    test_long_word("{\"op\": \"TensorScatter\", \"dtype\": \"", "\"}");
    test_long_word("{\"op\": \"TensorScatter\", \"mode\": \"", "\"}");
    test_long_word("{\"op\": \"TensorScatter\", \"", "\": 1}");
    test_long_word("{\"", "\": 1}");
    test_long_word("{\"op\": \"TensorScatter\", \"dtype\": \"bool\", \"update\": [\"", "\"]}");
}

/* ---- Element types ---- */

/* Written from ONNX TensorScatter-24, not from the table under test. */
static const struct {
    const char *name;
    int bits;
} dtypes[] = {
    {"float16", 16},       {"bfloat16", 16},  {"float32", 32},       {"float", 32},
    {"float64", 64},       {"double", 64},    {"int8", 8},           {"int16", 16},
    {"int32", 32},         {"int64", 64},     {"uint8", 8},          {"uint16", 16},
    {"uint32", 32},        {"uint64", 64},    {"bool", 8},           {"complex64", 64},
    {"complex128", 128},   {"string", 64},    {"string128", 128},    {"float8e4m3fn", 8},
    {"float8e4m3fnuz", 8}, {"float8e5m2", 8}, {"float8e5m2fnuz", 8}, {"float8e8m0", 8},
    {"int4", 4},           {"uint4", 4},      {"float4e2m1", 4},
};
enum { NAMES = sizeof dtypes / sizeof *dtypes, ALIASES = 2 };

static bool reads_dtype(const char *name, int bits) {
    struct spec_list specs;
    struct error error;
    char text[256];
    snprintf(text, sizeof text, "{\"op\": \"TensorScatter\", \"dtype\": \"%s\"}", name);
    bool read = read_text(text, &specs, &error);
    DLDataType type = read ? specs.items[0].scatter.dtype : (DLDataType){0};
    spec_list_free(&specs);
    return read && type.bits * type.lanes == bits;
}

static void test_dtypes(void) {
    size_t known = 0;
    while (kvmill_dtype_at(known) != NULL)
        known++;
    for (int i = 0; i < NAMES; i++)
        ok(reads_dtype(dtypes[i].name, dtypes[i].bits), "dtype %s of %d bits", dtypes[i].name,
           dtypes[i].bits);
    ok(known == NAMES - ALIASES, "there are %d types, %d known", NAMES - ALIASES, (int)known);
}

static void test_distinct_dtypes(void) {
    bool distinct = true;
    for (size_t i = 0; kvmill_dtype_at(i) != NULL; i++)
        for (size_t j = 0; j < i; j++) {
            const struct kvmill_dtype *a = kvmill_dtype_at(i), *b = kvmill_dtype_at(j);
            if (!kvmill_dtype_equal(a->dl, b->dl))
                continue;
            distinct = false;
            diag("%s and %s are one", a->name, b->name);
        }
    ok(distinct, "no two types are the same");
}

/* ---- Written and read back ---- */

static json_t *reread(const json_t *specs) {
    struct spec_list list = {0};
    struct error error;
    json_t *again = NULL;
    if (json_dump_file(specs, file, 0) != 0)
        bail_out("cannot write %s", file);
    if (specs_read(file, &list, &error))
        again = specs_write(&list);
    else
        diag("%s", error.text);
    spec_list_free(&list);
    return again;
}

static void test_rewritten(const char *name, const struct spec_list *specs) {
    json_t *written = specs_write(specs), *again = reread(written);
    char *one = json_dumps(written, 0), *other = again ? json_dumps(again, 0) : NULL;
    if (!ok(again != NULL && json_equal(written, again), "%s: written and read back, the same",
            name)) {
        diag("written %.300s", one);
        diag("again   %.300s", other ? other : "nothing");
    }
    free(one);
    free(other);
    json_decref(written);
    json_decref(again);
}

static void test_round_trip(const char *name, const char *text) {
    struct spec_list specs;
    struct error error;
    if (read_text(text, &specs, &error))
        test_rewritten(name, &specs);
    else
        ok(false, "%s: %s", name, error.text);
    spec_list_free(&specs);
}

/* Attention specs that are right but for what is added. */
#define ATTENTION_OF(op, more)                                                                     \
    "{\"op\": \"" op "\", \"num_heads\": 8, \"num_kv_heads\": 2, \"head_dim\": 64, "               \
    "\"T1\": \"float16\"" more "}"
#define FUSED(more)   ATTENTION_OF("MultiHeadCacheAttention", more)
#define DYNAMIC(more) ATTENTION_OF("dynamic_batching.MultiHeadCacheAttention", more)
#define INPUTS(more)  ATTENTION_OF("MultiHeadAttention", more)
#define STORE(more)   "{\"op\": \"KeyValueCache\", \"T1\": \"float32\"" more "}"

static const struct refusal attention_refusals[] = {
    /* The op and its keys */
    {"an op of dynamic batching", ATTENTION_OF("dynamic_batching.MultiHeadCachAttention", ""),
     ": /op: ", "did you mean \"dynamic_batching.MultiHeadCacheAttention\"?"},
    {"a page size without dynamic batching", FUSED(", \"page_size\": 128"),
     ": /page_size: ", "is not a known key"},
    {"causality of a KeyValueCache", STORE(", \"is_causal\": 1"),
     ": /is_causal: ", "accepted: op, head_dim, num_kv_heads, num_layer"},
    {"a cache of MultiHeadAttention", INPUTS(", \"quant_bit\": 8"),
     ": /quant_bit: ", "is not a known key"},
    {"a key like another", FUSED(", \"quant_bits\": 8"), ": /quant_bits: ", "\"quant_bit\"?"},
    {"no num_heads", "{\"op\": \"MultiHeadAttention\", \"head_dim\": 64, \"T1\": \"float16\"}",
     ": /num_heads: ", "is missing; accepted: a count"},
    {"no head_dim", "{\"op\": \"MultiHeadAttention\", \"num_heads\": 64, \"T1\": \"float16\"}",
     ": /head_dim: ", "is missing; accepted: a count"},
    {"no T1", "{\"op\": \"KeyValueCache\"}", ": /T1: ", "is missing; accepted: an element type"},

    /* Kinds of values */
    {"a count that is a word", FUSED(", \"window\": \"1\""),
     ": /window: ", "is a string; accepted: an integer"},
    {"a window of 0.1 below its range", FUSED(", \"window\": -1"),
     ": /window: ", "is -1; accepted: 0 to 9223372036854775807"},
    {"a window in both words", FUSED(", \"window\": 2, \"left_window_size\": 1"),
     ": /window: ", "is given beside left_window_size; accepted: one of them"},
    {"a truth value of 2", FUSED(", \"is_alibi\": 2"),
     ": /is_alibi: ", "is no truth value; accepted: true, false, 1, 0"},
    {"a truth value of null", FUSED(", \"attn_mask\": null"),
     ": /attn_mask: ", "is no truth value"},
    {"a scale that is a word", FUSED(", \"softmax_scale\": \"1\""),
     ": /softmax_scale: ", "is no number"},
    {"a type of other ops", FUSED(", \"T2\": \"float64\""),
     ": /T2: ", "accepted: float32, float16, bfloat16, int8, int4, uint8"},
    {"a mistyped type", FUSED(", \"T3\": \"flaot16\""), ": /T3: ", "did you mean \"float16\"?"},
    {"a kind of arithmetic", FUSED(", \"math\": \"quick\""), ": /math: ", "accepted: f32, fast"},
    {"a format", FUSED(", \"cache_format\": \"q5_0\""),
     ": /cache_format: ", "accepted: q8_0, q4_0"},
    {"a name that is no identifier", FUSED(", \"name\": \"Decode\""),
     ": /name: ", "accepted: at most 47 small letters"},
    {"a name of the templates", FUSED(", \"name\": \"km_pack\""), ": /name: ", "not km_ or m4_"},
    {"layers in words", FUSED(", \"layers\": \"all\""),
     ": /layers: ", "accepted: at most 159 digits"},
    {"a name twice",
     "{\"kernels\": [" FUSED(", \"name\": \"a\"") ", " INPUTS(", \"name\": \"a\"") "]}",
     ": /kernels/1/name: ", "which an earlier spec has"},

    /* What the op's own check says */
    {"heads that do not divide", FUSED(", \"num_layer\": 2, \"layer_idx\": 2"),
     ": /: ", "layer_idx is 2; accepted: 0 to 1"},
    {"a group that does not divide", FUSED(", \"quant_bit\": 8, \"quant_group\": 48"),
     ": /: ", "quant_group is 48; accepted: divisors of head_dim, 64"},
    {"an odd group of int4", FUSED(", \"quant_bit\": 4, \"quant_group\": 1"),
     ": /: ", "accepted: even divisors"},
    {"a quant_bit of 5", FUSED(", \"quant_bit\": 5"), ": /: ", "quant_bit is 5; accepted: 0, 4, 8"},
    {"a layout of dynamic batching", FUSED(", \"cache_layout\": 2"),
     ": /: ", "cache_layout is 2; accepted: 0 to 1"},
    {"a layout of none", DYNAMIC(", \"cache_layout\": 4"),
     ": /: ", "cache_layout is 4; accepted: 0 to 3"},
    {"a mode of none", DYNAMIC(", \"cache_mode\": 2"),
     ": /: ", "cache_mode is 2; accepted: 0 to 1"},
    {"pages of nothing", DYNAMIC(", \"cache_mode\": 1, \"page_size\": 0"),
     ": /: ", "page_size is 0; accepted: 1 or more"},
    {"a cache type without its bits", FUSED(", \"T2\": \"int8\""),
     ": /: ", "T2 is int8; accepted:"},
    {"bits without their type", FUSED(", \"quant_bit\": 8, \"T2\": \"float16\""),
     ": /: ", "T2 is float16; accepted: int8, with quant_bit 8"},
    {"blocks of a head that has none",
     FUSED(", \"cache_format\": \"q8_0\", \"value_head_dim\": 48"),
     ": /: ", "value_head_dim is 48; accepted with cache_format"},
    {"a negative scale", FUSED(", \"softmax_scale\": -1"),
     ": /: ", "softmax_scale is -1; accepted:"},
    {"int8 activations with scores",
     "{\"op\": \"MultiHeadAttention\", \"num_heads\": 1, "
     "\"head_dim\": 8, \"T1\": \"int8\"}",
     ": /: ", "T1 is int8; accepted: float32"},
};

/* What is read from a spec that leaves things out. */
static void test_implied(const char *text, const char *key, const char *wanted) {
    struct spec_list specs;
    struct error error;
    json_t *object = read_text(text, &specs, &error) ? spec_write(&specs.items[0]) : NULL;
    json_t *value = json_object_get(object, key);
    char *got = json_dumps(value, JSON_ENCODE_ANY);
    if (!ok(strcmp(got ? got : "none", wanted) == 0, "%s: %s is %s", text, key, wanted))
        diag("got %s %s", got ? got : "none", error.text);
    free(got);
    json_decref(object);
    spec_list_free(&specs);
}

static void test_attention(void) {
    for (size_t i = 0; i < sizeof attention_refusals / sizeof *attention_refusals; i++)
        test_refusal(&attention_refusals[i]);
    test_implied(FUSED(""), "T2", "\"float16\"");
    test_implied(FUSED(""), "T3", "none");
    test_implied(FUSED(""), "is_causal", "true");
    test_implied(FUSED(", \"is_causal\": 0"), "is_causal", "false");
    test_implied(FUSED(""), "attn_mask", "true");
    test_implied(FUSED(", \"attn_mask\": false"), "attn_mask", "false");
    test_implied(FUSED(""), "num_layer", "1");
    test_implied(FUSED(""), "quant_group", "8");
    test_implied(FUSED(""), "value_head_dim", "none");
    test_implied(FUSED(", \"softcap\": 30"), "softcap", "30.0");
    test_implied(FUSED(", \"quant_bit\": 8"), "T2", "\"int8\"");
    test_implied(FUSED(", \"quant_bit\": 8"), "T3", "\"float16\"");
    test_implied(FUSED(", \"quant_bit\": 4"), "T2", "\"int4\"");
    test_implied(FUSED(", \"cache_format\": \"q4_0\""), "T2", "\"uint8\"");
    test_implied(FUSED(", \"quant_bit\": 8, \"value_head_dim\": 32"), "value_quant_bit", "8");
    test_implied(FUSED(", \"quant_bit\": 8, \"value_head_dim\": 32"), "value_T2", "\"int8\"");
    test_implied(FUSED(", \"quant_bit\": 8, \"value_quant_bit\": 4"), "value_T2", "\"int4\"");
    test_implied(FUSED(", \"quant_bit\": 8, \"value_quant_bit\": 4"), "value_head_dim", "64");
    test_implied(FUSED(", \"quant_bit\": 8, \"value_T2\": \"float16\""), "value_quant_bit", "0");
    test_implied(FUSED(", \"value_quant_bit\": 8"), "value_T3", "\"float16\"");
    test_implied(FUSED(", \"cache_format\": \"q8_0\", \"value_head_dim\": 32"),
                 "value_cache_format", "\"q8_0\"");
    test_implied(DYNAMIC(""), "page_size", "128");
    test_implied(DYNAMIC(""), "cache_mode", "0");
    test_implied(INPUTS(""), "T2", "none");
    test_implied(STORE(""), "head_dim", "none");
    test_implied(STORE(", \"head_dim\": 64, \"num_kv_heads\": 2, \"quant_bit\": 8"), "T3",
                 "\"float32\"");
    test_implied(FUSED(", \"layer_idx\": 3"), "num_layer", "none");
    test_implied(DYNAMIC(", \"window\": 64"), "left_window_size", "63");
    test_implied(DYNAMIC(", \"window\": 0"), "left_window_size", "none");
    test_round_trip("every attribute of ours",
                    DYNAMIC(", \"left_window_size\": 63, \"softcap\": 30.5, \"math\": \"fast\", "
                            "\"partial\": 1, \"empty_is_nan\": true, \"is_alibi\": 1, "
                            "\"alibi_heads\": 16, \"alibi_first\": 8, \"alibi_scale\": 0.1, "
                            "\"value_head_dim\": 96, \"value_quant_bit\": 8, "
                            "\"value_quant_group\": 32, \"value_T3\": \"float32\", "
                            "\"softmax_scale\": 0.3, \"cache_mode\": 1, \"page_size\": 7, "
                            "\"name\": \"decode\", \"layers\": \"0-3, 5\", "
                            "\"purpose\": \"all there is\""));
    test_round_trip("blocks", FUSED(", \"cache_format\": \"q8_0\", "
                                    "\"value_cache_format\": \"q4_0\""));
    test_round_trip("a store", STORE(", \"num_repeat\": 4"));
    test_round_trip("raw codes", "{\"op\": \"KeyValueCache\", \"T1\": \"int8\", "
                                 "\"T2\": \"int8\", \"head_dim\": 8, \"num_kv_heads\": 1}");
    test_round_trip("a layer of a cache that a run tells", FUSED(", \"layer_idx\": 3"));
}

/* A spec of CacheAttend that is right but for what is added. */
#define ANYWHERE(more)                                                                             \
    "{\"op\": \"CacheAttend\", \"num_heads\": 8, \"num_kv_heads\": 2, \"key_head_dim\": 64, "         \
    "\"T1\": \"float16\", \"key_quant_bit\": 8, \"key_quant_group\": 8, \"key_T2\": \"int8\", "       \
    "\"key_T3\": \"float32\"" more "}"

static const struct refusal anywhere_refusals[] = {
    {"no key_T2", "{\"op\": \"CacheAttend\", \"num_heads\": 8, \"key_head_dim\": 64, \"T1\": "
     "\"float16\"}", ": /key_T2: ", "is missing; accepted: an element type"},
    {"a shape of CacheAttend", ANYWHERE(", \"query\": [1]"), ": /query: ", "is not a known key"},
    {"heads of another number", ANYWHERE(", \"alibi_heads\": 4, \"is_alibi\": 1"),
     ": /: ", "alibi_heads is 4; accepted: 0, or 8 or more"},
    {"half of V's format", ANYWHERE(", \"value_quant_bit\": 4"),
     ": /: ", "value_T2 is not set; accepted with value_quant_bit"},
};

static void test_anywhere(void) {
    for (size_t i = 0; i < sizeof anywhere_refusals / sizeof *anywhere_refusals; i++)
        test_refusal(&anywhere_refusals[i]);
    test_implied(ANYWHERE(""), "value_T2", "\"int8\"");
    test_implied(ANYWHERE(""), "value_quant_group", "8");
    test_implied(ANYWHERE(", \"value_T2\": \"float16\""), "value_quant_bit", "none");
    test_implied(ANYWHERE(", \"right_window\": 3"), "right_window_size", "3");
    test_round_trip("CacheAttend", ANYWHERE(", \"mask_T1\": \"bool\", \"right_window_size\": 3"));
}

/* Specs of ONNX Attention that are right but for what is added. */
#define ONNX(more)                                                                                 \
    "{\"op\": \"Attention\", \"opset\": 24, \"T1\": \"float16\", \"Q\": [\"?\", 8, \"?\", 64], "   \
    "\"K\": [\"?\", 2, \"?\", 64], \"V\": [\"?\", 2, \"?\", 80]" more "}"
#define STEP(more)                                                                                 \
    "{\"op\": \"TensorScatterAttention\", \"T1\": \"bfloat16\", \"Q\": [\"?\", 8, \"?\", 64], "    \
    "\"K\": [\"?\", 2, \"?\", 64], \"V\": [\"?\", 2, \"?\", 64], \"past_key\": [\"?\", 2, 256, "   \
    "64], "                                                                                        \
    "\"past_value\": [\"?\", 2, 256, 64]" more "}"

static const struct refusal onnx_refusals[] = {
    {"a key of the other op", ONNX(", \"write_indices\": [2]"),
     ": /write_indices: ", "is not a known key"},
    {"a mode of Attention", ONNX(", \"mode\": \"linear\""), ": /mode: ", "is not a known key"},
    {"a key like another", ONNX(", \"soft_cap\": 3"), ": /soft_cap: ", "did you mean \"softcap\"?"},
    {"no T1", "{\"op\": \"Attention\"}", ": /T1: ", "is missing; accepted: an element type"},
    {"a type of no float", ONNX(", \"T2\": \"int4\""), ": /T2: ", "accepted: float32, float16"},
    {"values of integers", ONNX(", \"T2\": \"int8\""),
     ": /: ", "V has type int8; accepted: float16"},
    {"a scale of 0", ONNX(", \"scale\": 0"), ": /scale: ", "is 0; accepted: more than 0"},
    {"a scale that is a word", ONNX(", \"scale\": \"1\""), ": /scale: ", "is no number"},
    {"an opset of none", ONNX(", \"kv_num_heads\": 3"), ": /: ", "kv_num_heads 3"},
    {"a window of opset 25", ONNX(", \"left_window_size\": 3"),
     ": /: ", "left_window_size is 3; accepted: -1, in opset 24"},
    {"causality in words", ONNX(", \"is_causal\": \"yes\""),
     ": /is_causal: ", "is a string; accepted: an integer"},
    {"a mask that is too long", ONNX(", \"attn_mask\": [8, 3, \"?\", \"?\", 5]"),
     ": /: ", "attn_mask has shape [8, 3, ?, ?, 5]; accepted: [?, 8, ?, ?]"},
    {"a dim of a shape", ONNX(", \"past_key\": [2, \"!\"]"),
     ": /past_key/1: ", "is \"!\"; accepted: a count"},
    {"a mode", STEP(", \"mode\": \"ring\""), ": /mode: ", "accepted: linear, circular"},
    {"a mask of a ring", STEP(", \"mode\": \"circular\", \"attn_mask\": [\"?\"]"),
     ": /: ", "attn_mask is given; accepted: NULL, with mode"},
    {"more rows than slots", STEP(", \"present_key\": [\"?\", 2, 255, 64]"),
     ": /: ", "present_key has shape [?, 2, 255, 64]; accepted: [?, 2, 256, 64]"},
};

static void test_onnx_attention(void) {
    for (size_t i = 0; i < sizeof onnx_refusals / sizeof *onnx_refusals; i++)
        test_refusal(&onnx_refusals[i]);
    test_implied(ONNX(""), "T2", "\"float16\"");
    test_implied(ONNX(""), "U", "none");
    test_implied(ONNX(", \"attn_mask\": [\"?\"]"), "U", "\"float16\"");
    test_implied(ONNX(""), "scale", "none");
    test_implied(STEP(""), "opset", "25");
    test_implied(STEP(""), "mode", "\"linear\"");
    test_round_trip("Attention", ONNX(""));
    test_round_trip(
        "every attribute of Attention",
        "{\"op\": \"Attention\", \"opset\": 25, \"T1\": \"float32\", \"T2\": \"bfloat16\", "
        "\"U\": \"bool\", \"is_causal\": 1, \"q_num_heads\": 8, \"kv_num_heads\": 2, "
        "\"scale\": 0.3, \"softcap\": 30.5, \"softmax_precision\": 1, "
        "\"qk_matmul_output_mode\": 3, \"left_window_size\": 7, "
        "\"right_window_size\": 0, \"purpose\": \"all there is\", "
        "\"Q\": [2, 3, 512], \"K\": [2, 5, 128], \"V\": [2, 5, 96], "
        "\"attn_mask\": [1, 3, 9], \"past_key\": [2, 2, 4, 64], "
        "\"past_value\": [2, 2, 4, 48], \"Y\": [2, 3, 384], "
        "\"present_key\": [2, 2, 9, 64], \"present_value\": [2, 2, 9, 48], "
        "\"qk_matmul_output\": [2, 8, 3, 9]}");
    test_round_trip("Attention without shapes", "{\"op\": \"Attention\", \"T1\": \"float64\"}");
    test_round_trip("a step", STEP(", \"mode\": \"circular\", \"write_indices\": [\"?\"], "
                                   "\"nonpad_kv_seqlen\": [\"?\"]"));
}

static void test_round_trips(void) {
    test_round_trip("a spec without shapes", SPEC(""));
    test_round_trip("a spec with all shapes", SHAPED(", \"write_indices\": [2], \"axis\": 2"));
    test_round_trip(
        "a circular spec with open dims",
        SPEC(", \"mode\": \"circular\", \"axis\": 1, \"past_cache\": [\"?\", \"?\", 8], "
             "\"update\": [\"?\", 1, 8], \"write_indices\": [\"?\"]"));
    test_round_trip("a list of two", "{\"kernels\": [" SPEC("") ", " SHAPED("") "]}");
    test_round_trip("a spec with dims of 0", SHAPES("[0, 8, 0, 128]", "[0, 8, 0, 128]"));
}

/* The words a spec came with survive. */
static void test_purpose(void) {
    struct spec_list specs;
    struct error error;
    bool read = read_text(SHAPED(", \"purpose\": \"decode\""), &specs, &error);
    ok(read && strcmp(specs.items[0].purpose, "decode") == 0, "a spec keeps its purpose");
    spec_list_free(&specs);
}

/* ---- Folding to kernels ---- */

static void join_symbols(const struct kernel_list *kernels, char *text, size_t size) {
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < kernels->count && at < size; i++) {
        char symbol[SYMBOL_SIZE];
        kernel_symbol(&kernels->items[i], symbol);
        at += (size_t)snprintf(text + at, size - at, "%s%s", i ? " " : "",
                               symbol + strlen("kvmill_"));
    }
}

/* The kernels of the specs in file `text` for `isas`, without their prefixes; or the error. */
static bool fold(const char *text, const char *isas, char *symbols, size_t size) {
    struct spec_list specs;
    struct isa_list list;
    struct kernel_list kernels = {0};
    struct error error = {0};
    bool done = read_text(text, &specs, &error) && isa_list_parse(isas, &list, &error) &&
                specs_kernels(&specs, &list, &kernels, &error);
    if (done)
        join_symbols(&kernels, symbols, size);
    else
        snprintf(symbols, size, "%d %.900s", error.exit_code, error.text);
    kernel_list_free(&kernels);
    spec_list_free(&specs);
    return done;
}

#define TYPED(type, axis, mode, p, u)                                                              \
    "{\"op\": \"TensorScatter\", \"dtype\": \"" type "\", \"axis\": " axis ", \"mode\": \"" mode   \
    "\", \"past_cache\": " p ", \"update\": " u "}"
#define KEEP8 " keep_rows_u8__avx2_pages4"
#define KEEP4 " keep_rows_u4__avx2_pages4"

static const struct {
    const char *name, *text, *symbols;
} folds[] = {
    {"rank 2, axis 1", TYPED("float32", "1", "linear", "[4, 64]", "[4, 3]"),
     "store_rows_u8_h1_mn_s3_d4_linear__avx2_line" KEEP8},
    {"rank 2, axis -1", TYPED("float32", "-1", "linear", "[4, 64]", "[4, 3]"),
     "store_rows_u8_h1_mn_s3_d4_linear__avx2_line" KEEP8},
    {"rank 3, axis 1", TYPED("float16", "1", "linear", "[4, 64, 10]", "[4, 3, 10]"),
     "store_rows_u8_h1_mn_s3_d20_linear__avx2_line" KEEP8},
    {"rank 3, axis 2", TYPED("float16", "2", "linear", "[4, 10, 64]", "[4, 10, 3]"),
     "store_rows_u8_h10_mn_s3_d2_linear__avx2_line" KEEP8},
    {"rank 4, axis 1", TYPED("int8", "1", "linear", "[2, 64, 8, 16]", "[2, 1, 8, 16]"),
     "store_rows_u8_h1_mn_s1_d128_linear__avx2_line" KEEP8},
    {"rank 4, axis -2", TYPED("int8", "-2", "linear", "[2, 8, 64, 16]", "[2, 8, 1, 16]"),
     "store_rows_u8_h8_mn_s1_d16_linear__avx2_line" KEEP8},
    {"rank 4, axis 3", TYPED("int8", "3", "linear", "[2, 8, 16, 64]", "[2, 8, 16, 1]"),
     "store_rows_u8_h128_mn_s1_d1_linear__avx2_line" KEEP8},
    {"rank 5, axis 2", TYPED("complex128", "2", "linear", "[2, 3, 64, 5, 7]", "[2, 3, 1, 5, 7]"),
     "store_rows_u8_h3_mn_s1_d560_linear__avx2_line" KEEP8},
    {"rank 6, axis 3", TYPED("bool", "3", "linear", "[2, 2, 3, 64, 5, 7]", "[2, 2, 3, 2, 5, 7]"),
     "store_rows_u8_h6_mn_s2_d35_linear__avx2_line" KEEP8},
    {"rank 6, axis -1", TYPED("bool", "-1", "linear", "[2, 2, 3, 5, 7, 64]", "[2, 2, 3, 5, 7, 1]"),
     "store_rows_u8_h210_mn_s1_d1_linear__avx2_line" KEEP8},
    {"a ring keeps its capacity",
     TYPED("int8", "-2", "circular", "[\"?\", 8, 64, 16]", "[\"?\", 8, 1, 16]"),
     "store_rows_u8_h8_m64_s1_d16_circular__avx2_line" KEEP8},
    {"an open ring", TYPED("int8", "-2", "circular", "[1, 8, \"?\", 16]", "[1, 8, 1, 16]"),
     "store_rows_u8_h8_mn_s1_d16_circular__avx2_line" KEEP8},
    {"open rows", TYPED("int8", "-2", "linear", "[1, 8, 64, 16]", "[1, 8, \"?\", 16]"),
     "store_rows_u8_hn_mn_sn_d16_linear__avx2_run" KEEP8},
    {"open heads", TYPED("int8", "-2", "linear", "[1, \"?\", 64, 16]", "[1, \"?\", 1, 16]"),
     "store_rows_u8_hn_mn_sn_d16_linear__avx2_run" KEEP8},
    {"everything open",
     TYPED("int8", "-2", "linear", "[\"?\", \"?\", \"?\", \"?\"]", "[\"?\", \"?\", \"?\", \"?\"]"),
     "store_rows_u8_hn_mn_sn_dn_linear__avx2_run" KEEP8},
    {"8192 bytes are still straight",
     TYPED("int8", "-2", "linear", "[1, 16, 64, 512]", "[1, 16, 1, 512]"),
     "store_rows_u8_h16_mn_s1_d512_linear__avx2_line" KEEP8},
    {"more heads go in a loop",
     TYPED("int8", "-2", "linear", "[1, 17, 64, 512]", "[1, 17, 1, 512]"),
     "store_rows_u8_h17_mn_s1_d512_linear__avx2_heads" KEEP8},
    {"longer heads go as a run",
     TYPED("int8", "-2", "linear", "[1, 2, 64, 8193]", "[1, 2, 1, 8193]"),
     "store_rows_u8_hn_mn_sn_dn_linear__avx2_run" KEEP8},
    {"even nibble rows are byte rows",
     TYPED("int4", "-2", "linear", "[1, 4, 64, 128]", "[1, 4, 1, 128]"),
     "store_rows_u8_h4_mn_s1_d64_linear__avx2_line" KEEP8},
    {"odd nibble rows are not", TYPED("uint4", "-2", "linear", "[1, 4, 64, 33]", "[1, 4, 1, 33]"),
     "store_rows_u4_h4_mn_s1_d33_linear__avx2_line" KEEP4},
    {"single nibbles", TYPED("float4e2m1", "1", "circular", "[1, 9]", "[1, 1]"),
     "store_rows_u4_h1_m9_s1_d1_circular__avx2_line" KEEP4},
    {"odd dims after the axis that make an even row",
     TYPED("int4", "1", "linear", "[1, 64, 3, 2]", "[1, 1, 3, 2]"),
     "store_rows_u8_h1_mn_s1_d3_linear__avx2_line" KEEP8},
    {"open nibble rows are left to the portable kernel",
     TYPED("int4", "-2", "linear", "[1, 4, 64, \"?\"]", "[1, 4, 1, \"?\"]"), ""},
    {"a head count beyond 32 bits",
     TYPED("int8", "-2", "linear", "[1, 3000000000, \"?\", 1]", "[1, 3000000000, 1, 1]"),
     "store_rows_u8_hn_mn_sn_d1_linear__avx2_run" KEEP8},
    {"a ring beyond 32 bits",
     TYPED("int8", "-2", "circular", "[1, 1, 4294967297, 1]", "[1, 1, 1, 1]"),
     "store_rows_u8_h1_mn_s1_d1_circular__avx2_line" KEEP8},
    {"a row whose bytes overflow",
     TYPED("complex128", "-2", "linear", "[\"?\", \"?\", \"?\", 144115188075855872]",
           "[\"?\", \"?\", \"?\", 144115188075855872]"),
     "store_rows_u8_hn_mn_sn_dn_linear__avx2_run" KEEP8},
};

static bool is_there(const char *isa) {
    bool there = kvmill_isa_by_name(isa, strlen(isa)) != NULL;
    if (!there)
        skip_test("no kernels for %s", isa);
    return there;
}

static void test_folds(void) {
    if (!is_there("avx2"))
        return;
    for (size_t i = 0; i < sizeof folds / sizeof *folds; i++) {
        char symbols[1024];
        fold(folds[i].text, "avx2", symbols, sizeof symbols);
        if (!ok(strcmp(symbols, folds[i].symbols) == 0, "folded: %s", folds[i].name)) {
            diag("wanted %s", folds[i].symbols);
            diag("got    %s", symbols);
        }
    }
}

/* Every symbol that folding writes can be read: `kvmill list` depends on it. */
static bool symbols_parse(const char *symbols) {
    char text[4096], *state;
    snprintf(text, sizeof text, "%s", symbols);
    for (char *word = strtok_r(text, " ", &state); word; word = strtok_r(NULL, " ", &state)) {
        char symbol[SYMBOL_SIZE];
        struct kernel kernel;
        struct error error;
        snprintf(symbol, sizeof symbol, "kvmill_%s", word);
        if (!kernel_parse(symbol, &kernel, &error)) {
            diag("%s", error.text);
            return false;
        }
    }
    return true;
}

/* Where nothing moves, any kernel will do, or none; but it has to be one. */
static const char *const empty_shapes[] = {
    TYPED("int8", "-2", "linear", "[0, 8, 64, 16]", "[0, 8, 1, 16]"),
    TYPED("int8", "-2", "linear", "[2, 0, 64, 16]", "[2, 0, 1, 16]"),
    TYPED("int8", "-2", "circular", "[2, 8, 0, 16]", "[2, 8, 0, 16]"),
    TYPED("int8", "-2", "linear", "[2, 8, 64, 16]", "[2, 8, 0, 16]"),
    TYPED("int8", "-2", "linear", "[2, 8, 64, 0]", "[2, 8, 1, 0]"),
    TYPED("int4", "-2", "linear", "[2, 8, 64, 0]", "[2, 8, 1, 0]"),
    TYPED("int4", "-2", "linear", "[2, 8, 64, 33]", "[2, 8, 0, 33]"),
};

static void test_empty_shapes(void) {
    for (size_t i = 0; i < sizeof empty_shapes / sizeof *empty_shapes; i++) {
        char symbols[1024];
        bool folded = fold(empty_shapes[i], "scalar", symbols, sizeof symbols);
        if (!ok(folded && symbols_parse(symbols), "a dim of 0: %s",
                strstr(empty_shapes[i], "past")))
            diag("%s", symbols);
    }
}

static void test_folds_parse(void) {
    bool all = true;
    for (size_t i = 0; i < sizeof folds / sizeof *folds; i++) {
        char symbols[1024];
        all = !fold(folds[i].text, "scalar", symbols, sizeof symbols) || symbols_parse(symbols)
                  ? all
                  : false;
    }
    ok(all, "every kernel that specs fold to has a symbol that can be read back");
}

static void test_fold_isas(void) {
    char symbols[1024];
    if (!is_there("neon"))
        return;
    fold("{\"kernels\": [" SHAPED("") "," SHAPED("") "," SHAPED(", \"axis\": 2") "]}",
         "scalar,neon", symbols, sizeof symbols);
    if (!ok(strcmp(symbols, "store_rows_u8_h8_mn_s1_d256_linear__scalar_line "
                            "keep_rows_u8__scalar_pages4 "
                            "store_rows_u8_h8_mn_s1_d256_linear__neon_line "
                            "keep_rows_u8__neon_pages4") == 0,
            "equal specs share kernels; each instruction set has its own"))
        diag("got %s", symbols);
}

static void test_missing_shape(const char *text, const char *missing) {
    char message[1024], where[64];
    snprintf(where, sizeof where, "%s: ", file);
    bool refused = !fold(text, "scalar", message, sizeof message);
    if (!ok(refused && message[0] == '0' + EXIT_USER && strstr(message, missing) != NULL,
            "no kernels without a shape: %s", missing))
        diag("%s", message);
    if (!ok(strstr(message, where) != NULL, "and the message names the file"))
        diag("%s", message);
}

/* ---- Models ---- */

static bool read_model(const char *name, struct spec_list *specs,
                       const struct cache_choice *choice) {
    char path[512];
    struct model model = {0};
    struct error error;
    const char *srcdir = getenv("srcdir");
    snprintf(path, sizeof path, "%s/configs/models/%s.json", srcdir ? srcdir : ".", name);
    bool done = model_read(path, &model, &error) && specs_of_model(&model, choice, specs, &error);
    if (!done)
        diag("%s", error.text);
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

/* "attention 0-31: 32/8 x 128" */
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

static void test_model(const char *name, int layout, const char *const *lines) {
    struct spec_list specs = {0};
    struct cache_choice choice = {.layout = layout};
    size_t i = 0;
    bool same = read_model(name, &specs, &choice);
    for (; same && lines[i] != NULL; i++) {
        char text[256] = "no more specs";
        if (i < specs.count)
            describe(&specs.items[i], text, sizeof text);
        same = strcmp(text, lines[i]) == 0;
        if (!same)
            diag("spec %zu: wanted %s, got %s", i, lines[i], text);
    }
    ok(same && specs.count == i, "%s, layout %d: %zu specs, %zu expected", name, layout,
       specs.count, i);
    spec_list_free(&specs);
}

static void test_models(void) {
    static const char *const llama[] = {
        "decode key and value, token-major: linear ?,?,1024 <- ?,1,1024",
        "prefill key and value, token-major: linear ?,?,1024 <- ?,?,1024",
        "decode key and value, head-major: linear ?,8,?,128 <- ?,8,1,128",
        "prefill key and value, head-major: linear ?,8,?,128 <- ?,8,?,128",
        "attention 0-31: 32/8 x 128",
        NULL};
    /* 42 layers, two kinds: with a ring of 4096 slots, and without. */
    static const char *const gemma[] = {
        "decode key and value, head-major: circular ?,8,4096,256 <- ?,8,1,256",
        "decode key and value, head-major: circular ?,8,?,256 <- ?,8,1,256",
        "prefill key and value, head-major: circular ?,8,4096,256 <- ?,8,?,256",
        "prefill key and value, head-major: circular ?,8,?,256 <- ?,8,?,256",
        "decode key and value, head-major: linear ?,8,?,256 <- ?,8,1,256",
        "prefill key and value, head-major: linear ?,8,?,256 <- ?,8,?,256",
        "attention_sliding 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, "
        "38, 40: 16/8 x 256, window 4096, softcap 50",
        "attention 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 39, 41: "
        "16/8 x 256, softcap 50",
        NULL};
    /* One row for all heads: the latent and the rotary part. */
    static const char *const deepseek[] = {"decode latent, token-major: linear ?,?,576 <- ?,1,576",
                                           "prefill latent, token-major: linear ?,?,576 <- ?,?,576",
                                           "attention_latent 0-26: 16/1 x 576/512", NULL};
    test_model("llama-3.1-8b", -1, llama);
    test_model("gemma-2-9b", 1, gemma);
    test_model("deepseek-v2-lite", 0, deepseek);
}

/* No shipped model has keys and values of different sizes outside a latent cache: ours has. */
static void test_different_parts(void) {
    static const char *const lines[] = {"decode key, head-major: linear ?,4,?,192 <- ?,4,1,192",
                                        "prefill key, head-major: linear ?,4,?,192 <- ?,4,?,192",
                                        "decode value, head-major: linear ?,4,?,128 <- ?,4,1,128",
                                        "prefill value, head-major: linear ?,4,?,128 <- ?,4,?,128",
                                        "attention 0, 2: 16/4 x 192/128"};
    enum { LINES = sizeof lines / sizeof *lines };
    struct layer layers[3];
    struct model model = {
        .layer_count = 3, .layers = layers, .dtype = kvmill_dtype_by_name("float16")};
    struct cache_choice choice = {.layout = 1};
    struct spec_list specs = {0};
    struct error error = {0};
    memset(layers, 0, sizeof layers);
    for (int i = 0; i < 3; i++)
        layers[i] = (struct layer){.kind = i == 1 ? LAYER_NONE : LAYER_FULL,
                                   .query_heads = 16,
                                   .kv_heads = 4,
                                   .key_dim = 192,
                                   .value_dim = 128};
    bool same = specs_of_model(&model, &choice, &specs, &error) && specs.count == LINES;
    for (size_t i = 0; same && i < LINES; i++) {
        char text[256];
        describe(&specs.items[i], text, sizeof text);
        same = strcmp(text, lines[i]) == 0;
        if (!same)
            diag("spec %zu: %s", i, text);
    }
    ok(same, "keys and values of different sizes have specs of their own: %zu", specs.count);
    spec_list_free(&specs);
}

static void test_no_cache(void) {
    struct layer layer = {.kind = LAYER_NONE};
    struct model model = {
        .layer_count = 1, .layers = &layer, .dtype = kvmill_dtype_by_name("float16")};
    struct cache_choice choice = {.layout = -1};
    struct spec_list specs = {0};
    struct error error = {0};
    bool refused = !specs_of_model(&model, &choice, &specs, &error);
    ok(refused && error.exit_code == EXIT_USER && strstr(error.text, "no layer"),
       "refused: a model without a cache");
    spec_list_free(&specs);
}

static const struct kvmill_format_parts *cache_type(const char *word) {
    return kvmill_format_parts(kvmill_format_of_word(word, KVMILL_ANY_SCALES));
}

static void test_cache_type(void) {
    struct spec_list specs = {0};
    struct cache_choice choice = {.layout = 0, .type = cache_type("float32")};
    bool read = read_model("llama-3.1-8b", &specs, &choice);
    for (size_t i = 0; i + 1 < specs.count; i++)
        read = read && specs.items[i].scatter.dtype.bits == 32 &&
               specs.items[i].scatter.past_cache.dtype.bits == 32;
    ok(read && specs.count == 3, "another element type, one layout: %zu specs", specs.count);
    if (read && specs.count == 3) {
        const kvmill_cache_attention *op = &specs.items[2].attention.op;
        ok(op->T1.bits == 16 && op->T2.bits == 32 && op->T3.bits == 0,
           "  of the cache, not of the activations");
    }
    spec_list_free(&specs);
}

/* The one spec of a quantised cache of llama-3.1-8b. */
static void test_quantised(const struct cache_choice *choice, const char *wanted) {
    struct spec_list specs = {0};
    if (read_model("llama-3.1-8b", &specs, choice) &&
        ok(specs.count == 1, "one spec: %s", wanted)) {
        json_t *object = spec_write(&specs.items[0]);
        char *text = json_dumps(object, JSON_PRESERVE_ORDER);
        if (!ok(strstr(text, wanted) != NULL, "  which says so"))
            diag("%s", text);
        free(text);
        json_decref(object);
    }
    spec_list_free(&specs);
}

static void test_quantised_types(void) {
    struct cache_choice choice = {.layout = 1, .type = cache_type("int8"), .quant_group = 0};
    test_quantised(&choice, "\"quant_bit\": 8, \"quant_group\": 8, \"cache_layout\": 1, "
                            "\"T1\": \"bfloat16\", \"T2\": \"int8\", \"T3\": \"float16\"");
    choice = (struct cache_choice){
        .layout = 3, .type = cache_type("int4"), .quant_group = 64, .fast = true};
    test_quantised(&choice, "\"quant_bit\": 4, \"quant_group\": 64, \"cache_layout\": 3, "
                            "\"cache_mode\": 0");
    test_quantised(&choice, "\"op\": \"dynamic_batching.MultiHeadCacheAttention\"");
    test_quantised(&choice, "\"math\": \"fast\"");
    choice = (struct cache_choice){.layout = -1, .type = cache_type("q4_0")};
    test_quantised(&choice, "\"T2\": \"uint8\", \"cache_format\": \"q4_0\"");
}

static void test_model_refused(const char *name, const struct cache_choice *choice,
                               const char *words) {
    struct spec_list specs = {0};
    struct model model = {0};
    struct error error = {0};
    char path[512];
    const char *srcdir = getenv("srcdir");
    snprintf(path, sizeof path, "%s/configs/models/%s.json", srcdir ? srcdir : ".", name);
    bool refused =
        model_read(path, &model, &error) && !specs_of_model(&model, choice, &specs, &error);
    if (!ok(refused && error.exit_code == EXIT_USER && strstr(error.text, words),
            "%s is refused: %s", name, words))
        diag("%s", error.text);
    spec_list_free(&specs);
    model_free(&model);
}

static void test_models_refused(void) {
    struct cache_choice group = {.layout = 0, .type = cache_type("int8"), .quant_group = 48};
    struct cache_choice blocks = {.layout = 0, .type = cache_type("q8_0")};
    test_model_refused("llama-3.1-8b", &group, "quant_group is 48; accepted: divisors of head_dim");
    test_model_refused("deepseek-v2-lite", &blocks, "accepted for latent layers");
    test_model_refused("stablelm-3b-4e1t", &blocks, "head_dim is 80; accepted with cache_format");
}

/* Facts of a model that its attention needs. */
static void test_model_facts(void) {
    struct layer layers[2] = {{.kind = LAYER_FULL,
                               .query_heads = 71,
                               .kv_heads = 1,
                               .key_dim = 64,
                               .value_dim = 64,
                               .scale = 0.125}};
    struct model model = {.layer_count = 2,
                          .layers = layers,
                          .alibi_bias_max = 8,
                          .alibi_scaled = true,
                          .dtype = kvmill_dtype_by_name("bfloat16")};
    struct cache_choice choice = {.layout = 0};
    struct spec_list specs = {0};
    struct error error = {0};
    layers[1] = layers[0];
    layers[1].scale = 0.25;
    bool done = specs_of_model(&model, &choice, &specs, &error) && specs.count == 4;
    if (!ok(done, "two geometries: %zu specs", specs.count)) {
        diag("%s", error.text);
        return;
    }
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

static void test_models_rewritten(void) {
    struct spec_list specs = {0};
    struct cache_choice choice = {.layout = -1};
    if (read_model("gemma-2-9b", &specs, &choice))
        test_rewritten("a model's specs", &specs);
    spec_list_free(&specs);
}

int main(void) {
    int stream = mkstemp(file);
    if (stream < 0)
        bail_out("cannot make %s: %s", file, strerror(errno));
    close(stream);
    test_refusals();
    test_missing_file();
    test_huge_file();
    test_deep_file();
    test_long_words();
    test_dtypes();
    test_distinct_dtypes();
    test_round_trips();
    test_attention();
    test_anywhere();
    test_onnx_attention();
    test_purpose();
    test_folds();
    test_empty_shapes();
    test_folds_parse();
    test_fold_isas();
    test_missing_shape(SPEC(""), "past_cache");
    test_missing_shape(SPEC(", \"past_cache\": [2, 8, 64, 128]"), "update");
    test_models();
    test_different_parts();
    test_no_cache();
    test_cache_type();
    test_quantised_types();
    test_models_refused();
    test_model_facts();
    test_models_rewritten();
    unlink(file);
    return done_testing();
}
