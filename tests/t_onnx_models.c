/* The reader of ONNX models: specs of every op, what is left alone, what is refused and in which
   words; and files that are no models: mutations, truncations, nesting, tiny ones that would be
   huge.

   SPDX-License-Identifier: Apache-2.0 */
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "../gen/spec.h"
#include "../import/onnx/onnx.h"
#include "onnx_text.h"
#include "program.h"
#include "table.h"

/* A file of these bytes, by a name that reads it from its beginning each time. */
struct file {
    int descriptor;
    char name[64];
};

static void open_file(struct file *file, const void *data, size_t length) {
    file->descriptor = memfd_create("model", 0);
    if (file->descriptor < 0 || write(file->descriptor, data, length) != (ssize_t)length)
        bail_out("cannot make a file in memory");
    snprintf(file->name, sizeof file->name, "/proc/self/fd/%d", file->descriptor);
}

/* What a reading of bytes came to. */
struct result {
    bool done;
    struct spec_list specs;
    struct error error;
};

static void read_bytes(const void *data, size_t length, struct result *result) {
    struct file file;
    *result = (struct result){0};
    open_file(&file, data, length);
    result->done = specs_of_onnx(file.name, &result->specs, &result->error);
    close(file.descriptor);
}

static void read_model(const char *description, struct result *result) {
    struct text file = {0};
    onnx_write(description, &file);
    read_bytes(file.data, file.length, result);
    text_free(&file);
}

/* A message has a file and says what is accepted. */
static bool says_enough(const char *message) {
    return strncmp(message, "/proc/self/fd/", 14) == 0 && strstr(message, "accepted") != NULL;
}

/* ---- The table ---- */

static bool maps(const struct result *result, const char *wanted) {
    json_t *made = specs_write(&result->specs), *kernels = json_loads(wanted, 0, NULL);
    bool good = result->done && json_equal(json_object_get(made, "kernels"), kernels);
    char *text = good ? NULL : json_dumps(made, JSON_COMPACT);
    if (!good)
        diag("%s", text);
    free(text);
    json_decref(made);
    json_decref(kernels);
    return good;
}

static bool notes(const struct result *result, const char *wanted) {
    const char *text = result->specs.notes.data;
    if (result->done && text != NULL && strstr(text, wanted) != NULL)
        return true;
    diag("%s", text != NULL ? text : "no note");
    return false;
}

static bool refuses(const struct result *result, const char *wanted) {
    return !result->done && result->error.exit_code == EXIT_USER &&
           says_enough(result->error.text) && strstr(result->error.text, wanted) != NULL;
}

/* "\n" and "\e" become characters, "; " line ends. */
static void unescape(char *text, bool is_model) {
    char *to = text;
    for (; *text != '\0'; text++) {
        bool escaped = *text == '\\' && (text[1] == 'n' || text[1] == 'e');
        bool end = is_model && text[0] == ';' && text[1] == ' ';
        *to++ = escaped ? (text[1] == 'n' ? '\n' : '\x1b') : end ? '\n' : *text;
        text += escaped || end;
    }
    *to = '\0';
}

static void check_row(char *const *row) {
    static const struct {
        const char *kind, *what;
        bool (*check)(const struct result *result, const char *wanted);
    } kinds[] = {
        {"maps", "specs", maps}, {"notes", "left alone", notes}, {"refused", "refused", refuses}};
    struct result result;
    int kind = 0;
    while (kind < 2 && strcmp(kinds[kind].kind, row[0]) != 0)
        kind++;
    unescape(row[2], true);
    unescape(row[3], false);
    read_model(row[2], &result);
    if (!ok(kinds[kind].check(&result, row[3]), "%s: %s", kinds[kind].what,
            row[1][0] ? row[1] : row[3]))
        diag("%s\n%s", row[2], result.error.text);
    spec_list_free(&result.specs);
}

TEST(table) {
    struct table table = table_open("onnx_models");
    for (char *row[4]; table_next(&table, row, 4);)
        check_row(row);
    table_close(&table);
}

