/* The macro library and the program that drives it: loops, checks, straight-line moves, leftovers,
   and what is said when m4 or a template is missing.

   SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../gen/isa_list.h"
#include "../gen/m4.h"
#include "tap.h"

/* ---- A template directory of our own: the library is the real one, test.m4 is ours ---- */

static char folder[] = "/tmp/t_m4.XXXXXX";
static const char *const library[] = {"lib", "isa", "format", "kernel", "pack"};
enum { PARTS = sizeof library / sizeof *library };

static const char *in_folder(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/templates/%s", folder, name);
    return path;
}

static void link_library(const char *name) {
    char target[1024];
    const char *srcdir = getenv("srcdir");
    snprintf(target, sizeof target, "%s/templates/%s", srcdir ? srcdir : ".", name);
    char *absolute = realpath(target, NULL);
    if (absolute == NULL || symlink(absolute, in_folder(name)) != 0)
        bail_out("cannot link %s: %s", target, strerror(errno));
    free(absolute);
}

static void make_folder(void) {
    char templates[64];
    if (mkdtemp(folder) == NULL)
        bail_out("cannot make %s: %s", folder, strerror(errno));
    snprintf(templates, sizeof templates, "%s/templates", folder);
    if (mkdir(templates, 0777) != 0)
        bail_out("cannot make %s: %s", templates, strerror(errno));
    for (int i = 0; i < PARTS; i++)
        link_library(library[i]);
    setenv("KVMILL_DATADIR", folder, 1);
}

static void remove_folder(void) {
    char templates[64];
    for (int i = 0; i < PARTS; i++)
        unlink(in_folder(library[i]));
    unlink(in_folder("test.m4"));
    snprintf(templates, sizeof templates, "%s/templates", folder);
    rmdir(templates);
    rmdir(folder);
}

