/* Which candidates a kernel needs for its problems, from sweeps that nobody measured.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "../tune/assignment.h"
#include "tap.h"

enum { SAMPLES = 21 };

static struct sweeps sweeps;
static struct assignments assignments;
static struct error error;

static struct sweep_key key_of(const char *spec, const char *problem, int threads) {
    return (struct sweep_key){.cpu = "Test CPU",
                              .compiler = "cc",
                              .flags = "-O3",
                              .templates = "0",
                              .isa = "avx2",
                              .spec = (char *)spec,
                              .problem = (char *)problem,
                              .threads = threads};
}

/* A candidate that is `speed` times as fast as the default; samples differ by half a per cent. */
static void add(const struct sweep_key *key, const char *candidate, double speed, int64_t code,
                int count) {
    double samples[SAMPLES], baseline[SAMPLES];
    for (int i = 0; i < count; i++) {
        baseline[i] = 1e-3;
        samples[i] = 1e-3 / speed * (1 + 0.0025 * (i % 3 - 1));
    }
    const struct sweep_result result = {.candidate = (char *)candidate,
                                        .is_default = strcmp(candidate, "default") == 0,
                                        .outcome = OUTCOME_MEASURED,
                                        .message = "",
                                        .samples = samples,
                                        .baseline = speed == 1 ? NULL : baseline,
                                        .sample_count = count,
                                        .code_bytes = code,
                                        .measured = 1,
                                        .environment = ""};
    if (!sweeps_add(&sweeps, key, &result, &error))
        bail_out("%s", error.text);
}

/* Speeds of a, b and c on a problem. */
static void measure(const char *problem, double a, double b, double c) {
    struct sweep_key key = key_of("kernel", problem, 1);
    add(&key, "default", 1, 1000, SAMPLES);
    add(&key, "a", a, 2000, SAMPLES);
    add(&key, "b", b, 3000, SAMPLES);
    add(&key, "c", c, 4000, SAMPLES);
}

static void make(void) {
    if (!assignments_make(&sweeps, "kernel", &assignments, &error))
        bail_out("%s", error.text);
}

static bool takes(const char *problem, const char *candidate) {
    for (int i = 0; i < assignments.count; i++)
        if (strcmp(assignments.items[i].sweep->key.problem, problem) == 0)
            return strcmp(assignments.items[i].taken->result->candidate, candidate) == 0;
    return false;
}

static void forget(void) {
    assignments_free(&assignments);
    sweeps_free(&sweeps);
}

static void test_one(void) {
    make();
    ok(assignments.count == 0 && assignments.candidates == 0, "nothing measured, nothing taken");
    forget();
    measure("one", 1.3, 1.5, 1.2);
    make();
    ok(assignments.count == 1 && assignments.candidates == 1 && takes("one", "b"),
       "of one problem the winner");
    forget();
    measure("one", 1.5, 1.505, 1.2);
    make();
    ok(takes("one", "a"), "of ties the one with the least code");
    forget();
    measure("one", 1.0, 1.01, 0.9);
    make();
    ok(takes("one", "default"), "the default where nothing is faster");
    forget();
}

static void test_several(void) {
    measure("short", 1.3, 1.0, 1.1);
    measure("long", 0.9, 1.4, 1.2);
    make();
    ok(assignments.candidates == 2 && takes("short", "a") && takes("long", "b"),
       "two problems with winners of their own take both");
    measure("longer", 1.1, 1.3, 1.305);
    assignments_free(&assignments);
    make();
    ok(assignments.candidates == 2 && takes("longer", "b"),
       "a third that ties with one of them takes no other");
    forget();
    measure("short", 1.4, 1.0, 1.396);
    measure("long", 1.0, 1.4, 1.396);
    make();
    ok(assignments.candidates == 1 && takes("short", "c") && takes("long", "c"),
       "one that is as good as both winners is enough");
    forget();
}

static void test_default(void) {
    measure("short", 0.995, 0.9, 0.9);
    measure("long", 1.2, 1.1, 1.1);
    make();
    ok(assignments.candidates == 2 && takes("short", "default") && takes("long", "a"),
       "what is slower than the default does not take its place, by however little");
    forget();
    measure("short", 1.0005, 0.9, 0.9);
    measure("long", 1.2, 1.1, 1.1);
    make();
    ok(assignments.candidates == 1 && takes("short", "a"), "what cannot be told from it does");
    forget();
}

static void test_sweeps(void) {
    struct sweep_key key = key_of("kernel", "short", 2), other = key_of("another", "short", 1);
    measure("short", 1.3, 1.0, 1.0);
    add(&key, "default", 1, 1000, 10);
    add(&key, "b", 1.5, 1000, 10);
    add(&other, "c", 2, 1000, SAMPLES);
    make();
    ok(assignments.count == 1 && takes("short", "a"), "the sweep that was measured most counts");
    for (int i = 0; i < 10; i++) {
        char candidate[8];
        snprintf(candidate, sizeof candidate, "x%d", i);
        add(&key, candidate, 0.9, 1000, SAMPLES);
    }
    assignments_free(&assignments);
    make();
    ok(assignments.count == 1 && takes("short", "b"), "  whichever comes first");
    forget();
    add(&other, "b", 1.5, 1000, SAMPLES);
    key = key_of("kernel", "long", 1);
    add(&key, "b", 1.5, 1000, SAMPLES);
    make();
    ok(assignments.count == 1 && assignments.candidates == 0 && assignments.items[0].taken == NULL,
       "without the default nothing is taken");
    forget();
}

int main(void) {
    test_one();
    test_several();
    test_default();
    test_sweeps();
    return done_testing();
}