/* ---- Files that are no models ---- */

static struct { int64_t read, refused, specs, constants; } seen;

/* Elements of constants are all there, or it is known that they are not. */
static void copy_constants(const char *name) {
    struct onnx_model model;
    struct error error;
    bool done = onnx_read(name, &model, &error);
    for (int i = 0; done && i < model.value_count; i++) {
        const struct onnx_value *value = &model.values[i];
        int64_t bytes;
        if (onnx_constant_problem(value) != NULL || !onnx_bytes(value, &bytes))
            continue;
        void *copy = malloc((size_t)bytes + !bytes);
        onnx_constant_copy(value, copy);
        free(copy);
        seen.constants++;
    }
    onnx_free(&model);
}

static bool reads_or_refuses(const void *data, size_t length) {
    struct file file;
    struct spec_list specs = {0};
    struct error error = {0};
    open_file(&file, data, length);
    bool done = specs_of_onnx(file.name, &specs, &error);
    copy_constants(file.name);
    close(file.descriptor);
    seen.read += done;
    seen.refused += !done;
    seen.specs += (int64_t)specs.count;
    spec_list_free(&specs);
    if (!done && (!says_enough(error.text) || error.exit_code != EXIT_USER)) {
        diag("%s", error.text);
        return false;
    }
    return true;
}

/* All there is in a model. */
static const char rich[] =
    "opset 18\nopset 3 com.x\nfunction\ninput d float32 4 5\ninput i int64 3\ninput s float16 n 2 "
    "-1\n"
    "initial c float32 2 2 : 1 2 3 4\ninitial k int64 2 : 0 -1\nexternal e float32 9\nsparse z\n"
    "initial b uint8 3 : 1 2 3\n"
    "node Constant - n value_ints=[1,2,3]\nnode Constant - f value_floats=[1.5,2.5]\n"
    "node Constant - t tensor=int64:7\nnode Constant - w value_string=word\n"
    "node Gather d,i g axis=1 name=first\nnode GatherElements c,c2 h\nnode If d x then_branch=abc\n"
    "node ScatterElements c,k2,c q reduction=add axis=0\nnode ScatterND d,m,u r name=last\n"
    "node GatherND d,m v batch_dims=0\noutput g float32 4 3\noutput v -\ninfo r float32 ? ?\n";

static const char pmx[] =
    "input pq float16 B 2 4 8\ninput pk float16 B 2 2 8\ninput pa int64\ninput pc int8 B 3 2 M 2 "
    "8\n"
    "input ps float32 B 3 2 M 2 1\ninput pm float16 2 M\n"
    "node MultiHeadCacheAttention pq,pk,pk,pa,pc,ps,pm po domain=opmx num_heads=4 head_dim=8 "
    "num_kv_heads=2 layer_idx=1 quant_bit=8\n"
    "node KeyValueCache pk,pk,pa,pc,ps pl,pv domain=pmx layer_idx=2 quant_bit=8\n"
    "input gq float16 B S 64\ninput gc int8 B 2 M 8\ninput gn int32 B\n"
    "node GroupQueryAttention gq,-,-,gc,gc,gn,gn go,gk,gv domain=com.microsoft num_heads=4 "
    "kv_num_heads=2 kv_cache_bit_width=8\n";

static void write_rich(struct text *file) {
    char description[4096];
    snprintf(description, sizeof description, "%s%s%s",
             "input c2 int64 2 2\ninput k2 int32 2 2\ninput m int64 2 1\ninput u float32 2 5\n",
             rich, pmx);
    onnx_write(description, file);
}

