/* The reader of ONNX models: specs of every op, what is left alone, what is refused and in which
   words; and files that are no models: mutations, truncations, nesting, tiny ones that would be
   huge.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "../import/onnx/onnx.h"
#include "../gen/spec.h"
#include "fence.h"
#include "onnx_text.h"
#include "tap.h"

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

/* ---- Specs ---- */

#define OPSET "opset 24\n"

static const struct {
    const char *name, *model, *specs; /* as an array */
} mappings[] = {
    {"TensorScatter",
     OPSET "input past float16 B 8 1024 128\ninput new float16 B 8 1 128\ninput at int64 B\n"
           "node TensorScatter past,new,at present mode=circular axis=2\n",
     "[{'op': 'TensorScatter', 'axis': 2, 'mode': 'circular', 'dtype': 'float16',"
     "'past_cache': ['?', 8, 1024, 128], 'update': ['?', 8, 1, 128], 'write_indices': ['?']}]"},
    {"TensorScatter without indices",
     OPSET "input past int4 2 3 5\ninput new int4 2 1 5\nnode TensorScatter past,new,- present\n",
     "[{'op': 'TensorScatter', 'axis': -2, 'mode': 'linear', 'dtype': 'int4',"
     "'past_cache': [2, 3, 5], 'update': [2, 1, 5]}]"},
    {"Gather", OPSET "input d float32 4 5 6\ninput i int32 2 3\nnode Gather d,i o axis=-2\n",
     "[{'op': 'stablehlo.gather', 'operand': 'tensor<4x5x6xf32>', 'start_indices': "
     "'tensor<2x3xi32>', 'offset_dims': [0, 3], 'collapsed_slice_dims': [1], "
     "'operand_batching_dims': [], 'start_indices_batching_dims': [], 'start_index_map': [1], "
     "'index_vector_dim': 2, 'slice_sizes': [4, 1, 6]}]"},
    {"Gather by one index", OPSET "input d bfloat16 4 5\ninput i int64\nnode Gather d,i o\n",
     "[{'op': 'stablehlo.gather', 'operand': 'tensor<4x5xbf16>', 'start_indices': 'tensor<i64>',"
     "'offset_dims': [0], 'collapsed_slice_dims': [0], 'operand_batching_dims': [],"
     "'start_indices_batching_dims': [], 'start_index_map': [0], 'index_vector_dim': 0,"
     "'slice_sizes': [1, 5]}]"},
    {"GatherElements on the leading part of its data",
     OPSET "input d float32 4 5\ninput i int64 3 7\nnode GatherElements d,i o axis=1\n",
     "[{'op': 'stablehlo.gather', 'operand': 'tensor<3x5xf32>', 'start_indices': "
     "'tensor<3x7xi64>', 'offset_dims': [], 'collapsed_slice_dims': [1], "
     "'operand_batching_dims': [0], 'start_indices_batching_dims': [0], 'start_index_map': [1], "
     "'index_vector_dim': 2, 'slice_sizes': [1, 1]}]"},
    {"GatherND",
     OPSET "input d uint8 2 3 4 5\ninput i int64 2 7 2\nnode GatherND d,i o batch_dims=1\n",
     "[{'op': 'stablehlo.gather', 'operand': 'tensor<2x3x4x5xui8>', 'start_indices': "
     "'tensor<2x7x2xi64>', 'offset_dims': [2], 'collapsed_slice_dims': [1, 2], "
     "'operand_batching_dims': [0], 'start_indices_batching_dims': [0], 'start_index_map': "
     "[1, 2], 'index_vector_dim': 2, 'slice_sizes': [1, 1, 1, 5]}]"},
    {"ScatterElements",
     OPSET "input d float32 4 5\ninput i int32 4 2\ninput u float32 4 2\n"
           "node ScatterElements d,i,u o axis=-1 reduction=max\n",
     "[{'op': 'stablehlo.scatter', 'inputs': 'tensor<4x5xf32>', 'scatter_indices': "
     "'tensor<4x2xi32>', 'updates': 'tensor<4x2xf32>', 'update_window_dims': [], "
     "'inserted_window_dims': [1], 'input_batching_dims': [0], 'scatter_indices_batching_dims': "
     "[0], 'scatter_dims_to_operand_dims': [1], 'index_vector_dim': 2, 'update_computation': "
     "'maximum'}]"},
    {"ScatterND",
     OPSET "input d float32 4 5 6\ninput i int64 3 2\ninput u float32 3 6\n"
           "node ScatterND d,i,u o reduction=mul\n",
     "[{'op': 'stablehlo.scatter', 'inputs': 'tensor<4x5x6xf32>', 'scatter_indices': "
     "'tensor<3x2xi64>', 'updates': 'tensor<3x6xf32>', 'update_window_dims': [1], "
     "'inserted_window_dims': [0, 1], 'input_batching_dims': [], 'scatter_indices_batching_dims': "
     "[], 'scatter_dims_to_operand_dims': [0, 1], 'index_vector_dim': 1, 'update_computation': "
     "'multiply'}]"},
    {"Attention",
     OPSET
     "input q float16 B 4 1 16\ninput k float16 B 2 M 16\ninput v float16 B 2 M 8\n"
     "input m bool 1 M\ninput n int64 B\nnode Attention q,k,v,m,-,-,n y is_causal=1 scale=0.5\n"
     "output y float16 B 4 1 8\n",
     "[{'op': 'Attention', 'opset': 24, 'is_causal': 1, 'scale': 0.5, 'T1': 'float16', 'T2': "
     "'float16', 'U': 'bool', 'Q': ['?', 4, 1, 16], 'K': ['?', 2, '?', 16], 'V': ['?', 2, '?', 8], "
     "'attn_mask': [1, '?'], 'nonpad_kv_seqlen': ['?']}]"},
    {"Attention's meaning is of opset 25 later on",
     "opset 28\ninput q float32 1 2 8\nnode Attention q,q,q y,k,v q_num_heads=2 kv_num_heads=2\n"
     "output y float32 1 2 8\ninfo k float32 1 2 2 4\n",
     "[{'op': 'Attention', 'opset': 25, 'q_num_heads': 2, 'kv_num_heads': 2, 'T1': 'float32', "
     "'T2': 'float32', 'Q': [1, 2, 8], 'K': [1, 2, 8], 'V': [1, 2, 8]}]"},
    {"a chain: shapes follow from node to node, constants have theirs, equal specs are one",
     OPSET "initial d float32 3 2 : 1 2 3 4 5 6\nnode Constant - i value_ints=[0,-1]\n"
           "node Gather d,i a domain=ai.onnx\nnode Gather d,i b\nnode Gather a,i c\noutput c -\n",
     "[{'op': 'stablehlo.gather', 'operand': 'tensor<3x2xf32>', 'start_indices': 'tensor<2xi64>',"
     "'offset_dims': [1], 'collapsed_slice_dims': [0], 'operand_batching_dims': [],"
     "'start_indices_batching_dims': [], 'start_index_map': [0], 'index_vector_dim': 1,"
     "'slice_sizes': [1, 2]},"
     "{'op': 'stablehlo.gather', 'operand': 'tensor<2x2xf32>', 'start_indices': 'tensor<2xi64>',"
     "'offset_dims': [1], 'collapsed_slice_dims': [0], 'operand_batching_dims': [],"
     "'start_indices_batching_dims': [], 'start_index_map': [0], 'index_vector_dim': 1,"
     "'slice_sizes': [1, 2]}]"},
};