static void write_template(const char *text) {
    FILE *stream = fopen(in_folder("test.m4"), "wb");
    if (stream == NULL || fputs(text, stream) < 0 || fclose(stream) != 0)
        bail_out("cannot write a template: %s", strerror(errno));
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

static const struct {
    const char *name, *template, *text;
} expansions[] = {
    {"km_each counts up", "km_each(«I», 0, 3, 1, «I;»)", "0;1;2;3;"},
    {"km_each by steps, not beyond the last", "km_each(«I», 1, 8, 3, «I;»)", "1;4;7;"},
    {"km_each once", "km_each(«I», 5, 5, 1, «I;»)", "5;"},
    {"km_each of a reversed range is nothing", "km_each(«I», 1, 0, 1, «I;»)", ""},
    {"km_each far reversed", "km_each(«I», 0, -9, 1, «I;»)", ""},
    {"km_each from a negative first", "km_each(«I», -2, 0, 1, «I;»)", "-2;-1;0;"},
    {"km_each evaluates its bounds", "km_each(«I», 2 * 3, 2 + 5, 4 - 3, «I;»)", "6;7;"},
    {"km_each in km_each", "km_each(«I», 0, 1, 1, «km_each(«J», I, 1, 1, «IJ I-J;»)»)",
     "IJ 0-0;IJ 0-1;IJ 1-1;"},
    {"km_each gives its counter back", "m4_define(«I», «x»)km_each(«I», 0, 0, 1, «I;»)I", "0;x"},
    {"km_each keeps commas and parentheses", "km_each(«I», 0, 1, 1, «f(I, (I), «a,b»);»)",
     "f(0, (0), a,b);f(1, (1), a,b);"},
    {"km_for_words", "km_for_words(«W», «a, b, c», «[W]»)", "[a][b][c]"},
    {"km_for_words of one", "km_for_words(«W», «a», «[W]»)", "[a]"},
    {"km_for_words of none", "km_for_words(«W», «», «[W]»)", ""},
    {"km_for_words of a macro's words", "m4_define(«L», «8, 4»)km_for_words(«W», «L», «[W]»)",
     "[8][4]"},
    {"km_for_words gives its word back", "m4_define(«W», «x»)km_for_words(«W», «a», «W»)W", "ax"},
    {"km_default defines", "km_default(«D», «1»)D", "1"},
    {"km_default leaves what is defined", "m4_define(«D», «2»)km_default(«D», «1»)D", "2"},
    {"km_default leaves what is defined as nothing", "m4_define(«D», «»)km_default(«D», «1»)[D]",
     "[]"},
    {"km_need of what is there", "m4_define(«D», «»)km_need(«D», «here»)", ""},
    {"km_need_all of what is there", "m4_define(«D», «»)km_need_all(«here», «D», «D»)", ""},
    {"km_need_all of nothing", "km_need_all(«here»)", ""},
    {"km_require of what holds", "km_require(«2 * 2 == 4 && 1», «no»)", ""},
    {"km_if", "km_if(1 > 0, «yes», «no») km_if(1 < 0, «yes», «no»)", "yes no"},
    {"km_if expands only its branch", "km_if(1, «yes», «km_fail(«no»)»)", "yes"},
    {"km_count", "km_count(-1) km_count(0) km_count(128)", "KVMILL_ANY 0 128"},
    {"C is left alone", "#include <a.h> /* len(x), it's */ `b` [1] eval(1) \"define\"",
     "#include <a.h> /* len(x), it's */ `b` [1] eval(1) \"define\""},
    {"words that only look like macros", "akm_b am4_c km m4 KM_X _km",
     "akm_b am4_c km m4 KM_X _km"},
};

static void test_expansions(void) {
    for (size_t i = 0; i < sizeof expansions / sizeof *expansions; i++) {
        struct error error;
        const char *text = expand_text(expansions[i].template, &error);
        if (!ok(text != NULL && strcmp(text, expansions[i].text) == 0, "%s", expansions[i].name))
            diag("got \"%s\"", text ? text : error.text);
    }
}

/* Long loops neither end early nor overflow a stack. */
static void test_long_loop(void) {
    struct error error;
    const char *text = expand_text("km_each(«I», 1, 20000, 1, «x»)", &error);
    ok(text != NULL && strspn(text, "x") == 20000 && text[20000] == '\0', "km_each 20000 times");
}

/* ---- What fails ---- */

static const struct {
    const char *name, *template, *message;
} failures[] = {
    {"km_fail", "one\ntwo\nkm_fail(«because»)\n", "/test.m4:3: because\n"},
    {"km_need", "\nkm_need(«D», «the test»)\n", "/test.m4:2: the test must define D\n"},
    {"km_need_all", "m4_define(«D», «»)km_need_all(«the test», «D», «E», «F»)\n",
     "/test.m4:1: the test must define E\n"},
    {"km_need_all, the last", "m4_define(«D», «»)\nkm_need_all(«the test», «D», «D», «F»)\n",
     "/test.m4:2: the test must define F\n"},
    {"km_require", "\n\n\nkm_require(«2 * 2 == 5», «four»)\n", "/test.m4:4: four\n"},
    {"km_each over nonsense", "km_each(«I», 0, x, 1, «I»)\n", "test.m4:1:"},
    {"a division by zero", "km_if(1 / 0, «a», «b»)\n", "test.m4:1:"},
    {"too few arguments, an m4 warning", "m4_eval()\n", "test.m4:1:"},
    {"an open quote", "«never closed\n", "test.m4"},
    {"an open parenthesis", "km_if(1, 2\n", "test.m4"},
    {"an undefined macro by m4_indir", "m4_indir(«km_no_such»)\n", "km_no_such"},
    {"a file that is not there", "m4_include(«no_such.m4»)\n", "no_such.m4"},
    {"a left over km_ word", "int x;\n  km_no_such(1);\n",
     "test.m4: \"km_no_such\" is left over in line 2 of the expansion"},
    {"a left over km_ word at the start", "km_x", "\"km_x\" is left over in line 1"},
    {"a left over m4_ word", "int x;\n\nm4_no_such", "\"m4_no_such\" is left over in line 3"},
    {"a left over private word", "int x;\n_km_typo(1)", "\"_km_typo\" is left over in line 2"},
    {"a left over quote", "m4_changequote(<,>)<«>", "\"«\" is left over in line 1"},
    {"a left over word behind others", "mkm_a km m4 (km_b1_C)", "\"km_b1_"},
};

static void test_failures(void) {
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        struct error error;
        const char *text = expand_text(failures[i].template, &error);
        bool told = text == NULL && error.exit_code == EXIT_BUG &&
                    strstr(error.text, failures[i].message) != NULL;
        if (!ok(told, "fails: %s", failures[i].name))
            diag("wanted %s, got %d: %s", failures[i].message, error.exit_code,
                 text ? text : error.text);
    }
}

/* ---- Definitions ---- */