/* Bits, bytes that are the ends of lengths and numbers, spans that go or come twice, an end. */
static size_t mutate(struct dice *dice, unsigned char *data, size_t length, size_t room) {
    static const unsigned char ends[] = {0, 1, 0x7F, 0x80, 0xFF, 0xFE, 2, 10, 0x12, 0x1A};
    size_t at = (size_t)dice_range(dice, 0, (int64_t)length - 1);
    size_t span = (size_t)dice_range(dice, 1, 30);
    span = span < length - at ? span : length - at;
    switch (dice_range(dice, 0, 4)) {
    case 0:
        data[at] ^= (unsigned char)(1 << dice_range(dice, 0, 7));
        return length;
    case 1:
        data[at] = ends[dice_range(dice, 0, sizeof ends - 1)];
        return length;
    case 2:
        memmove(data + at, data + at + span, length - at - span);
        return length > span ? length - span : 1;
    case 3:
        if (length + span > room)
            return length;
        memmove(data + at + span, data + at, length - at);
        return length + span;
    default:
        return dice_once_in(dice, 20) ? at + 1 : length;
    }
}

/* Rounds, or as many seconds of them as KVMILL_ONNX_SECONDS says. */
static bool goes_on(int64_t round, int64_t rounds, time_t begin) {
    const char *seconds = getenv("KVMILL_ONNX_SECONDS");
    return seconds ? time(NULL) - begin < strtol(seconds, NULL, 10) : round < rounds;
}

static void fuzz_bytes(int64_t rounds) {
    enum { ROOM = 1 << 14 };
    static unsigned char data[ROOM];
    struct text file = {0};
    time_t begin = time(NULL);
    int64_t round = 0, wrong = 0;
    write_rich(&file);
    for (; goes_on(round, rounds, begin) && wrong < 3; round++) {
        char words[32];
        snprintf(words, sizeof words, "bytes %lld", (long long)round);
        struct dice dice = dice_for(words);
        size_t length = file.length;
        memcpy(data, file.data, length);
        for (int64_t k = dice_range(&dice, 1, 4); k > 0; k--)
            length = mutate(&dice, data, length, ROOM);
        if (!reads_or_refuses(data, length)) {
            diag("%s", words);
            wrong++;
        }
    }
    ok(wrong == 0, "%lld mutated files are read or refused", (long long)round);
    text_free(&file);
}

/* ---- Models that make no sense ---- */

/* One of the words, which spaces part. */
static const char *pick(struct dice *dice, const char *words) {
    static char picked[4][32];
    static int last;
    int64_t count = 1;
    for (const char *c = words; *c != '\0'; c++)
        count += *c == ' ';
    for (int64_t skip = dice_range(dice, 0, count - 1); skip > 0; skip--)
        words = strchr(words, ' ') + 1;
    last = (last + 1) % 4;
    snprintf(picked[last], sizeof *picked, "%.*s", (int)strcspn(words, " "), words);
    return picked[last];
}

static const char names[] = "a b c d e f -";
static const char types[] = "float32 int64 int32 float16 uint8 string bool 27 99 0 int4 - float32 "
                            "float32 int64 int64";
static const char dims[] = "0 1 2 3 4 5 ? n -1 -9 9223372036854775807 4611686018427387904 2 2";
static const char ops_of_models[] = "Gather GatherElements GatherND ScatterElements ScatterND "
                                    "TensorScatter Attention Constant Add";
static const char attributes[] =
    "axis=0 axis=1 axis=-1 axis=-9223372036854775808 batch_dims=1 batch_dims=-1 reduction=add "
    "reduction=min reduction= mode=circular value_int=3 value_ints=[1,2] value_floats=[0.5] "
    "tensor=int64:5 branch=xx axis=1.5 name=x domain=ai.onnx domain=com.x axis=word";

/* Mostly a name of its own. */
static void print_value(struct dice *dice, int number, struct text *text) {
    text_print(text, "%s %c %s", dice_once_in(dice, 4) ? "initial" : "input",
               names[dice_once_in(dice, 50) ? 0 : 2 * number], pick(dice, types));
    for (int64_t rank = dice_range(dice, 0, 4); rank > 0; rank--)
        text_print(text, " %s", pick(dice, dims));
    text_print(text, "\n");
}

