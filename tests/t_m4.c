/* The macro library and the code that runs m4: loops, checks, straight-line moves, leftovers, and
   messages about a missing m4 or template.

   SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../gen/isa_list.h"
#include "../gen/m4.h"
#include "common.h"

/* ---- A template directory of the test: test.m4 is its own, the library is the real one ---- */

static const char *template_path(const char *name) {
    return scratch_path("templates/%s", name);
}

static void link_library(const char *name) {
    FREED char *absolute = realpath(source_path("templates/%s", name), NULL);
    if (absolute == NULL || symlink(absolute, template_path(name)) != 0)
        bail_out("cannot link %s: %s", name, strerror(errno));
}

static void make_folder(void) {
    static const char *const library[] = {"lib", "cpu", "format", "kernel", "pack"};
    if (mkdir(template_path(""), 0777) != 0)
        bail_out("cannot make %s: %s", template_path(""), strerror(errno));
    for (size_t i = 0; i < COUNT(library); i++)
        link_library(library[i]);
    setenv("KVMILL_DATADIR", scratch_folder(), 1);
}

static struct error error; /* of the last expansion */

/* Lists files of templates/, separated by spaces. */
static struct expansion list_files(char *files) {
    struct expansion expansion = {.definitions = {NULL, 0}};
    int count = 0;
    for (char *file = strtok(files, " "); file != NULL; file = strtok(NULL, " "))
        expansion.files[count++] = file;
    return expansion;
}

/* Returns the expansion with this test.m4, valid until the next call, or NULL. */
static const char *expand_with(struct expansion *expansion, const char *template) {
    static struct text result;
    text_free(&result);
    error = (struct error){0};
    write_text(template_path("test.m4"), template);
    bool done = expand(expansion, &result, &error);
    text_free(&expansion->definitions);
    return !done ? NULL : result.data ? result.data : "";
}

static const char *expand_files(const char *files, const char *template) {
    char words[1024];
    snprintf(words, sizeof words, "%s", files);
    struct expansion expansion = list_files(words);
    return expand_with(&expansion, template);
}

static const char *expand_text(const char *template) {
    return expand_files("lib/base.m4 lib/words.m4 - test.m4", template);
}

/* ---- Expansions ---- */

ROWS(expands, 2) {
    const char *text = expand_text(cells[1]);
    ok_text(text ? text : error.text, cells[2] ? cells[2] : "", "%s", cells[0]);
}

ROWS(fails, 3) {
    ok_failed(expand_text(cells[1]) != NULL, &error, EXIT_BUG, NULL, cells[2], "fails: %s",
              cells[0]);
}

/* NAME FILES TEMPLATE CODE WORDS */
ROWS(fails_with, 5) {
    ok_failed(expand_files(cells[1], cells[2]) != NULL, &error, atoi(cells[3]), NULL, cells[4],
              "fails: %s", cells[0]);
}

TABLE(m4);

/* Long loops are complete and do not overflow a stack. */
TEST(long_loop) {
    const char *text = expand_text("km_each(«I», 1, 20000, 1, «x»)");
    ok(text != NULL && strspn(text, "x") == 20000 && text[20000] == '\0', "km_each 20000 times");
}

/* ---- Definitions ---- */

TEST(definitions) {
    struct expansion expansion = {.files = {"lib/base.m4", "-", "test.m4"}};
    must(define_text(&expansion, "word", "a, (b)") && define_text(&expansion, "nothing", "") &&
             define_integer(&expansion, "least", INT64_MIN) &&
             define_integer(&expansion, "most", INT64_MAX),
         "no memory");
    ok_text(expand_with(&expansion, "km_word [km_nothing] km_least km_most"),
            "a, (b) [] -9223372036854775808 9223372036854775807",
            "definitions reach the template as they are");
}

TEST(appending) {
    struct expansion expansion = {.files = {"lib/base.m4", "-", "test.m4"}};
    OWN(text_free) struct text result = {0};
    write_text(template_path("test.m4"), "second");
    must(text_print(&result, "km_first, ") && expand(&expansion, &result, &error), error.text);
    ok_text(result.data, "km_first, second",
            "the expansion is appended, and only it is searched for leftovers");
}

