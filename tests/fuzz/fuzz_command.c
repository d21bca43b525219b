/* The command line, a word on each line.  The command runs in its own directory with one file of
   each kind, and has neither m4 nor make.

   SPDX-License-Identifier: Apache-2.0 */
#define main kvmill_main
int kvmill_main(int argc, char **argv);
#include "../../tools/main.c"
#undef main

#include <sys/stat.h>

#include "../../tools/remove_tree.h"
#include "../common.h"
#include "fuzz.h"

enum { MOST_WORDS = 64 };

static const struct {
    const char *name, *text;
} files[] = {
    {"one.json", "{\"op\": \"TensorScatter\", \"dtype\": \"uint8\"}"},
    {"config.json", "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 256, "
                    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2}"},
    {"flow.json", "{\"op\": \"flow\", \"attention\": {\"page_size\": 16}, "
                  "\"index\": [{\"op\": \"topK\", \"inputs\": [\"k\"]}]}"},
    {"text.mlir", "func.func @main() {\n  %a = stablehlo.constant dense<1> : tensor<i32>\n"
                  "  check.expect_eq_const %a, dense<1> : tensor<i32>\n  return\n}\n"},
    {"empty.tune", "kvmill-tune 1\n\nend 0\n"},
    {"empty.db", ""},
};

/* Writes a NumPy file with this shape. */
static void make_array(const char *name, const char *shape, int count) {
    char bytes[256];
    memset(bytes, 1, sizeof bytes);
    int length =
        snprintf(bytes, sizeof bytes,
                 "\x93NUMPY%c%cv%c{'descr': '|u1', 'fortran_order': False, 'shape': (%s), }", 1, 0,
                 0, shape);
    memset(bytes + length, ' ', 127 - (size_t)length);
    bytes[127] = '\n';
    write_bytes(name, bytes, 128 + (size_t)count);
}

static void make_files(void) {
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        write_text(files[i].name, files[i].text);
    make_array("past.npy", "1, 4, 3", 12);
    make_array("update.npy", "1, 1, 3", 3);
}

/* Makes the directory again for each command: an earlier one may have written there. */
static void enter_directory(void) {
    static char *path;
    if (path == NULL) {
        path = strdup(scratch_path("command"));
        setenv("XDG_CACHE_HOME", scratch_folder(), 1);
        setenv("KVMILL_M4", "/dev/null/absent/m4", 1);
        setenv("KVMILL_MAKE", "/dev/null/absent/make", 1);
        setenv("CC", "/dev/null/absent/cc", 1);
    }
    remove_tree(path);
    fuzz_require(mkdir(path, 0700) == 0 && chdir(path) == 0, "%s: cannot use it", path);
    make_files();
}

/* Whether the command writes nothing outside its directory and loads no library of the system. */
static bool stays_inside(const char *word) {
    const char *value = strchr(word, '=');
    return word[0] != '/' && (value == NULL || value[1] != '/') && strstr(word, "..") == NULL &&
           strstr(word, "lib") == NULL && strstr(word, "/proc") == NULL;
}

static int split(char *text, char *words[MOST_WORDS + 2]) {
    int count = 0;
    words[count++] = (char *)"kvmill";
    for (char *word = strtok(text, "\n"); word != NULL && count <= MOST_WORDS;
         word = strtok(NULL, "\n")) {
        if (!stays_inside(word))
            return 0;
        words[count++] = word;
    }
    words[count] = NULL;
    return count;
}

/* Runs the command; getopt starts again, wherever the last command ended it. */
static int run_words(int count, char **words) {
    optind = 0;
    getopt(1, words, "");
    int code = kvmill_main(count, words);
    fflush(stdout);
    return code;
}

void fuzz_command(const unsigned char *data, size_t size) {
    char *words[MOST_WORDS + 2], *text = strndup((const char *)data, size);
    fuzz_require(text != NULL, "out of memory");
    int count = split(text, words);
    if (count > 1) {
        enter_directory();
        int code = run_words(count, words);
        fuzz_require(code >= 0 && code <= EXIT_ENVIRONMENT, "exit code %d", code);
    }
    free(text);
}