/* JSON in apostrophes, for C. */
static json_t *parse(const char *text) {
    char quoted[4096];
    snprintf(quoted, sizeof quoted, "%s", text);
    for (char *c = quoted; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    return json_loads(quoted, 0, NULL);
}

static void check_mappings(void) {
    for (size_t i = 0; i < sizeof mappings / sizeof *mappings; i++) {
        struct result result;
        read_model(mappings[i].model, &result);
        json_t *made = specs_write(&result.specs), *wanted = parse(mappings[i].specs);
        if (!ok(result.done && json_equal(json_object_get(made, "kernels"), wanted), "%s",
                mappings[i].name)) {
            char *text = json_dumps(made, JSON_COMPACT);
            diag("%s %s", result.error.text, text);
            free(text);
        }
        json_decref(made);
        json_decref(wanted);
        spec_list_free(&result.specs);
    }
}

/* ---- What is left alone ---- */

#define ONE "input d float32 4 5\ninput i int64 3\nnode Gather d,i o\n"

static const struct {
    const char *name, *model, *note;
} notes[] = {
    {"other ops, the most frequent first",
     OPSET ONE
     "node Add o,o a\nnode MatMul a,a b\nnode Add b,b c\nnode Gather c,i e domain=com.x\n",
     "note: left alone: 2 Add, 1 MatMul, 1 com.x.Gather\n"},
    {"branches", OPSET ONE "node If d x then_branch=t branch=xyz\n",
     "note: left alone: 1 If with its branches\n"},
    {"functions", OPSET ONE "function\nfunction\n",
     "note: functions of the model's own are left alone: 2\n"},
    {"nodes of which the model says too little",
     OPSET ONE "input s float32 n 5\nnode Gather s,i p\nnode Relu d r\nnode Gather r,i q\n",
     "note: left alone: 2 Gather, 1 Relu\n"},
    {"and why", OPSET ONE "input s float32 n 5\nnode Gather s,i p name=second\n",
     "1 of these are of ops that kvmill has, but the model says too little; the first: node second "
     "(Gather): \"s\" is float32 [?, 5]; accepted: a known type and known extents\n"},
    {"heads that only a run knows",
     OPSET ONE "input q float32 B H S 8\ninput k float32 B 2 T 8\ninput v float32 B N T 8\n"
               "node Attention k,k,v y\nnode Attention q,k,v z\n",
     "the first: node 2 (Attention): \"q\" is float32 [?, ?, ?, 8]; accepted: a known type and "
     "rank, numbers and sizes of heads\n"},
    {"sizes that only a run knows",
     OPSET ONE "input q float32 B S D\nnode Attention q,q,q y q_num_heads=2 kv_num_heads=2\n",
     "\"q\" is float32 [?, ?, ?]; accepted: a known type and rank, numbers and sizes of heads\n"},
    {"a type that is not known", OPSET ONE "input s -\nnode Gather s,i p\n",
     "\"s\" is of no known type without a shape"},
    {"strings", OPSET ONE "input s string 4\nnode Gather s,i p\n", "\"s\" is string [4]"},
    {"sparse initialisers", OPSET ONE "sparse s\nnode Gather s,i p\n", "\"s\" is of no known type"},
    {"types that came later", OPSET ONE "input s 26 4\nnode Gather s,i p\n",
     "\"s\" is of no known type [4]"},
    {"indices from the end", OPSET ONE, "note: indices of gathers and scatters count from 0"},
    {"the leading part of the data",
     OPSET "input d float32 4 5\ninput i int64 3 5\nnode GatherElements d,i o axis=1\n",
     "note: in 1 nodes indices are fewer than data along other axes"},
};

static void check_notes(void) {
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
        struct result result;
        read_model(notes[i].model, &result);
        const char *text = result.specs.notes.data;
        if (!ok(result.done && text != NULL && strstr(text, notes[i].note) != NULL,
                "left alone: %s", notes[i].name))
            diag("%s %s", result.error.text, text ? text : "no note");
        spec_list_free(&result.specs);
    }
}

