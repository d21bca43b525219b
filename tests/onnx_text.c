/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx_text.h"

#include "tap.h"

/* ---- The wire ---- */

static void append(struct text *message, const void *data, size_t length) {
    must(text_append(message, data, length), "out of memory");
}

void onnx_put_varint(struct text *message, uint64_t value) {
    do {
        unsigned char byte = (unsigned char)((value & 0x7F) | (value > 0x7F ? 0x80 : 0));
        append(message, &byte, 1);
        value >>= 7;
    } while (value != 0);
}

static void put_key(struct text *message, int field, int wire) {
    onnx_put_varint(message, (uint64_t)field << 3 | (unsigned)wire);
}

void onnx_put_number(struct text *message, int field, uint64_t value) {
    put_key(message, field, 0);
    onnx_put_varint(message, value);
}

void onnx_put_bytes(struct text *message, int field, const void *data, size_t length) {
    put_key(message, field, 2);
    onnx_put_varint(message, length);
    append(message, data, length);
}

static void put_text(struct text *message, int field, const char *text) {
    onnx_put_bytes(message, field, text, strlen(text));
}

static void put_float(struct text *message, int field, float value) {
    put_key(message, field, 5);
    append(message, &value, sizeof value);
}

/* Adds a message and releases `inner`. */
static void put_message(struct text *message, int field, struct text *inner) {
    onnx_put_bytes(message, field, inner->length ? inner->data : "", inner->length);
    text_free(inner);
}

/* ---- Types ---- */

static const struct type {
    const char *name;
    int number, bytes; /* of an element; 0: cannot be written */
} types[] = {{"float32", 1, 4},   {"uint8", 2, 1},  {"int8", 3, 0}, {"int32", 6, 4},
             {"int64", 7, 8},     {"string", 8, 0}, {"bool", 9, 0}, {"float16", 10, 0},
             {"bfloat16", 16, 0}, {"int4", 22, 0}};

/* Returns a type by its name or number. */
static struct type type_of(const char *word) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, word) == 0)
            return types[i];
    return (struct type){word, atoi(word), 0};
}

static bool is_number(const char *word) {
    char *end;
    strtod(word, &end);
    return end != word && *end == '\0';
}

static void put_dim(struct text *shape, const char *word) {
    struct text dim = {0};
    if (is_number(word))
        onnx_put_number(&dim, 1, (uint64_t)strtoll(word, NULL, 10));
    else if (strcmp(word, "?") != 0)
        put_text(&dim, 2, word);
    put_message(shape, 1, &dim);
}

/* Adds a ValueInfoProto: NAME TYPE EXTENT ... */
static void put_info(struct text *graph, int field, char **words, int count) {
    struct text info = {0}, type = {0}, tensor = {0}, shape = {0};
    bool typed = strcmp(words[1], "-") != 0, shaped = count < 3 || strcmp(words[2], "-") != 0;
    put_text(&info, 1, words[0]);
    onnx_put_number(&tensor, 1, (uint64_t)type_of(words[1]).number);
    for (int i = 2; shaped && i < count; i++)
        put_dim(&shape, words[i]);
    if (shaped)
        put_message(&tensor, 2, &shape);
    put_message(&type, 1, &tensor);
    if (typed)
        put_message(&info, 2, &type);
    put_message(graph, field, &info);
    text_free(&type);
}

/* ---- Tensors ---- */

static void append_number(struct text *raw, struct type type, const char *word) {
    float real = strtof(word, NULL);
    int64_t number = strtoll(word, NULL, 10);
    must(type.bytes > 0, type.name);
    append(raw, type.number == 1 ? (void *)&real : (void *)&number, (size_t)type.bytes);
}

static void fill_tensor(struct text *tensor, char **words, int count) {
    OWN(text_free) struct text raw = {0};
    const struct type type = type_of(words[1]);
    int i = 2;
    for (; i < count && strcmp(words[i], ":") != 0; i++)
        onnx_put_number(tensor, 1, (uint64_t)strtoll(words[i], NULL, 10));
    onnx_put_number(tensor, 2, (uint64_t)type.number);
    put_text(tensor, 8, words[0]);
    for (i++; i < count; i++)
        append_number(&raw, type, words[i]);
    if (raw.length > 0)
        onnx_put_bytes(tensor, 9, raw.data, raw.length);
}

static void put_initial(struct text *graph, int field, char **words, int count) {
    struct text tensor = {0};
    fill_tensor(&tensor, words, count);
    put_message(graph, field, &tensor);
}

