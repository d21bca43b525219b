/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE
#include "flow_file.h"

#include <glob.h>

#include "../import/spec_file.h"
#include "common.h"

/* ---- Words ---- */

static struct { char name[16], text[1024]; } words[48];
static int word_count;

static void add_word(char *const *cell) {
    if (word_count == COUNT(words) || strlen(cell[1]) >= sizeof words->text)
        bail_out("no room for the word %s", cell[0]);
    snprintf(words[word_count].name, sizeof words->name, "%s", cell[0]);
    strcpy(words[word_count++].text, cell[1]);
}

static const char *text_of(const char *name, size_t length) {
    if (word_count == 0)
        each_row("flow_words", 2, add_word);
    for (int i = 0; i < word_count; i++)
        if (strlen(words[i].name) == length && memcmp(words[i].name, name, length) == 0)
            return words[i].text;
    bail_out("flow_words.tsv has no \"%.*s\"", (int)length, name);
}

/* Prints "c = Add a b beta=-1>" as JSON; returns the text after it. */
static const char *put_op(FILE *out, const char *text) {
    char op[256], *rest = op, *word, *output = NULL;
    size_t length = strcspn(text, ">");
    bool has_inputs = false;
    snprintf(op, sizeof op, "%.*s", (int)length, text);
    if (strstr(op, " = ") != NULL) {
        output = strsep(&rest, " ");
        strsep(&rest, " ");
    }
    fprintf(out, "{\"op\": \"%s\"", strsep(&rest, " "));
    while ((word = strsep(&rest, " ")) != NULL) {
        size_t name = strcspn(word, "=");
        bool is_input = word[name] == '\0';
        if (is_input)
            fprintf(out, "%s\"%s\"", has_inputs ? ", " : ", \"inputs\": [", word);
        else
            fprintf(out, "%s, \"%.*s\": %s", has_inputs ? "]" : "", (int)name, word,
                    word + name + 1);
        has_inputs = is_input;
    }
    fprintf(out, has_inputs ? "]" : "");
    if (output != NULL)
        fprintf(out, ", \"output\": \"%s\"", output);
    fprintf(out, "}");
    return text + length + 1;
}

static void put_text(FILE *out, const char *text, const char *given, const char *more) {
    while (*text != '\0') {
        size_t word = strspn(text + 1, "abcdefghijklmnopqrstuvwxyz_");
        if (text[0] == '<') {
            text = put_op(out, text + 1);
        } else if (text[0] == '$' && word > 0) {
            put_text(out, text_of(text + 1, word), given, more);
            text += 1 + word;
        } else if (text[0] == '$') {
            put_text(out, text[1] == '*' ? given : more, "", "");
            text += 2;
        } else {
            fputc(*text++, out);
        }
    }
}

char *flow_text(const char *word, const char *given, const char *more) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    put_text(out, text_of(word, strlen(word)), given, more);
    must(fclose(out) == 0, "out of memory");
    return text;
}

/* ---- Files ---- */

const char *flow_file(void) {
    return scratch_path("flow.json");
}

bool flow_read(const char *text, struct spec_list *specs, struct error *error) {
    *specs = (struct spec_list){0};
    *error = (struct error){0};
    write_text(flow_file(), text);
    return specs_read(flow_file(), specs, error);
}

const kvmill_flow *flow_open(const char *text, struct spec_list *specs) {
    struct error error;
    must(flow_read(text, specs, &error), error.text);
    return flow_of_spec(&specs->items[0]);
}

const kvmill_flow *flow_open_json(json_t *json, struct spec_list *specs) {
    FREED char *text = json_dumps(json, 0);
    return flow_open(text, specs);
}

json_t *flow_json(const char *name) {
    const char *path = source_path("configs/flows/%s.json", name);
    json_t *json = json_load_file(path, 0, NULL);
    if (json == NULL)
        bail_out("cannot read %s", path);
    return json;
}

const char *const *flows_shipped(void) {
    static char *names[32];
    glob_t found;
    if (names[0] != NULL)
        return (const char *const *)names;
    must(glob(source_path("configs/flows/*.json"), 0, NULL, &found) == 0 &&
             found.gl_pathc < COUNT(names),
         "no flows, or too many");
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *name = strrchr(found.gl_pathv[i], '/') + 1;
        names[i] = strndup(name, strcspn(name, "."));
    }
    globfree(&found);
    return (const char *const *)names;
}