/* ---- What is refused ---- */

#define D     "input d float32 4 5\n"
#define I     "input i int64 3\n"
#define CACHE "input p float32 2 4 5\ninput u float32 2 1 5\n"
#define WIDE  "input d float32 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n"

static const struct {
    const char *model, *message;
} refused[] = {
    {"", "no op of kvmill in it, but no node; accepted: TensorScatter, "},
    {OPSET D "node Add d,d o\n", "no op of kvmill in it, but 1 Add; accepted: TensorScatter, "},
    {OPSET "input d float32 n\n" I "node Gather d,i o name=g\n",
     "node g (Gather): \"d\" is float32 [?]; accepted: a known type and known extents"},
    {"opset 29\n" D I "node Gather d,i o\n",
     "imports opset 29 of ONNX's ops; accepted: one of 1 to"},
    {"opset 0\n" D, "imports opset 0 of"},
    {OPSET "opset 23\n" D, "imports opset 23 of ONNX's ops; accepted: one of"},
    {"opset 9 com.x\n" D I "node Gather d,i o\n",
     "node 0 (Gather): the model imports opset 0 (0: none); accepted: 1 to 28"},
    {"opset 23\n" CACHE "node TensorScatter p,u o\n",
     "imports opset 23 (0: none); accepted: 24 to"},
    {OPSET D D, "\"d\" is defined twice; accepted: a name of its own"},
    {OPSET D I "node Gather d,i d\n", "node 0 (Gather): \"d\" is defined twice"},
    {OPSET D I "node Gather d,x o\n", "node 0 (Gather): input \"x\" is nothing so far; accepted: "},
    {OPSET D I "node Add d,b a\nnode Add a,d b\n", "node 0 (Add): input \"b\" is nothing so far"},
    {OPSET D I "node Gather o,i o\n", "input \"o\" is nothing so far"},
    {OPSET D I "node Gather d,i o\noutput x float32 1\n",
     "output \"x\" of the graph is made by no node"},
    {OPSET D I "node - d,i o\n", "has no op; accepted: an op_type"},
    {OPSET "input d 29 4\n", "\"d\" has element type 29; accepted: 1 to 28"},
    {OPSET "input d float32 -7\n",
     "\"d\" has extent -7 along axis 0; accepted: 0 or more, or a name"},
    {OPSET "initial d float32 -1 :\n", "\"d\" has extent -1 along axis 0; accepted: 0 or more"},
    {OPSET "input d float32 2\ninitial d int64 2 : 1 2\n",
     "initialiser \"d\" has type 7, as an input it has 1; accepted: one type"},
    {OPSET "initial d float32 1 : 1\ninitial d float32 1 : 1\n", "\"d\" is defined twice"},
    {OPSET D I "node Gather d,i,i o\n", "node 0 (Gather): 3 inputs; accepted: at most 2"},
    {OPSET D I "node Gather d o\n", "input 1 is not there; accepted: one that is"},
    {OPSET D I "node Gather d,i o,p\n", "2 outputs; accepted: 1 to 1, the first with a name"},
    {OPSET D I "node Gather d,i -\n", "0 outputs; accepted: 1 to 1"},
    {OPSET D I "node Gather d,i o axes=1\n", "has an attribute \"axes\"; accepted: axis"},
    {OPSET D I "node Gather d,i o axis=1.5\n", "axis is a float; accepted: an integer"},
    {OPSET D I "node Gather d,i o axis=2\n", "axis is 2; accepted for data of 2 axes: -2 to 1"},
    {OPSET D I "node Gather d,i o axis=-3\n", "axis is -3; accepted for data of 2 axes: -2 to 1"},
    {OPSET "input d float32\n" I "node Gather d,i o\n", "data has no axes; accepted: at least one"},
    {OPSET D "input i float32 3\nnode Gather d,i o\n",
     "indices is float32; accepted: int32, int64"},
    {OPSET D "input i int32 3 1\nnode GatherND d,i o\n", "indices is int32; accepted: int64"},
    {OPSET D "input i int64 3 3\nnode GatherND d,i o\n",
     "indices ends with an axis of 3; accepted: 1 to 2 components"},
    {OPSET D "input i int64 3 0\nnode GatherND d,i o\n",
     "ends with an axis of 0; accepted: 1 to 2"},
    {OPSET D "input i int64\nnode GatherND d,i o\n",
     "batch_dims is 0; accepted: less than the axes"},
    {OPSET D "input i int64 3 1\nnode GatherND d,i o batch_dims=2\n",
     "batch_dims is 2; accepted: less than the axes of data, 2, and of indices, 2"},
    {OPSET D "input i int64 3 1\nnode GatherND d,i o batch_dims=1\n", "node 0 (GatherND): C17: "},
    {OPSET WIDE I "node Gather d,i o\n", "\"d\" has 33 axes; accepted: at most 32"},
    {OPSET "input d int4 4\n" I "node Gather d,i o\n",
     "\"d\" is int4; accepted: elements of whole bytes"},
    {OPSET D I "node GatherElements d,i o\n",
     "indices has 1 axes; accepted: as many as the data, 2"},
    {OPSET D "input i int64 4 6\nnode GatherElements d,i o\n",
     "indices has extent 6 along axis 1; accepted: at most the data's, 5"},
    {OPSET "input d float32 0 5\n" I "node Gather d,i o\n", "node 0 (Gather): slice_sizes[0]"},
    {OPSET D "input i int64 4 2\ninput u float32 4 3\nnode ScatterElements d,i,u o axis=1\n",
     "updates and indices differ in shape; accepted: one shape"},
    {OPSET D "input i int64 2 2\ninput u float16 2\nnode ScatterND d,i,u o\n",
     "node 0 (ScatterND): C6: "},
    {OPSET D "input i int64 2 2\ninput u float32 2\nnode ScatterND d,i,u o reduction=mean\n",
     "reduction is \"mean\" in opset 24; accepted: none, from 16 add, mul, from 18 max, min"},
    {"opset 16\n" D "input i int64 2 2\ninput u float32 2\nnode ScatterND d,i,u o reduction=max\n",
     "reduction is \"max\" in opset 16; accepted: "},
    {OPSET D "input i int64 2 2\ninput u float32 2\nnode ScatterND d,i,u o reduction=1\n",
     "reduction is an integer; accepted: a string"},
    {OPSET D "input i int64 2 2\ninput u float32 2\n"
             "node ScatterND d,i,u o reduction=incrementally-and-so-on\n",
     "reduction is \"incrementally-a...\", 23 bytes; accepted: at most 15"},
    {OPSET D "input i int64 2 2\ninput u float32 2\nnode ScatterND d,i,u o\ninfo o float32 9 9\n",
     "\"o\" is float32 [4, 5]; accepted: what the model says, float32 [9, 9]"},
    {OPSET CACHE "node TensorScatter p,u o mode=round\n",
     "node 0 (TensorScatter)/mode: is \"round\""},
    {OPSET CACHE "node TensorScatter p,u o axis=0\n", "node 0 (TensorScatter): axis is 0"},
    {OPSET CACHE "node TensorScatter u,p o\n", "node 0 (TensorScatter): "},
    {OPSET "input p float32 2 4 5\ninput u float16 2 1 5\nnode TensorScatter p,u o\n",
     "update is float16; accepted: past_cache's, float32"},
    {OPSET CACHE "input w int32 2\nnode TensorScatter p,u,w o\n",
     "write_indices is int32; accepted: int64"},
    {OPSET "input q float32 1 2 3 4\nnode Attention q,q,q y\noutput y float32 1 2 3 5\n",
     "\"y\" is float32 [1, 2, 3, 4]; accepted: what the model says, float32 [1, 2, 3, 5]"},
    {OPSET "input q float32 1 2 8\nnode Attention q,q,q y\n", "node 0 (Attention): "},
    {OPSET D I "node Gather d,i o name=a\x1b[2Jb axis=9\n", "node a?[2Jb (Gather): axis is 9"},
};

