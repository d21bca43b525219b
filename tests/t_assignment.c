/* Which candidates a kernel needs for its problems, from invented sweeps.

   SPDX-License-Identifier: Apache-2.0 */
#include "../tune/assignment.h"
#include "case_table.h"
#include "sweeps.h"

enum { SAMPLES = 21 };

static struct sweeps sweeps;
static struct assignments assignments;
static struct error error;

static struct sweep_key key_of(const char *spec, const char *problem, int threads) {
    struct sweep_key key = made_key(0);
    key.spec = (char *)spec;
    key.problem = (char *)problem;
    key.threads = threads;
    return key;
}

/* Adds a candidate that is `speed` times as fast as the default; samples differ by 0.5 %. */
static void add(const struct sweep_key *key, const char *candidate, double speed, int64_t code,
                int count) {
    double samples[SAMPLES], baseline[SAMPLES];
    for (int i = 0; i < count; i++) {
        baseline[i] = 1e-3;
        samples[i] = 1e-3 / speed * (1 + 0.0025 * (i % 3 - 1));
    }
    struct sweep_result result = made_result(2, 2, 0, 0);
    result.candidate = (char *)candidate;
    result.is_default = strcmp(candidate, "default") == 0;
    result.samples = samples;
    result.baseline = speed == 1 ? NULL : baseline;
    result.sample_count = count;
    result.code_bytes = code;
    must(sweeps_add(&sweeps, key, &result, &error), error.text);
}

static void measure(const char *problem, double a, double b, double c) {
    struct sweep_key key = key_of("kernel", problem, 1);
    add(&key, "default", 1, 1000, SAMPLES);
    add(&key, "a", a, 2000, SAMPLES);
    add(&key, "b", b, 3000, SAMPLES);
    add(&key, "c", c, 4000, SAMPLES);
}

static void make(void) {
    must(assignments_make(&sweeps, "kernel", &assignments, &error), error.text);
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

/* Each cell is "PROBLEM A B C TAKEN": the speeds of three candidates, and the chosen one. */
ROWS(takes, 2) {
    char problems[MOST_CELLS][16], taken[MOST_CELLS][16];
    int count = 0;
    bool right = true;
    for (; cells[count + 2] != NULL; count++) {
        double a, b, c;
        if (sscanf(cells[count + 2], "%15s %lf %lf %lf %15s", problems[count], &a, &b, &c,
                   taken[count]) != 5)
            bail_out("%s: %s", cells[0], cells[count + 2]);
        measure(problems[count], a, b, c);
    }
    make();
    for (int i = 0; i < count; i++)
        right = takes(problems[i], taken[i]) && right;
    ok(right && assignments.count == count && assignments.candidates == atoi(cells[1]), "%s",
       cells[0]);
    forget();
}

TABLE(assignment);

TEST(sweeps) {
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