static void put_external(struct text *graph, int field, char **words, int count) {
    struct text tensor = {0};
    fill_tensor(&tensor, words, count);
    onnx_put_number(&tensor, 14, 1);
    put_message(graph, field, &tensor);
}

static void put_sparse(struct text *graph, int field, char **words, int count) {
    struct text tensor = {0}, sparse = {0};
    (void)count;
    put_text(&tensor, 8, words[0]);
    put_message(&sparse, 1, &tensor);
    put_message(graph, field, &sparse);
}

/* ---- Nodes ---- */

static void put_names(struct text *node, int field, char *names) {
    bool none = strcmp(names, "-") == 0;
    for (char *end, *at = names; !none; at = end + 1) {
        end = at + strcspn(at, ",");
        bool last = *end == '\0';
        *end = '\0';
        put_text(node, field, strcmp(at, "-") == 0 ? "" : at);
        if (last)
            break;
    }
}

static int fill_list(struct text *attribute, char *value) {
    bool floats = strchr(value, '.') != NULL;
    for (char *word = strtok(value, "[,]"); word != NULL; word = strtok(NULL, "[,]")) {
        if (floats)
            put_float(attribute, 7, strtof(word, NULL));
        else
            onnx_put_number(attribute, 8, (uint64_t)strtoll(word, NULL, 10));
    }
    return floats ? 6 : 7;
}

static int fill_value(struct text *attribute, char *value) {
    if (value[0] == '[')
        return fill_list(attribute, value);
    if (!is_number(value)) {
        put_text(attribute, 4, value);
        return 3;
    }
    if (strchr(value, '.') != NULL) {
        put_float(attribute, 2, strtof(value, NULL));
        return 1;
    }
    onnx_put_number(attribute, 3, (uint64_t)strtoll(value, NULL, 10));
    return 2;
}

/* Fills a tensor of one element, "TYPE:NUMBER", without extents. */
static int fill_scalar(struct text *attribute, char *value) {
    struct text tensor = {0};
    char *colon = strchr(value, ':');
    if (colon == NULL)
        bail_out("onnx_text: %s", value);
    *colon = '\0';
    char *words[] = {"", value, ":", colon + 1};
    fill_tensor(&tensor, words, 4);
    put_message(attribute, 5, &tensor);
    return 4;
}

/* ---- Graphs inside the main one ---- */

enum { MOST_GRAPHS = 16 };

/* A graph or function that is being written, or a graph that attributes may name. */
struct part {
    struct text message;
    char *name; /* NULL: the main graph, or a function */
    bool is_function;
};

static struct part open_parts[MOST_GRAPHS], graphs[MOST_GRAPHS];
static int open_count, graph_count;

static struct part *open_part(bool is_function, const char *name) {
    must(open_count < MOST_GRAPHS, "too many graphs inside each other");
    struct part *part = &open_parts[open_count++];
    *part = (struct part){.is_function = is_function, .name = name ? strdup(name) : NULL};
    return part;
}

/* Returns the last graph of that name, or NULL. */
static const struct text *graph_of(const char *name) {
    for (int i = graph_count - 1; i >= 0; i--)
        if (strcmp(graphs[i].name, name) == 0)
            return &graphs[i].message;
    return NULL;
}

/* A graph, or bytes that are none. */
static int fill_branch(struct text *attribute, char *value) {
    const struct text *graph = graph_of(value);
    if (graph != NULL)
        onnx_put_bytes(attribute, 6, graph->data, graph->length);
    else
        put_text(attribute, 6, value);
    return 5;
}

static int fill_reference(struct text *attribute, const char *name) {
    put_text(attribute, 21, name);
    return 2;
}

static void put_attribute(struct text *node, int field, const char *key, char *value) {
    struct text attribute = {0};
    bool scalar = strcmp(key, "tensor") == 0, branch = strcmp(key, "branch") == 0;
    put_text(&attribute, 1, scalar ? "value" : key);
    int type = scalar            ? fill_scalar(&attribute, value)
               : branch          ? fill_branch(&attribute, value)
               : value[0] == '@' ? fill_reference(&attribute, value + 1)
                                 : fill_value(&attribute, value);
    onnx_put_number(&attribute, 20, (uint64_t)type);
    put_message(node, field, &attribute);
}

static void put_pair(struct text *node, char *word) {
    char *equals = strchr(word, '=');
    if (equals == NULL)
        bail_out("onnx_text: %s", word);
    *equals = '\0';
    if (strcmp(word, "name") == 0)
        put_text(node, 3, equals + 1);
    else if (strcmp(word, "domain") == 0)
        put_text(node, 7, equals + 1);
    else
        put_attribute(node, 5, word, equals + 1);
}