static void print_node(struct dice *dice, int number, struct text *text) {
    text_print(text, "node %s a", pick(dice, ops_of_models));
    for (int64_t more = dice_range(dice, 1, 2); more > 0; more--)
        text_print(text, ",%s", pick(dice, names));
    text_print(text, " o%d", number);
    for (int64_t more = dice_range(dice, 0, 2); more > 0; more--)
        text_print(text, " %s", pick(dice, attributes));
    text_print(text, "\n");
}

static const char pmx_ops[] = "KeyValueCache MultiHeadAttention MultiHeadCacheAttention";
static const char pmx_domains[] = "opmx pmx opmx.dynamic_batching pmx.dynamic_batching opmx.x";
static const char pmx_attributes[] =
    "num_layer=2 layer_idx=1 layer_idx=-1 quant_bit=8 quant_bit=4 quant_bit=3 quant_group=4 "
    "quant_group=0 cache_layout=1 cache_layout=3 cache_mode=1 page_size=0 is_causal=0 is_alibi=7 "
    "num_kv_heads=0 num_kv_heads=9223372036854775807 num_repeat=3 num_repeat=1.5 sinks=1";

static void print_pmx_node(struct dice *dice, int number, struct text *text) {
    const char *op = pick(dice, pmx_ops);
    text_print(text, "node %s a", op);
    for (int64_t more = dice_range(dice, 1, 13); more > 0; more--)
        text_print(text, ",%s", pick(dice, names));
    text_print(text, " o%d%s domain=%s", number, dice_once_in(dice, 4) ? ",-" : "",
               pick(dice, pmx_domains));
    if (op[0] != 'K')
        text_print(text, " num_heads=%d head_dim=%s", (int)dice_range(dice, 0, 4),
                   pick(dice, dims));
    for (int64_t more = dice_range(dice, 0, 2); more > 0; more--)
        text_print(text, " %s", pick(dice, pmx_attributes));
    text_print(text, "\n");
}

static void fuzz_models(int64_t rounds) {
    time_t begin = time(NULL);
    int64_t round = 0, wrong = 0;
    for (; goes_on(round, rounds, begin) && wrong < 3; round++) {
        char words[32];
        struct text text = {0}, file = {0};
        snprintf(words, sizeof words, "model %lld", (long long)round);
        struct dice dice = dice_for(words);
        text_print(&text, "opset %d\n", (int)dice_range(&dice, 10, 29));
        for (int k = 0; k < 6; k++)
            print_value(&dice, k, &text);
        for (int k = (int)dice_range(&dice, 0, 2); k >= 0; k--)
            (dice_once_in(&dice, 2) ? print_node : print_pmx_node)(&dice, k, &text);
        if (dice_once_in(&dice, 4))
            text_print(&text, "info o1 float32 2 2\noutput o0 int64\n");
        onnx_write(text.data, &file);
        if (!reads_or_refuses(file.data, file.length)) {
            diag("%s\n%s", words, text.data);
            wrong++;
        }
        text_free(&text);
        text_free(&file);
    }
    ok(wrong == 0, "%lld random models are read or refused", (long long)round);
}

/* ---- Extremes ---- */

TEST(truncations) {
    struct text file = {0};
    bool right = true;
    write_rich(&file);
    for (size_t length = 0; length < file.length; length += is_slow_run() ? 17 : 1)
        right = reads_or_refuses(file.data, length) && right;
    ok(right, "files that end too early are read or refused");
    text_free(&file);
}

static void check_message(const struct text *file, bool done, const char *words, const char *name) {
    struct result result;
    read_bytes(file->data, file->length, &result);
    if (!ok(result.done == done && (done || strstr(result.error.text, words) != NULL), "%s", name))
        diag("%s", result.error.text);
    spec_list_free(&result.specs);
}

/* A graph in an attribute of a node in a graph ..: each level is a few bytes around the one inside.
 */
