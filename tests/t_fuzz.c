/* The fuzzers' targets on all seeds, which have everything that fuzzing has found, and on truncated
   seeds.

   SPDX-License-Identifier: Apache-2.0 */
#include <glob.h>
#include <unistd.h>

#include "common.h"
#include "fuzz/fuzz.h"

enum { CUTS = 4, SECONDS = 60 };

static char now[256]; /* printed if a target ends the process */

/* Runs a target on a copy of exactly this size, so that a sanitizer sees reads beyond it. */
static void run(const struct fuzz_target *target, const char *seed, size_t size) {
    FREED unsigned char *own = malloc(size + 1);
    must(own != NULL, "no memory");
    memcpy(own, seed, size);
    int out = dup(STDOUT_FILENO); /* output of commands is not a result of a test */
    dup2(STDERR_FILENO, STDOUT_FILENO);
    alarm(SECONDS);
    target->run(own, size);
    alarm(0);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    close(out);
}

static int replay(const struct fuzz_target *target, const char *path) {
    snprintf(now, sizeof now, "%s: %s", target->name, path);
    size_t size, cuts = is_slow_run() ? 0 : CUTS;
    FREED char *seed = read_bytes(path, &size);
    run(target, seed, size);
    for (size_t i = 1; i <= cuts; i++)
        run(target, seed, size * i / (cuts + 1));
    return 1 + (int)cuts;
}

static int replay_all(const struct fuzz_target *target, const char *pattern) {
    OWN(globfree) glob_t found = {0};
    int runs = 0;
    const char *path = source_path("%s", pattern);
    if (glob(path, 0, NULL, &found) != 0)
        bail_out("%s: no seeds", path);
    for (size_t i = 0; i < found.gl_pathc; i++)
        runs += replay(target, found.gl_pathv[i]);
    return runs;
}

static void test_target(const struct fuzz_target *target) {
    char pattern[128];
    snprintf(pattern, sizeof pattern, "tests/fuzz/seeds/%s/*.seed", target->name);
    int runs = replay_all(target, pattern);
    if (target->more != NULL)
        runs += replay_all(target, target->more);
    ok(runs > 0, "%s: %d runs", target->name, runs);
}

/* t_fuzz TARGET FILE... -- runs only these files. */
static int replay_files(char **words) {
    const struct fuzz_target *target = fuzz_target_of(words[1]);
    for (char **file = words + 2; target != NULL && *file != NULL; file++)
        replay(target, *file);
    return target != NULL ? 0 : EXIT_FAILURE;
}

int main(int argc, char **argv) {
    fence_explain_traps(now);
    if (argc > 2)
        return replay_files(argv);
    for (int i = 0; fuzz_targets[i].name != NULL; i++)
        test_target(&fuzz_targets[i]);
    return done_testing();
}