static void put_node(struct text *graph, int field, char **words, int count) {
    struct text node = {0};
    put_text(&node, 4, strcmp(words[0], "-") == 0 ? "" : words[0]);
    put_names(&node, 1, words[1]);
    put_names(&node, 2, words[2]);
    for (int i = 3; i < count; i++)
        put_pair(&node, words[i]);
    put_message(graph, field, &node);
}

/* ---- Lines ---- */

static void put_opset(struct text *model, int field, char **words, int count) {
    struct text opset = {0};
    if (count > 1)
        put_text(&opset, 1, words[1]);
    onnx_put_number(&opset, 2, (uint64_t)strtoll(words[0], NULL, 10));
    put_message(model, field, &opset);
}

/* Begins a function: DOMAIN NAME INPUTS [KEY=DEFAULT ...]; without words, adds one that is empty.
 */
static void put_function(struct text *model, char **words, int count) {
    if (count < 3) {
        put_text(model, 25, "");
        return;
    }
    struct text *function = &open_part(true, NULL)->message;
    put_text(function, 10, words[0]);
    put_text(function, 1, words[1]);
    put_names(function, 4, words[2]);
    for (int i = 3; i < count; i++) {
        char *equals = strchr(words[i], '=');
        must(equals != NULL, words[i]);
        *equals = '\0';
        put_attribute(function, 11, words[i], equals + 1);
    }
}

static void end_part(struct text *model) {
    must(open_count > 1, "end of no graph");
    struct part *part = &open_parts[--open_count];
    if (part->is_function) {
        put_message(model, 25, &part->message);
        return;
    }
    must(graph_count < MOST_GRAPHS, "too many graphs");
    graphs[graph_count++] = *part;
}

/* Lines that are not a field of the innermost graph.  Returns false for others. */
static bool put_frame(struct text *model, const char *key, char **words, int count) {
    if (strcmp(key, "graph") == 0)
        put_text(&open_part(false, words[0])->message, 2, words[0]);
    else if (strcmp(key, "function") == 0)
        put_function(model, words, count);
    else if (strcmp(key, "end") == 0)
        end_part(model);
    else
        return false;
    return true;
}

/* Fields of a graph and of a function; 0: the model's. */
static void put_line(struct text *model, const char *key, char **words, int count) {
    static const struct {
        const char *key;
        void (*put)(struct text *message, int field, char **words, int count);
        int in_graph, in_function;
    } kinds[] = {
        {"opset", put_opset, 0, 9},     {"node", put_node, 1, 7},
        {"initial", put_initial, 5, 0}, {"external", put_external, 5, 0},
        {"input", put_info, 11, 0},     {"output", put_info, 12, 0},
        {"info", put_info, 13, 12},     {"sparse", put_sparse, 15, 0},
    };
    struct part *part = &open_parts[open_count - 1];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].key, key) == 0) {
            int field = part->is_function ? kinds[i].in_function : kinds[i].in_graph;
            kinds[i].put(field == 0 ? model : &part->message, field == 0 ? 8 : field, words, count);
            return;
        }
    bail_out("onnx_text: %s", key);
}

enum { MOST_WORDS = 256 };

static int split(char *line, char **words) {
    int count = 0;
    for (char *rest = NULL, *word = strtok_r(line, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        if (count == MOST_WORDS)
            bail_out("onnx_text: %s", word);
        words[count++] = word;
    }
    return count;
}

static void forget_graphs(void) {
    while (graph_count > 0) {
        struct part *part = &graphs[--graph_count];
        text_free(&part->message);
        free(part->name);
    }
}

void onnx_write(const char *description, struct text *file) {
    char *copy = strdup(description), *words[MOST_WORDS], *rest = NULL;
    open_count = 0;
    onnx_put_number(file, 1, 11);
    put_text(&open_part(false, NULL)->message, 2, "test");
    for (char *line = strtok_r(copy, "\n;", &rest); line != NULL;
         line = strtok_r(NULL, "\n;", &rest)) {
        int count = split(line, words);
        if (count > 0 && !put_frame(file, words[0], words + 1, count - 1))
            put_line(file, words[0], words + 1, count - 1);
    }
    must(open_count == 1, "a graph without an end");
    put_message(file, 7, &open_parts[0].message);
    forget_graphs();
    free(copy);
}
