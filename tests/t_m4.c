/* The macro library and the program that drives it: loops, checks, straight-line moves, leftovers,
   and what is said when m4 or a template is missing.

   SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../gen/isa_list.h"
#include "../gen/m4.h"
#include "case_table.h"
#include "common.h"

/* ---- A template directory of our own: the library is the real one, test.m4 is ours ---- */

static const char *template_path(const char *name) {
    return scratch_path("templates/%s", name);
}

static void link_library(const char *name) {
    char *absolute = realpath(source_path("templates/%s", name), NULL);
    if (absolute == NULL || symlink(absolute, template_path(name)) != 0)
        bail_out("cannot link %s: %s", name, strerror(errno));
    free(absolute);
}

static void make_folder(void) {
    static const char *const library[] = {"lib", "isa", "format", "kernel", "pack"};
    if (mkdir(template_path(""), 0777) != 0)
        bail_out("cannot make %s: %s", template_path(""), strerror(errno));
    for (size_t i = 0; i < COUNT(library); i++)
        link_library(library[i]);
    setenv("KVMILL_DATADIR", scratch_folder(), 1);
}

static void write_template(const char *text) {
    write_text(template_path("test.m4"), text);
}

/* The expansion of test.m4, or NULL.  Good until the next call. */
static const char *expand_files(struct expansion *expansion, struct error *error) {
    static struct text result;
    text_free(&result);
    *error = (struct error){0};
    bool done = expand(expansion, &result, error);
    text_free(&expansion->definitions);
    return !done ? NULL : result.data ? result.data : "";
}

static const char *expand_text(const char *template, struct error *error) {
    struct expansion expansion = {.files = {"lib/base.m4", "lib/words.m4", "-", "test.m4"}};
    write_template(template);
    return expand_files(&expansion, error);
}

/* ---- What expands to what ---- */

ROWS(expands, 2) {
    struct error error;
    const char *text = expand_text(cells[1], &error);
    ok_text(text ? text : error.text, cells[2] ? cells[2] : "", "%s", cells[0]);
}

ROWS(fails, 3) {
    struct error error;
    const char *text = expand_text(cells[1], &error);
    ok_failed(text != NULL, &error, EXIT_BUG, NULL, cells[2], "fails: %s", cells[0]);
}

TABLE(m4);

/* Long loops neither end early nor overflow a stack. */
TEST(long_loop) {
    struct error error;
    const char *text = expand_text("km_each(«I», 1, 20000, 1, «x»)", &error);
    ok(text != NULL && strspn(text, "x") == 20000 && text[20000] == '\0', "km_each 20000 times");
}

/* ---- Definitions ---- */

TEST(definitions) {
    struct expansion expansion = {.files = {"lib/base.m4", "-", "test.m4"}};
    struct error error;
    write_template("km_word [km_nothing] km_least km_most");
    bool defined = define_text(&expansion, "word", "a, (b)") &&
                   define_text(&expansion, "nothing", "") &&
                   define_integer(&expansion, "least", INT64_MIN) &&
                   define_integer(&expansion, "most", INT64_MAX);
    const char *text = expand_files(&expansion, &error);
    ok(defined && text != NULL &&
           strcmp(text, "a, (b) [] -9223372036854775808 9223372036854775807") == 0,
       "definitions reach the template as they are");
}

TEST(appending) {
    struct expansion expansion = {.files = {"lib/base.m4", "-", "test.m4"}};
    struct text result = {0};
    struct error error;
    write_template("second");
    bool done = text_print(&result, "km_first, ") && expand(&expansion, &result, &error);
    ok(done && strcmp(result.data, "km_first, second") == 0,
       "the expansion is appended, and only it is searched for leftovers");
    text_free(&result);
}

/* ---- Straight-line moves ---- */

enum { MOST_BYTES = 300 };

