/* Descriptions of machines, tested on trees of files that look like /proc and /sys.

   SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>

#include "../gen/families.h"
#include "../tune/environment.h"
#include "../tune/machine.h"
#include "common.h"
#include "sweeps.h"

/* Writes a file, and makes the folders of its path. */
static void put(const char *path, const char *text) {
    char whole[256];
    snprintf(whole, sizeof whole, "%s", path);
    for (char *slash = whole + 1; (slash = strchr(slash, '/')) != NULL; *slash++ = '/') {
        *slash = '\0';
        mkdir(whole, 0777);
    }
    write_text(whole, text);
}

static struct environment read_tree(void) {
    struct environment environment;
    environment_read(scratch_folder(), &environment);
    environment.processors = 4;
    return environment;
}

/* ---- Rows of tests/tables/environments.tsv, on the tree so far ---- */

ROWS(file, 2) {
    put(scratch_path("%s", cells[0]), cells[1]);
}

ROWS(cpu, 2) {
    struct environment environment = read_tree();
    ok_text(environment.cpu, cells[0], "%s", cells[1]);
}

ROWS(text, 2) {
    struct environment environment = read_tree();
    OWN(text_free) struct text text = {0};
    must(environment_print(&environment, &text), "out of memory");
    ok_text(text.data, cells[0], "%s", cells[1]);
}

ROWS(caches, 2) {
    struct environment environment = read_tree();
    char got[64];
    snprintf(got, sizeof got, "%d %d %d", environment.cache_kib[0], environment.cache_kib[1],
             environment.cache_kib[2]);
    ok_text(got, cells[0], "%s", cells[1]);
}

ROWS(fit, 1) {
    struct environment environment = read_tree();
    struct remark remarks[MOST_REMARKS];
    ok(environment_remarks(&environment, atoi(cells[0]), remarks) == 0, "nothing to remark on");
}

/* A number of threads, and a remark with these words; "no note": the remark must not be there. */
ROWS(remark, 3) {
    static const char *const names[] = {"note", "warning", "unfit"};
    static const enum grade grades[] = {GRADE_NOTE, GRADE_WARNING, GRADE_UNFIT};
    bool wanted = strncmp(cells[1], "no ", 3) != 0, found = false;
    enum grade grade = grades[place_of(cells[1] + (wanted ? 0 : 3), names, 3)];
    struct environment environment = read_tree();
    struct remark remarks[MOST_REMARKS];
    int count = environment_remarks(&environment, atoi(cells[0]), remarks);
    for (int i = 0; i < count; i++)
        found = found || (remarks[i].grade == grade && strstr(remarks[i].text, cells[2]) != NULL);
    ok(found == wanted, "%s threads: %s: %s", cells[0], cells[1], cells[2]);
}

/* ---- Results of this machine or of another ---- */

TABLE(environments);

TEST(misfits) {
    struct machine machine = {"MadeUp 6-1-1 Test CPU", "cc 1.0", "-O3", "all", {""}}, other;
    struct sweep_key key = made_key(0);
    for (int i = 0; i < MOST_FAMILIES; i++)
        strcpy(machine.family_templates[i], key.templates);
    other = machine;
    ok(machine_misfit(&machine, &key) == FITS, "results of this machine fit");
    strcpy(other.cpu, "Other");
    ok(machine_misfit(&other, &key) == FOREIGN_CPU, "those of another CPU do not");
    other = machine;
    memset(other.family_templates, 0, sizeof other.family_templates);
    ok(machine_misfit(&other, &key) == STALE_TEMPLATES, "nor of other templates");
    other = machine;
    strcpy(other.flags, "-O2");
    ok(machine_misfit(&other, &key) == OTHER_COMPILER, "nor of other flags");
    OWN(sweeps_free) struct sweeps sweeps = {0};
    size_t results[MISFITS];
    make_sweep(&sweeps, 0, 0);
    make_sweep(&sweeps, 1, 0);
    machine_filter(&other, 1 << FOREIGN_CPU, &sweeps, results);
    ok(sweeps.count == 2 && results[OTHER_COMPILER] == 116,
       "what is not refused stays, and is counted");
    machine_filter(&other, REFUSE_ALL, &sweeps, results);
    ok(sweeps.count == 0 && results[OTHER_COMPILER] == 116, "what is refused goes");
}

static void write_family(const struct family *family) {
    for (int i = 0; family->variants[i] != NULL; i++)
        put(scratch_path("templates/kernel/%s/%s_%s.c.m4", family->folder, family->name,
                         family->variants[i]),
            "a");
    for (int i = 0; family->libraries[i] != NULL; i++)
        put(scratch_path("templates/kernel/%s/%s.m4", family->folder, family->libraries[i]), "a");
    put(scratch_path("templates/kernel/%s/%s.m4", family->folder, family->tunables), "a");
}

static void write_templates(void) {
    put(scratch_path("templates/lib/a.m4"), "a");
    put(scratch_path("templates/cpu/a.m4"), "a");
    put(scratch_path("templates/words/a.h"), "a");
    put(scratch_path("templates/format/a.m4"), "a");
    for (size_t i = 0; family_at(i) != NULL; i++)
        write_family(family_at(i));
}

static bool same_of(const struct machine *a, const struct machine *b, const char *spec) {
    return strcmp(machine_templates(a, spec), machine_templates(b, spec)) == 0;
}

TEST(hash) {
    static const char attend[] = "kvmill_attend_f16", gather[] = "kvmill_gather_b8";
    struct machine first, second;
    struct error error;
    write_templates();
    ok(machine_hash_templates(scratch_path("templates"), &first, &error),
       "templates have a hash, %s", first.templates);
    put(scratch_path("templates/lib/a.m4~"), "b");
    put(scratch_path("templates/kernel/gather/none.m4"), "b");
    ok(machine_hash_templates(scratch_path("templates"), &second, &error) &&
           same_of(&first, &second, ""),
       "of what kernels are made of alone");
    put(scratch_path("templates/lib/a.m4"), "m4_dnl words\n/* words */\n a m4_dnl more\n");
    machine_hash_templates(scratch_path("templates"), &first, &error);
    put(scratch_path("templates/lib/a.m4"), "\n a /* other words */ ");
    ok(machine_hash_templates(scratch_path("templates"), &second, &error) &&
           same_of(&first, &second, ""),
       "without comments and spaces");
    put(scratch_path("templates/lib/a.m4"), " a m4_dnl\n");
    ok(machine_hash_templates(scratch_path("templates"), &second, &error) &&
           !same_of(&first, &second, ""),
       "with what joins lines");
    put(scratch_path("templates/lib/a.m4"), " a ");
    put(scratch_path("templates/kernel/gather/gather_windows.c.m4"), "b");
    ok(machine_hash_templates(scratch_path("templates"), &second, &error) &&
           !same_of(&first, &second, ""),
       "which their text changes");
    ok(!same_of(&first, &second, gather) && same_of(&first, &second, attend),
       "that of their family alone");
    put(scratch_path("templates/words/a.h"), "b");
    ok(machine_hash_templates(scratch_path("templates"), &second, &error) &&
           !same_of(&first, &second, attend),
       "but what families share changes all");
    ok(!machine_hash_templates(scratch_path("templates/none"), &second, &error) &&
           error.exit_code == EXIT_ENVIRONMENT,
       "no templates are an error");
}