static void check_nesting(int levels) {
    static const int fields[] = {1, 5, 6}; /* node, attribute, graph */
    size_t room = (size_t)levels * 32, at = room, length = 0;
    unsigned char *bytes = malloc(room);
    struct text file = {0};
    for (int i = 0; i < 3 * levels; i++) {
        struct text key = {0};
        onnx_put_varint(&key, (uint64_t)fields[2 - i % 3] << 3 | 2);
        onnx_put_varint(&key, length);
        at -= key.length;
        memcpy(bytes + at, key.data, key.length);
        length += key.length;
        text_free(&key);
    }
    onnx_put_bytes(&file, 7, bytes + at, length);
    check_message(&file, false, "has no op", "branches in branches are not followed");
    text_free(&file);
    free(bytes);
}

/* Two bytes a node: the key of a graph's first field, and no length. */
static void check_tiny_nodes(size_t count) {
    struct text file = {0};
    unsigned char *nodes = calloc(count, 2);
    for (size_t i = 0; i < count; i++)
        nodes[2 * i] = 1 << 3 | 2;
    onnx_put_bytes(&file, 7, nodes, 2 * count);
    check_message(&file, false, "would take more than 16 times its size",
                  "many empty nodes are refused for what they take");
    text_free(&file);
    free(nodes);
}

/* An attribute of many numbers, a byte each, is what it is. */
static void check_long_list(size_t count) {
    struct text attribute = {0}, node = {0}, graph = {0}, file = {0};
    unsigned char *numbers = calloc(count, 1);
    onnx_put_bytes(&attribute, 1, "value_ints", 10);
    onnx_put_bytes(&attribute, 8, numbers, count);
    onnx_put_number(&attribute, 20, 7);
    onnx_put_bytes(&node, 4, "Constant", 8);
    onnx_put_bytes(&node, 2, "k", 1);
    onnx_put_bytes(&node, 5, attribute.data, attribute.length);
    onnx_put_bytes(&graph, 1, node.data, node.length);
    onnx_put_bytes(&file, 7, graph.data, graph.length);
    check_message(&file, false, "no op of kvmill in it, but no node",
                  "a constant of many packed numbers is read");
    struct text *all[] = {&attribute, &node, &graph, &file};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        text_free(all[i]);
    free(numbers);
}

TEST(files) {
    struct spec_list specs = {0};
    struct error error = {0};
    struct text words = {0};
    text_print(&words, "{\"kernels\": []}");
    check_message(&words, false, "damaged or cut off, or no ONNX model", "JSON is no model");
    text_free(&words);
    text_print(&words, "%s", "");
    check_message(&words, false, "has no graph; accepted: an ONNX model", "nor is an empty file");
    text_free(&words);
    ok(!specs_of_onnx("/nonexistent/m.onnx", &specs, &error) && error.exit_code == EXIT_USER,
       "a file that is not there: %s", error.text);
    ok(!specs_of_onnx("/tmp", &specs, &error) && strstr(error.text, "regular") != NULL,
       "a directory: %s", error.text);
    struct file large;
    open_file(&large, "", 0);
    ok(ftruncate(large.descriptor, ((off_t)2 << 30) + 1) == 0 &&
           !specs_of_onnx(large.name, &specs, &error) &&
           strstr(error.text, "2147483649 bytes; accepted: at most 2 GiB") != NULL,
       "a file of more than 2 GiB is refused before it is read");
    close(large.descriptor);
}

TEST(extremes) {
    int64_t rounds = is_slow_run() ? 300 : 20000;
    check_nesting(is_slow_run() ? 1 << 12 : 1 << 16);
    check_tiny_nodes(1 << 18);
    check_long_list(1 << 20);
    fuzz_bytes(rounds);
    fuzz_models(rounds);
    ok(seen.read > 20 && seen.refused > 100 && seen.specs > 100 && seen.constants > 100,
       "%lld models were read, %lld refused; %lld specs, %lld constants", (long long)seen.read,
       (long long)seen.refused, (long long)seen.specs, (long long)seen.constants);
}
