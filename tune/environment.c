/* SPDX-License-Identifier: Apache-2.0 */
#include "environment.h"

#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Files of the system ---- */

enum { LINE_SIZE = 512 };

/* Sets a path below the root.  Returns false if there is no room. */
static bool find_below(const char *root, const char *path, char whole[LINE_SIZE]) {
    return snprintf(whole, LINE_SIZE, "%s%s", root, path) < LINE_SIZE;
}

static FILE *open_below(const char *root, const char *path) {
    char whole[LINE_SIZE];
    return find_below(root, path, whole) ? fopen(whole, "r") : NULL;
}

static bool read_line(const char *root, const char *path, char *line, size_t size) {
    char whole[LINE_SIZE];
    return find_below(root, path, whole) && text_first_line(whole, line, size);
}

/* A line of a file, and the word for it. */
struct translation {
    const char *line, *word;
};

static bool translate(const char *root, const char *path, const struct translation *table,
                      char word[WORD_SIZE]) {
    char line[LINE_SIZE];
    if (!read_line(root, path, line, sizeof line))
        return false;
    for (; table->line != NULL; table++)
        if (strcmp(table->line, line) == 0) {
            snprintf(word, WORD_SIZE, "%s", table->word);
            return true;
        }
    return false;
}

/* ---- The processor ---- */

/* Keys of /proc/cpuinfo.  x86 has names for its CPUs, AArch64 has numbers. */
static const char *const cpu_keys[] = {"vendor_id",   "cpu family",      "model",
                                       "stepping",    "CPU implementer", "CPU part",
                                       "CPU variant", "model name"};
enum { CPU_KEYS = sizeof cpu_keys / sizeof *cpu_keys, VENDOR = 0, NAME = CPU_KEYS - 1 };

static void note_value(const char *line, char values[CPU_KEYS][64]) {
    const char *colon = strchr(line, ':');
    size_t length = colon != NULL ? (size_t)(colon - line) : 0;
    while (length > 0 && isspace((unsigned char)line[length - 1]))
        length--;
    for (int i = 0; colon != NULL && i < CPU_KEYS; i++)
        if (strlen(cpu_keys[i]) == length && strncmp(cpu_keys[i], line, length) == 0) {
            const char *value = colon + 1 + strspn(colon + 1, " \t");
            snprintf(values[i], 64, "%.*s", (int)strcspn(value, "\n"), value);
        }
}

/* Joins the values to "vendor family-model-stepping name". */
static void join_cpu(char values[CPU_KEYS][64], char cpu[CPU_SIZE]) {
    size_t at = 0;
    *cpu = '\0';
    for (int i = 0; i < CPU_KEYS && at < CPU_SIZE; i++)
        if (*values[i] != '\0') {
            const char *between = at == 0 ? "" : i == NAME || i == VENDOR + 1 ? " " : "-";
            at += (size_t)snprintf(cpu + at, CPU_SIZE - at, "%s%s", between, values[i]);
        }
    if (*cpu == '\0')
        strcpy(cpu, "unknown");
}

bool environment_read_cpu(const char *root, char cpu[CPU_SIZE], struct error *error) {
    char line[LINE_SIZE], values[CPU_KEYS][64] = {""};
    FILE *stream = open_below(root, "/proc/cpuinfo");
    if (stream == NULL && errno != ENOENT)
        return fail_errno(error, "read", "/proc/cpuinfo");
    while (stream != NULL && fgets(line, sizeof line, stream) != NULL && *line != '\n')
        note_value(line, values);
    if (stream != NULL)
        fclose(stream);
    join_cpu(values, cpu);
    return true;
}

