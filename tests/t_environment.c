/* What is said of machines, on trees of files that look like /proc and /sys.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../gen/families.h"
#include "../tune/environment.h"
#include "../tune/machine.h"
#include "common.h"
#include "sweeps.h"

static void put(const char *path, const char *text) {
    char whole[256];
    snprintf(whole, sizeof whole, "%s%s", scratch_folder(), path);
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

static void expect_text(const struct environment *environment, const char *wanted,
                        const char *name) {
    struct text text = {0};
    if (!environment_print(environment, &text))
        bail_out("out of memory");
    ok_text(text.data, wanted, "%s", name);
    text_free(&text);
}

static bool says(const struct environment *environment, int threads, enum grade grade,
                 const char *words) {
    struct remark remarks[MOST_REMARKS];
    int count = environment_remarks(environment, threads, remarks);
    for (int i = 0; i < count; i++)
        if (remarks[i].grade == grade && strstr(remarks[i].text, words) != NULL)
            return true;
    return false;
}

static void test_nothing(void) {
    struct environment e = read_tree();
    struct remark remarks[MOST_REMARKS];
    ok_text(e.cpu, "unknown", "what the system does not say");
    expect_text(&e,
                "governor=unknown turbo=unknown smt=unknown virtual=unknown load=unknown "
                "quota=unknown processors=4",
                "  is unknown");
    ok(environment_remarks(&e, 4, remarks) == 0, "and not remarked on");
}

static void test_server(void) {
    put("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: "
                         "143\nmodel name\t: A  CPU @ 2 GHz\n"
                         "stepping\t: 8\nflags\t\t: fpu sse2\n\nprocessor\t: 1\nmodel\t\t: 7\n");
    put("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
    put("/sys/devices/system/cpu/intel_pstate/no_turbo", "1\n");
    put("/sys/devices/system/cpu/smt/active", "0\n");
    put("/proc/loadavg", "0.05 0.10 0.20 1/200 4711\n");
    put("/proc/self/cgroup", "0::/user.slice/a\n");
    put("/sys/fs/cgroup/user.slice/a/cpu.max", "max 100000\n");
    struct environment e = read_tree();
    struct remark remarks[MOST_REMARKS];
    ok(strcmp(e.cpu, "GenuineIntel 6-143-8 A  CPU @ 2 GHz") == 0, "an x86 CPU: %s", e.cpu);
    expect_text(
        &e, "governor=performance turbo=off smt=off virtual=none load=0.05 quota=all processors=4",
        "a quiet server is described");
    ok(environment_remarks(&e, 4, remarks) == 0, "and fit");
}

static void test_laptop(void) {
    put("/proc/cpuinfo",
        "vendor_id : AuthenticAMD\ncpu family : 25\nflags : fpu hypervisor sse2\n");
    put("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
    put("/sys/devices/system/cpu/intel_pstate/no_turbo", "0\n");
    put("/sys/devices/system/cpu/smt/active", "1\n");
    put("/proc/loadavg", "2.60 0.10 0.20 1/200 4711\n");
    put("/sys/fs/cgroup/user.slice/a/cpu.max", "150000 100000\n");
    put("/sys/class/dmi/id/sys_vendor", "QEMU\n");
    struct environment e = read_tree();
    expect_text(&e,
                "governor=powersave turbo=on smt=on virtual=kvm load=2.60 quota=1.50 processors=4",
                "a busy guest is described");
    ok(says(&e, 2, GRADE_UNFIT, "may use 1.50 processors for 2 threads"),
       "its quota makes it unfit");
    ok(!says(&e, 1, GRADE_UNFIT, "processors"), "but not for one thread");
    ok(says(&e, 5, GRADE_UNFIT, "5 threads on 4 processors"), "too many threads take turns");
    ok(says(&e, 2, GRADE_WARNING, "keep 2.6 of 4 processors busy"), "others are warned of");
    ok(!says(&e, 1, GRADE_WARNING, "busy"), "where they are in the way");
    ok(says(&e, 1, GRADE_WARNING, "governor powersave"), "so is a clock that follows the load");
    ok(says(&e, 1, GRADE_NOTE, "turbo") && says(&e, 1, GRADE_NOTE, "share a core") &&
           says(&e, 1, GRADE_NOTE, "(kvm)"),
       "turbo, shared cores and guests are noted");
}

static void test_arm(void) {
    put("/proc/cpuinfo",
        "processor : 0\nCPU implementer : 0x41\nCPU variant : 0x3\nCPU part : 0xd0c\n");
    struct environment e = read_tree();
    ok(strcmp(e.cpu, "0x41-0xd0c-0x3") == 0, "an AArch64 CPU: %s", e.cpu);
}

/* ---- Which results fit ---- */