static void test_definitions(void) {
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

static void test_appending(void) {
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

static void test_moves(void) {
    struct isa_list isas;
    struct isa_words every;
    struct error error;
    if (!isa_list_parse(isa_join(",", &every), &isas, &error))
        bail_out("%s", error.text);
    for (int i = 0; i < isas.count; i++) {
        test_moves_by(isas.items[i], "km_widths");
        test_moves_by(isas.items[i], "km_join_widths");
    }
}

/* ---- The contract of the instruction sets ---- */

/* The text of a template, without its tail where that is longer. */
static void read_template(const char *name, char *text, size_t size) {
    FILE *stream = fopen(in_folder(name), "rb");
    if (stream == NULL)
        bail_out("cannot read %s: %s", name, strerror(errno));
    text[fread(text, 1, size - 1, stream)] = '\0';
    fclose(stream);
}

static void test_contract_word(const char *word) {
    char template[128], message[64];
    struct expansion expansion = {
        .files = {"lib/base.m4", "lib/words.m4", "lib/vocabulary.m4", "-", "isa/scalar.m4", "test.m4",
                  "isa/contract.m4"}};
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
    if (!ok(text != NULL && *text == '\0', "isa/%s.m4 fulfils the contract and emits nothing",
            isa->name))
        diag("%s", text ? text : error.text);
}

/* A width without its word would be found only by the shapes that need it. */
static void test_words_of_widths(const struct isa *isa) {
    struct isa_files files;
    struct error error;
    list_files(&files, isa, only_test);
    write_template("km_for_words(«W», «km_widths», «km_need(«km_move_»W, «isa»)»)"
                   "km_for_words(«W», «km_join_widths», «km_need(«km_join_»W, «isa»)»)");
    const char *text = expand_files(&files.expansion, &error);
    if (!ok(text != NULL && *text == '\0', "isa/%s.m4: every width has its word", isa->name))
        diag("%s", text ? text : error.text);
}

/* Every word that isa/contract.m4 lists in «quotes» behind km_need_all. */
static int test_contract_words(void) {
    static const char before[] = ", «";
    char text[4096], word[32];
    int words = 0;
    read_template("isa/contract.m4", text, sizeof text);
    const char *at = strstr(text, "km_need_all(");
    while (at != NULL && (at = strstr(at, before)) != NULL) {
        at += strlen(before);
        if (sscanf(at, "%31[a-z0-9_]", word) != 1)
            continue;
        test_contract_word(word);
        words++;
    }
    return words;
}

/* An instruction set has versions of words that there are. */
static void test_unknown_word(void) {
    struct expansion expansion = {
        .files = {"lib/base.m4", "lib/vocabulary.m4", "-", "isa/scalar.m4", "test.m4"}};
    struct error error;
    write_template("km_define(«load_f99», « »)");
    const char *text = expand_files(&expansion, &error);
    bool told = text == NULL && error.exit_code == EXIT_BUG &&
                strstr(error.text, "test.m4:1: load_f99 has no meaning: ");
    if (!ok(told, "a word that the vocabulary does not have is refused, naming file and word"))
        diag("%s", text ? "accepted" : error.text);
}

static void test_contract(void) {
    struct isa_list isas;
    struct isa_words every;
    struct error error;
    int words = test_contract_words();
    ok(words >= 5, "the contract has %d words", words);
    test_unknown_word();
    if (!isa_list_parse(isa_join(",", &every), &isas, &error))
        bail_out("%s", error.text);
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
    bool told = text == NULL && error.exit_code == EXIT_ENVIRONMENT && strstr(error.text, message);
    if (!ok(told, "%s", name))
        diag("wanted %s, got %d: %s", message, error.exit_code, text ? text : error.text);
}

static void test_missing_template(void) {
    struct expansion expansion = {.files = {"lib/base.m4", "-", "kernel/no_such.c.m4"}};
    char path[128];
    snprintf(path, sizeof path, "%s/templates/kernel/no_such.c.m4: ", folder);
    test_environment_error("a missing template: the environment, with its path", &expansion, path);
}

static void test_missing_directory(void) {
    struct expansion expansion = {.files = {"lib/base.m4", "-", "test.m4"}};
    setenv("KVMILL_DATADIR", "/nonexistent", 1);
    test_environment_error("no templates at all: says where it looked, and who says so", &expansion,
                           "/nonexistent/templates/lib/base.m4: ");
    test_environment_error("and names the variable", &expansion, "KVMILL_DATADIR");
    setenv("KVMILL_DATADIR", folder, 1);
}

static void test_missing_m4(void) {
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
static void test_silent_m4(void) {
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
static void test_decoy(void) {
    struct error error;
    char here[1024], decoy[64];
    if (getcwd(here, sizeof here) == NULL || chdir(folder) != 0)
        bail_out("cannot change to %s", folder);
    snprintf(decoy, sizeof decoy, "%s/test.m4", folder);
    FILE *stream = fopen(decoy, "wb");
    if (stream == NULL || fputs("decoy", stream) < 0 || fclose(stream) != 0)
        bail_out("cannot write %s", decoy);
    const char *text = expand_text("ours", &error);
    ok(text != NULL && strcmp(text, "ours") == 0, "a file in the current directory is not taken");
    unlink(decoy);
    if (chdir(here) != 0)
        bail_out("cannot change back to %s", here);
}

int main(void) {
    unsetenv("KVMILL_M4");
    unsetenv("KVMILL_TRACE");
    make_folder();
    test_expansions();
    test_long_loop();
    test_failures();
    test_definitions();
    test_appending();
    test_moves();
    test_contract();
    test_missing_template();
    test_missing_directory();
    test_missing_m4();
    test_silent_m4();
    test_decoy();
    remove_folder();
    return done_testing();
}