/* ---- Straight-line moves ---- */

enum { MOST_BYTES = 300 };

/* Moves read back from "step_W(t + AT, f + AT);" lines. */
struct moves {
    int count;
    bool right;    /* inside, at the same place in source and target */
    bool complete; /* each byte is moved */
};

static struct moves read_moves(const char *text, int bytes, const char **end) {
    struct moves moves = {.right = true, .complete = true};
    bool done[MOST_BYTES] = {false};
    int width, at, from, length;
    while (sscanf(text, " step_%d(t + %d, f + %d);%n", &width, &at, &from, &length) == 3) {
        moves.count++;
        moves.right = moves.right && at == from && at >= 0 && at + width <= bytes;
        for (int i = at; moves.right && i < at + width; i++)
            done[i] = true;
        text += length;
    }
    for (int i = 0; i < bytes; i++)
        moves.complete = moves.complete && done[i];
    *end = text;
    return moves;
}

/* Returns the least number of moves: the widest step that fits comes first, and no sequence of
   moves inside [0, bytes) is shorter. */
static int fewest_moves(const char *widths, int bytes) {
    for (const char *at = widths; *at != '\0'; at += strspn(at, ", ")) {
        int width = (int)strtol(at, (char **)&at, 10);
        if (width <= bytes)
            return (bytes + width - 1) / width;
    }
    return 0;
}

/* Checks one line of the expansion, "N: moves". */
static bool check_line(const char **text, int bytes, const char *widths) {
    int number, length;
    if (sscanf(*text, " row %d:%n", &number, &length) != 1 || number != bytes)
        return diag("%d bytes: no such line at \"%.40s\"", bytes, *text);
    struct moves moves = read_moves(*text + length, bytes, text);
    int fewest = fewest_moves(widths, bytes);
    return (moves.right && moves.complete && moves.count == fewest) ||
           diag("%d bytes: %d moves (%d are enough)%s%s", bytes, moves.count, fewest,
                moves.right ? "" : ", outside or askew", moves.complete ? "" : ", with holes");
}

/* Expands with the file of the instruction set's CPU, and `last`. */
static const char *expand_isa(const struct isa *isa, const char *last, const char *template) {
    char files[256];
    snprintf(files, sizeof files, "lib/base.m4 lib/words.m4 lib/vectors.m4 - cpu/%s.m4 %s",
             kvmill_cpus[isa->cpu], last);
    struct expansion expansion = list_files(files);
    must(define_text(&expansion, "isa", isa->name) && define_text(&expansion, "target", "") &&
             define_integer(&expansion, "lanes", isa->lanes),
         "no memory");
    return expand_with(&expansion, template);
}

static void test_moves_by(const struct isa *isa, const char *list) {
    char template[256], widths[64] = "";
    snprintf(template, sizeof template,
             "%s\nkm_each(«N», 0, %d, 1, «row N:\nkm_straight(«step», «%s», N, «t», «f»)»)", list,
             MOST_BYTES, list);
    const char *text = expand_isa(isa, "test.m4", template);
    bool good = text != NULL && sscanf(text, "%63[^\n]", widths) == 1;
    if (text == NULL)
        diag("%s", error.text);
    text = text ? text + strlen(widths) : "";
    for (int bytes = 0; good && bytes <= MOST_BYTES; bytes++)
        good = check_line(&text, bytes, widths);
    ok(good && text[strspn(text, " \n")] == '\0',
       "%s, %s (%s): 0 to %d bytes, each covered by the fewest moves", isa->name, list, widths,
       MOST_BYTES);
}

static struct isa_list all_isas(void) {
    struct isa_list isas;
    struct isa_words every;
    must(isa_list_parse(isa_join(",", &every), "scalar", &isas, &error), error.text);
    return isas;
}

TEST(moves) {
    const struct isa_list isas = all_isas();
    for (int i = 0; i < isas.count; i++) {
        test_moves_by(isas.items[i], "km_widths");
        test_moves_by(isas.items[i], "km_join_widths");
    }
}

/* ---- The contract of the CPUs ---- */