static void read_clock(const char *root, struct environment *e) {
    static const struct translation no_turbo[] = {{"0", "on"}, {"1", "off"}, {NULL, NULL}};
    static const struct translation boost[] = {{"1", "on"}, {"0", "off"}, {NULL, NULL}};
    char line[LINE_SIZE];
    if (read_line(root, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", line, sizeof line))
        snprintf(e->governor, WORD_SIZE, "%.31s", line);
    if (!translate(root, "/sys/devices/system/cpu/intel_pstate/no_turbo", no_turbo, e->turbo))
        translate(root, "/sys/devices/system/cpu/cpufreq/boost", boost, e->turbo);
    translate(root, "/sys/devices/system/cpu/smt/active", boost, e->smt);
}

/* Reads the size of a cache.  Ignores caches for instructions alone. */
static void read_cache(const char *root, int index, struct environment *e) {
    static const char folder[] = "/sys/devices/system/cpu/cpu0/cache/index";
    char path[LINE_SIZE], level[LINE_SIZE], type[LINE_SIZE], size[LINE_SIZE];
    snprintf(path, sizeof path, "%s%d/level", folder, index);
    bool known = read_line(root, path, level, sizeof level);
    snprintf(path, sizeof path, "%s%d/type", folder, index);
    known = known && read_line(root, path, type, sizeof type);
    snprintf(path, sizeof path, "%s%d/size", folder, index);
    known = known && read_line(root, path, size, sizeof size);
    int at = known ? atoi(level) - 1 : -1;
    if (at >= 0 && at < MOST_CACHES && strcmp(type, "Instruction") != 0 &&
        strchr(size, 'K') != NULL)
        e->cache_kib[at] = atoi(size);
}

/* ---- Other load ---- */

static void read_load(const char *root, struct environment *e) {
    char line[LINE_SIZE], *end;
    if (!read_line(root, "/proc/loadavg", line, sizeof line))
        return;
    double load = strtod(line, &end);
    if (end != line)
        e->load = load;
}

/* Reads the quota from cpu.max: "quota period" in microseconds, or "max period".  The control group
   is in /proc/self/cgroup, "0::/path". */
static void read_quota(const char *root, struct environment *e) {
    char line[LINE_SIZE], path[LINE_SIZE] = "/";
    double quota, period;
    if (read_line(root, "/proc/self/cgroup", line, sizeof line) && strncmp(line, "0::/", 4) == 0)
        snprintf(path, sizeof path, "%s", line + 3);
    char file[LINE_SIZE + 32];
    snprintf(file, sizeof file, "/sys/fs/cgroup%s%scpu.max", path,
             path[strlen(path) - 1] == '/' ? "" : "/");
    if (!read_line(root, file, line, sizeof line))
        return;
    e->quota = 0;
    if (sscanf(line, "%lf %lf", &quota, &period) == 2 && period > 0)
        e->quota = quota / period;
}

static bool has_flag(const char *root, const char *flag) {
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    FILE *stream = open_below(root, "/proc/cpuinfo");
    while (stream != NULL && !found && getline(&line, &room, stream) > 0)
        found = strncmp(line, "flags", 5) == 0 && strstr(line, flag) != NULL;
    if (stream != NULL)
        fclose(stream);
    free(line);
    return found;
}

static void read_virtual(const char *root, struct environment *e) {
    static const struct translation makers[] = {{"QEMU", "kvm"},
                                                {"Amazon EC2", "amazon"},
                                                {"Google", "google"},
                                                {"VMware, Inc.", "vmware"},
                                                {"Microsoft Corporation", "hyperv"},
                                                {"Xen", "xen"},
                                                {"innotek GmbH", "virtualbox"},
                                                {NULL, NULL}};
    if (has_flag(root, " hypervisor")) {
        snprintf(e->virtual, WORD_SIZE, "yes");
        translate(root, "/sys/class/dmi/id/sys_vendor", makers, e->virtual);
    } else if (strcmp(e->cpu, "unknown") != 0)
        snprintf(e->virtual, WORD_SIZE, "none");
}

int environment_processors(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                       : (int)sysconf(_SC_NPROCESSORS_ONLN);
}

void environment_read(const char *root, struct environment *environment) {
    *environment = (struct environment){.governor = "unknown",
                                        .turbo = "unknown",
                                        .smt = "unknown",
                                        .virtual = "unknown",
                                        .load = -1,
                                        .quota = -1,
                                        .processors = environment_processors()};
    struct error ignored;
    if (!environment_read_cpu(root, environment->cpu, &ignored))
        strcpy(environment->cpu, "unknown");
    read_clock(root, environment);
    for (int i = 0; i <= MOST_CACHES; i++)
        read_cache(root, i, environment);
    read_load(root, environment);
    read_quota(root, environment);
    read_virtual(root, environment);
}

/* ---- As text ---- */

static void print_number(double value, const char *at_zero, char word[WORD_SIZE]) {
    if (value < 0)
        strcpy(word, "unknown");
    else if (value == 0 && at_zero != NULL)
        strcpy(word, at_zero);
    else
        snprintf(word, WORD_SIZE, "%.2f", value);
}

bool environment_print(const struct environment *e, struct text *text) {
    char load[WORD_SIZE], quota[WORD_SIZE];
    print_number(e->load, NULL, load);
    print_number(e->quota, "all", quota);
    return text_print(text, "governor=%s turbo=%s smt=%s virtual=%s load=%s quota=%s processors=%d",
                      e->governor, e->turbo, e->smt, e->virtual, load, quota, e->processors);
}

/* ---- Whether the machine is fit for measuring ---- */

const char *grade_word(enum grade grade) {
    static const char *const words[] = {
        [GRADE_NOTE] = "note", [GRADE_WARNING] = "warning", [GRADE_UNFIT] = "unfit"};
    return words[grade];
}

struct remarks {
    struct remark *items;
    int count;
};

__attribute__((format(printf, 4, 5))) static void remark(struct remarks *remarks, bool applies,
                                                         enum grade grade, const char *format,
                                                         ...) {
    va_list arguments;
    if (!applies)
        return;
    struct remark *r = &remarks->items[remarks->count++];
    r->grade = grade;
    va_start(arguments, format);
    vsnprintf(r->text, sizeof r->text, format, arguments);
    va_end(arguments);
}

static bool is(const char *word, const char *expected) {
    return strcmp(word, expected) == 0;
}

int environment_remarks(const struct environment *e, int threads,
                        struct remark items[MOST_REMARKS]) {
    struct remarks remarks = {items, 0};
    double idle = e->processors - e->load;
    remark(&remarks, e->quota > 0 && e->quota < threads, GRADE_UNFIT,
           "the control group may use %.2f processors for %d threads: they will be stopped; raise "
           "cpu.max",
           e->quota, threads);
    remark(&remarks, threads > e->processors, GRADE_UNFIT,
           "%d threads on %d processors take turns; use fewer", threads, e->processors);
    remark(&remarks, e->load >= 0 && idle < threads - 0.5, GRADE_WARNING,
           "other programs are running (load %.1f on %d processors); stop them", e->load,
           e->processors);
    remark(&remarks, is(e->governor, "powersave") || is(e->governor, "ondemand"), GRADE_WARNING,
           "governor %s: the clock follows the load; use performance", e->governor);
    remark(&remarks, is(e->turbo, "on"), GRADE_NOTE,
           "turbo is on: the clock depends on heat and on other cores; ratios are still good");
    remark(&remarks, is(e->smt, "on"), GRADE_NOTE,
           "two threads share a core; pin threads to cores of their own");
    remark(&remarks, !is(e->virtual, "none") && !is(e->virtual, "unknown"), GRADE_NOTE,
           "a virtual machine%s%s%s: others on the host may use its memory bandwidth and caches",
           is(e->virtual, "yes") ? "" : " (", is(e->virtual, "yes") ? "" : e->virtual,
           is(e->virtual, "yes") ? "" : ")");
    return remarks.count;
}