/* Moves read back from "step_W(t + AT, f + AT);" lines. */
struct moves {
    int count;
    bool right;    /* inside, source and target alike */
    bool complete; /* every byte */
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

/* The widest step that fits covers most; no sequence of moves inside [0, bytes) is shorter. */
static int fewest_moves(const char *widths, int bytes) {
    for (const char *at = widths; *at != '\0'; at += strspn(at, ", ")) {
        int width = (int)strtol(at, (char **)&at, 10);
        if (width <= bytes)
            return (bytes + width - 1) / width;
    }
    return 0;
}

/* One line of the expansion: "N: moves". */
static bool check_line(const char **text, int bytes, const char *widths) {
    int number, length;
    if (sscanf(*text, " row %d:%n", &number, &length) != 1 || number != bytes) {
        diag("%d bytes: no such line at \"%.40s\"", bytes, *text);
        return false;
    }
    struct moves moves = read_moves(*text + length, bytes, text);
    int fewest = fewest_moves(widths, bytes);
    bool good = moves.right && moves.complete && moves.count == fewest;
    if (!good)
        diag("%d bytes: %d moves (%d are enough)%s%s", bytes, moves.count, fewest,
             moves.right ? "" : ", outside or askew", moves.complete ? "" : ", with holes");
    return good;
}

/* The files of an instruction set, those that it extends first, between others. */
struct isa_files {
    char names[MOST_ISAS][64];
    struct expansion expansion;
};

static int add_isa(struct isa_files *files, int at, const struct isa *isa) {
    if (isa->extends != NULL)
        at = add_isa(files, at, kvmill_isa_extended(isa));
    snprintf(files->names[at], sizeof files->names[at], "isa/%s.m4", isa->name);
    return at + 1;
}

/* `last` ends with NULL. */
static void list_files(struct isa_files *files, const struct isa *isa, const char *const *last) {
    static const char *const first[] = {"lib/base.m4", "lib/words.m4", "lib/vocabulary.m4", "-"};
    int count = 0, isas = add_isa(files, 0, isa);
    files->expansion = (struct expansion){0};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        files->expansion.files[count++] = first[i];
    for (int i = 0; i < isas; i++)
        files->expansion.files[count++] = files->names[i];
    for (int i = 0; last[i] != NULL; i++)
        files->expansion.files[count++] = last[i];
}

static const char *const only_test[] = {"test.m4", NULL};

static void test_moves_by(const struct isa *isa, const char *list) {
    char template[256], widths[64] = "";
    struct isa_files files;
    struct error error;
    list_files(&files, isa, only_test);
    snprintf(template, sizeof template,
             "%s\nkm_each(«N», 0, %d, 1, «row N:\nkm_straight(«step», «%s», N, «t», «f»)»)", list,
             MOST_BYTES, list);
    write_template(template);
    const char *text = expand_files(&files.expansion, &error);
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

TEST(moves) {
    struct isa_list isas;
    struct isa_words every;
    struct error error;
    must(isa_list_parse(isa_join(",", &every), &isas, &error), error.text);
    for (int i = 0; i < isas.count; i++) {
        test_moves_by(isas.items[i], "km_widths");
        test_moves_by(isas.items[i], "km_join_widths");
    }
}

/* ---- The contract of the instruction sets ---- */

static void test_contract_word(const char *word) {
    char template[128], message[64];
    struct expansion expansion = {.files = {"lib/base.m4", "lib/words.m4", "lib/vocabulary.m4", "-",
                                            "isa/scalar.m4", "test.m4", "isa/contract.m4"}};
    struct error error;
    snprintf(template, sizeof template, "m4_undefine(«%s»)m4_dnl\n", word);
    snprintf(message, sizeof message, "must define %s\n", word);
    write_template(template);
    const char *text = expand_files(&expansion, &error);
    bool told = text == NULL && error.exit_code == EXIT_BUG && strstr(error.text, message) &&
                (strcmp(word, "km_isa") == 0 || strstr(error.text, "isa/scalar.m4")) &&
                strstr(error.text, "isa/contract.m4:");
    if (!ok(told, "an instruction set without %s is refused, naming file and word", word))
        diag("%s", text ? "accepted" : error.text);
}

/* An instruction set's file fulfils the contract, and defines without writing. */
static void test_contract_kept(const struct isa *isa) {
    static const char *const last[] = {"isa/contract.m4", "lib/kernel.m4", NULL};
    struct isa_files files;
    struct error error;
    list_files(&files, isa, last);
    const char *text = expand_files(&files.expansion, &error);
    ok_text(text ? text : error.text, "", "isa/%s.m4 fulfils the contract and emits nothing",
            isa->name);
}

/* A width without its word would be found only by the shapes that need it. */
static void test_words_of_widths(const struct isa *isa) {
    struct isa_files files;
    struct error error;
    list_files(&files, isa, only_test);
    write_template("km_for_words(«W», «km_widths», «km_need(«km_move_»W, «isa»)»)"
                   "km_for_words(«W», «km_join_widths», «km_need(«km_join_»W, «isa»)»)");
    const char *text = expand_files(&files.expansion, &error);
    ok_text(text ? text : error.text, "", "isa/%s.m4: every width has its word", isa->name);
}

/* Every word that isa/contract.m4 lists in «quotes» after km_need_all. */
static int test_contract_words(void) {
    static const char before[] = ", «";
    char *text = read_bytes(source_path("templates/isa/contract.m4"), NULL), word[32];
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

/* An instruction set has versions of words that there are. */
static void test_unknown_word(void) {
    struct expansion expansion = {
        .files = {"lib/base.m4", "lib/vocabulary.m4", "-", "isa/scalar.m4", "test.m4"}};
    struct error error;
    write_template("km_define(«load_f99», « »)");
    const char *text = expand_files(&expansion, &error);
    ok_failed(text != NULL, &error, EXIT_BUG, NULL, "test.m4:1: load_f99 has no meaning: ",
              "a word that the vocabulary does not have is refused, naming file and word");
}

TEST(contract) {
    struct isa_list isas;
    struct isa_words every;
    struct error error;
    int words = test_contract_words();
    ok(words >= 5, "the contract has %d words", words);
    test_unknown_word();
    must(isa_list_parse(isa_join(",", &every), &isas, &error), error.text);
    for (int i = 0; i < isas.count; i++) {
        test_contract_kept(isas.items[i]);
        test_words_of_widths(isas.items[i]);
    }
}

/* ---- The environment ---- */

static void test_environment_error(const char *name, struct expansion *expansion,
                                   const char *message) {
    struct error error;
    const char *text = expand_files(expansion, &error);
    ok_failed(text != NULL, &error, EXIT_ENVIRONMENT, NULL, message, "%s", name);
}

TEST(missing_template) {
    struct expansion expansion = {.files = {"lib/base.m4", "-", "kernel/no_such.c.m4"}};
    test_environment_error("a missing template: the environment, with its path", &expansion,
                           template_path("kernel/no_such.c.m4: "));
}

TEST(missing_directory) {
    struct expansion expansion = {.files = {"lib/base.m4", "-", "test.m4"}};
    setenv("KVMILL_DATADIR", "/nonexistent", 1);
    test_environment_error("no templates at all: says where it looked, and who says so", &expansion,
                           "/nonexistent/templates/lib/base.m4: ");
    test_environment_error("and names the variable", &expansion, "KVMILL_DATADIR");
    setenv("KVMILL_DATADIR", scratch_folder(), 1);
}

TEST(missing_m4) {
    struct expansion expansion = {.files = {"lib/base.m4", "-", "test.m4"}};
    write_template("text");
    setenv("KVMILL_M4", "/nonexistent", 1);
    test_environment_error("no m4: the environment, with its path", &expansion, "/nonexistent: ");
    setenv("KVMILL_M4", "", 1);
    struct error error;
    const char *text = expand_files(&expansion, &error);
    ok(text != NULL && strcmp(text, "text") == 0, "an empty KVMILL_M4 is none");
    unsetenv("KVMILL_M4");
}

/* Killed, out of memory, not GNU m4: it says nothing, so the message has to. */
TEST(silent_m4) {
    struct expansion expansion = {.files = {"lib/base.m4", "-", "test.m4"}};
    struct error error;
    setenv("KVMILL_M4", "false", 1);
    const char *text = expand_files(&expansion, &error);
    bool told = text == NULL && error.exit_code != 0 && strlen(error.text) > strlen("false");
    if (!ok(told, "an m4 that fails in silence: the message says that it failed"))
        diag("got \"%s\"", text ? text : error.text);
    unsetenv("KVMILL_M4");
}

/* m4 looks in the current directory before anywhere else. */
TEST(decoy) {
    struct error error;
    char here[1024];
    if (getcwd(here, sizeof here) == NULL || chdir(scratch_folder()) != 0)
        bail_out("cannot change to %s", scratch_folder());
    write_text("test.m4", "decoy");
    const char *text = expand_text("ours", &error);
    ok_text(text, "ours", "a file in the current directory is not taken");
    if (chdir(here) != 0)
        bail_out("cannot change back to %s", here);
}

void before_tests(void) {
    unsetenv("KVMILL_M4");
    unsetenv("KVMILL_TRACE");
    make_folder();
}