/* A message has a file and says what is accepted. */
static bool says_enough(const char *message) {
    return strncmp(message, "/proc/self/fd/", 14) == 0 && strstr(message, "accepted") != NULL;
}

static void check_refused(void) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct result result;
        read_model(refused[i].model, &result);
        if (!ok(!result.done && result.error.exit_code == EXIT_USER &&
                    says_enough(result.error.text) &&
                    strstr(result.error.text, refused[i].message) != NULL,
                "refused: %s", refused[i].message))
            diag("%s%s", refused[i].model, result.error.text);
        spec_list_free(&result.specs);
    }
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

static void write_rich(struct text *file) {
    char description[4096];
    snprintf(description, sizeof description, "%s%s",
             "input c2 int64 2 2\ninput k2 int32 2 2\ninput m int64 2 1\ninput u float32 2 5\n",
             rich);
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

static void fuzz_bytes(uint64_t seed, int64_t rounds) {
    enum { ROOM = 1 << 14 };
    static unsigned char data[ROOM];
    struct text file = {0};
    time_t begin = time(NULL);
    int64_t round = 0, wrong = 0;
    write_rich(&file);
    for (; goes_on(round, rounds, begin) && wrong < 3; round++) {
        char words[32];
        snprintf(words, sizeof words, "bytes %lld", (long long)round);
        struct dice dice = dice_for(seed, words);
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

static const char *pick(struct dice *dice, const char *const *words) {
    int count = 0;
    while (words[count] != NULL)
        count++;
    return words[dice_range(dice, 0, count - 1)];
}

static const char *const names[] = {"a", "b", "c", "d", "e", "f", "-", NULL};
static const char *const types[] = {"float32", "int64",   "int32", "float16", "uint8", "string",
                                    "bool",    "27",      "99",    "0",       "int4",  "-",
                                    "float32", "float32", "int64", "int64",   NULL};
static const char *const dims[] = {"0",
                                   "1",
                                   "2",
                                   "3",
                                   "4",
                                   "5",
                                   "?",
                                   "n",
                                   "-1",
                                   "-9",
                                   "9223372036854775807",
                                   "4611686018427387904",
                                   "2",
                                   "2",
                                   NULL};
static const char *const ops_of_models[] = {"Gather",    "GatherElements",
                                            "GatherND",  "ScatterElements",
                                            "ScatterND", "TensorScatter",
                                            "Attention", "Constant",
                                            "Add",       NULL};
static const char *const attributes[] = {"axis=0",
                                         "axis=1",
                                         "axis=-1",
                                         "axis=-9223372036854775808",
                                         "batch_dims=1",
                                         "batch_dims=-1",
                                         "reduction=add",
                                         "reduction=min",
                                         "reduction=",
                                         "mode=circular",
                                         "value_int=3",
                                         "value_ints=[1,2]",
                                         "value_floats=[0.5]",
                                         "tensor=int64:5",
                                         "branch=xx",
                                         "axis=1.5",
                                         "name=x",
                                         "domain=ai.onnx",
                                         "domain=com.x",
                                         "axis=word",
                                         NULL};

/* Mostly a name of its own. */
static void print_value(struct dice *dice, int number, struct text *text) {
    const char *name = names[dice_once_in(dice, 50) ? 0 : number];
    text_print(text, "%s %s %s", dice_once_in(dice, 4) ? "initial" : "input", name,
               pick(dice, types));
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

static void fuzz_models(uint64_t seed, int64_t rounds) {
    time_t begin = time(NULL);
    int64_t round = 0, wrong = 0;
    for (; goes_on(round, rounds, begin) && wrong < 3; round++) {
        char words[32];
        struct text text = {0}, file = {0};
        snprintf(words, sizeof words, "model %lld", (long long)round);
        struct dice dice = dice_for(seed, words);
        text_print(&text, "opset %d\n", (int)dice_range(&dice, 10, 29));
        for (int k = 0; k < 6; k++)
            print_value(&dice, k, &text);
        for (int k = (int)dice_range(&dice, 0, 2); k >= 0; k--)
            print_node(&dice, k, &text);
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

static void check_truncations(void) {
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

static void check_files(void) {
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

int main(void) {
    uint64_t seed = dice_seed();
    int64_t rounds = is_slow_run() ? 300 : 20000;
    check_mappings();
    check_notes();
    check_refused();
    check_files();
    check_truncations();
    check_nesting(is_slow_run() ? 1 << 12 : 1 << 16);
    check_tiny_nodes(1 << 18);
    check_long_list(1 << 20);
    fuzz_bytes(seed, rounds);
    fuzz_models(seed, rounds);
    ok(seen.read > 20 && seen.refused > 100 && seen.specs > 100 && seen.constants > 100,
       "%lld models were read, %lld refused; %lld specs, %lld constants", (long long)seen.read,
       (long long)seen.refused, (long long)seen.specs, (long long)seen.constants);
    return done_testing();
}