static void test_misfits(void) {
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
    struct sweeps sweeps = {0};
    size_t results[MISFITS];
    make_sweep(&sweeps, 0, 0);
    make_sweep(&sweeps, 1, 0);
    machine_filter(&other, 1 << FOREIGN_CPU, &sweeps, results);
    ok(sweeps.count == 2 && results[OTHER_COMPILER] == 116,
       "what is not refused stays, and is counted");
    machine_filter(&other, REFUSE_ALL, &sweeps, results);
    ok(sweeps.count == 0 && results[OTHER_COMPILER] == 116, "what is refused goes");
    sweeps_free(&sweeps);
}

static void write_family(const struct family *family) {
    char path[160];
    for (int i = 0; family->variants[i] != NULL; i++) {
        snprintf(path, sizeof path, "/templates/kernel/%s/%s_%s.c.m4", family->folder, family->name,
                 family->variants[i]);
        put(path, "a");
    }
    for (int i = 0; family->libraries[i] != NULL; i++) {
        snprintf(path, sizeof path, "/templates/kernel/%s/%s.m4", family->folder,
                 family->libraries[i]);
        put(path, "a");
    }
    snprintf(path, sizeof path, "/templates/kernel/%s/%s.m4", family->folder, family->tunables);
    put(path, "a");
}

static void write_templates(void) {
    put("/templates/lib/a.m4", "a");
    put("/templates/isa/a.m4", "a");
    put("/templates/format/a.m4", "a");
    for (size_t i = 0; family_at(i) != NULL; i++)
        write_family(family_at(i));
}

static bool same_of(const struct machine *a, const struct machine *b, const char *spec) {
    return strcmp(machine_templates(a, spec), machine_templates(b, spec)) == 0;
}

static void test_hash(void) {
    static const char attend[] = "kvmill_attend_f16", gather[] = "kvmill_gather_b8";
    struct machine first, second;
    char path[256];
    struct error error;
    write_templates();
    snprintf(path, sizeof path, "%s/templates", scratch_folder());
    ok(machine_hash_templates(path, &first, &error), "templates have a hash, %s", first.templates);
    put("/templates/lib/a.m4~", "b");
    put("/templates/kernel/gather/none.m4", "b");
    ok(machine_hash_templates(path, &second, &error) && same_of(&first, &second, ""),
       "of what kernels are made of alone");
    put("/templates/kernel/gather/gather_windows.c.m4", "b");
    ok(machine_hash_templates(path, &second, &error) && !same_of(&first, &second, ""),
       "which their text changes");
    ok(!same_of(&first, &second, gather) && same_of(&first, &second, attend),
       "that of their family alone");
    put("/templates/isa/a.m4", "b");
    ok(machine_hash_templates(path, &second, &error) && !same_of(&first, &second, attend),
       "but what families share changes all");
    strcat(path, "/none");
    ok(!machine_hash_templates(path, &second, &error) && error.exit_code == EXIT_ENVIRONMENT,
       "no templates are an error");
}

int main(void) {
    test_nothing();
    test_server();
    test_laptop();
    test_arm();
    test_misfits();
    test_hash();
    return done_testing();
}