static void test_contract_word(const char *word) {
    char template[128], message[64];
    snprintf(template, sizeof template, "m4_undefine(«%s»)m4_dnl\n", word);
    snprintf(message, sizeof message, "must define %s\n", word);
    const char *text = expand_files("lib/base.m4 lib/words.m4 lib/vectors.m4 - cpu/any.m4 "
                                    "test.m4 cpu/contract.m4",
                                    template);
    ok_failed(text != NULL || strstr(error.text, "cpu/contract.m4:") == NULL, &error, EXIT_BUG,
              NULL, message, "a CPU without %s is refused, naming the word", word);
}

static void expect_nothing(const char *text, const char *name, const char *what) {
    ok_text(text ? text : error.text, "", "%s %s", name, what);
}

/* Checks that each width has its word: otherwise only shapes that need the width would fail. */
static void test_isa(const struct isa *isa) {
    expect_nothing(expand_isa(isa, "cpu/contract.m4 lib/kernel.m4", ""), isa->name,
                   "fulfils the contract and emits nothing");
    expect_nothing(expand_isa(isa, "test.m4",
                              "km_for_words(«W», «km_widths», «km_need(«km_move_»W, «cpu»)»)"
                              "km_for_words(«W», «km_join_widths», «km_need(«km_join_»W, «cpu»)»)"),
                   isa->name, "has a word for every width");
}

/* Checks every word that cpu/contract.m4 lists in «quotes» after km_need_all; returns their
   number. */
static int test_contract_words(void) {
    static const char before[] = ", «";
    char *text = read_bytes(source_path("templates/cpu/contract.m4"), NULL), word[32];
    int words = 0;
    const char *at = strstr(text, "km_need_all(");
    while (at != NULL && (at = strstr(at, before)) != NULL) {
        at += strlen(before);
        if (sscanf(at, "%31[a-z0-9_]", word) != 1)
            continue;
        test_contract_word(word);
        words++;
    }
    free(text);
    return words;
}

TEST(contract) {
    const struct isa_list isas = all_isas();
    int words = test_contract_words();
    ok(words >= 5, "the contract has %d words", words);
    for (int i = 0; i < isas.count; i++)
        test_isa(isas.items[i]);
}

/* ---- The environment ---- */

/* Checks the message for a variable with a path that does not exist. */
static void lead_nowhere(const char *variable, const char *words, const char *name) {
    setenv(variable, "/dev/null/absent", 1);
    ok_failed(expand_text("text") != NULL, &error, EXIT_ENVIRONMENT, NULL, words, "%s", name);
}

TEST(environment) {
    lead_nowhere("KVMILL_DATADIR", "/dev/null/absent/templates/lib/base.m4: ",
                 "no templates at all: says where it looked");
    lead_nowhere("KVMILL_DATADIR", "KVMILL_DATADIR", "  and names the variable");
    setenv("KVMILL_DATADIR", scratch_folder(), 1);
    lead_nowhere("KVMILL_M4", "/dev/null/absent: ", "no m4: the environment, with its path");
    setenv("KVMILL_M4", "", 1);
    ok_text(expand_text("text"), "text", "an empty KVMILL_M4 is none");
}

/* m4 fails without a message if it is killed, out of memory or not GNU m4, so the error must
   explain. */
TEST(silent_m4) {
    setenv("KVMILL_M4", "false", 1);
    bool done = expand_text("text") != NULL;
    ok(!done && error.exit_code != 0 && strlen(error.text) > strlen("false"),
       "an m4 that fails in silence: the message says that it failed: %s", error.text);
    unsetenv("KVMILL_M4");
}

/* m4 looks in the current directory first. */
TEST(decoy) {
    char here[1024];
    if (getcwd(here, sizeof here) == NULL || chdir(scratch_folder()) != 0)
        bail_out("cannot change to %s", scratch_folder());
    write_text("test.m4", "decoy");
    ok_text(expand_text("ours"), "ours", "a file in the current directory is not taken");
    if (chdir(here) != 0)
        bail_out("cannot change back to %s", here);
}

void before_tests(void) {
    unsetenv("KVMILL_M4");
    unsetenv("KVMILL_TRACE");
    make_folder();
}
