/* SPDX-License-Identifier: Apache-2.0 */
#include "candidate.h"

#include <elf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "make.h"
#include "remove_tree.h"

static const char pack_name[] = "candidate";

static void set_failure(struct candidate *candidate, enum outcome outcome, const char *message) {
    candidate->outcome = outcome;
    snprintf(candidate->message, sizeof candidate->message, "%.*s", (int)strcspn(message, "\n"),
             message);
}

/* ---- Building, in a process each ---- */

static bool write_candidate(const struct candidate *candidate, struct error *error) {
    struct spec_list none = {0};
    struct pack pack = {.name = pack_name, .specs = &none};
    struct output output = {0};
    int written;
    bool done = kernel_list_add(&pack.kernels, &candidate->kernel, error) &&
                pack_files(&pack, &output, error) &&
                pack_write(&output, candidate->directory, &written, error);
    output_free(&output);
    kernel_list_free(&pack.kernels);
    return done;
}

static void name_file(const struct candidate *candidate, const char *name, char path[128]) {
    snprintf(path, 128, "%s/%s", candidate->directory, name);
}

/* Exits: 0, or 1 with a message in the file "message". */
static void build_and_exit(const struct candidate *candidate) {
    char log[128], message[128];
    struct error error;
    name_file(candidate, "make.log", log);
    name_file(candidate, "message", message);
    if (write_candidate(candidate, &error) && run_make(candidate->directory, log, &error))
        _exit(0);
    FILE *stream = fopen(message, "w");
    if (stream != NULL) {
        fprintf(stream, "%s\n", error.text);
        fclose(stream);
    }
    _exit(1);
}

static bool start_build(struct candidate *candidate, pid_t *child, struct error *error) {
    const char *temporary = getenv("TMPDIR");
    snprintf(candidate->directory, sizeof candidate->directory, "%.32s/kvmill-tune.XXXXXX",
             temporary && *temporary ? temporary : "/tmp");
    if (mkdtemp(candidate->directory) == NULL)
        return fail_errno(error, "make the directory", candidate->directory);
    *child = fork();
    if (*child == 0)
        build_and_exit(candidate);
    return *child > 0 || fail_errno(error, "start", "a process");
}

/* Bytes of all sections that hold instructions; 0 where that cannot be read. */
static int64_t code_bytes_of(FILE *stream) {
    Elf64_Ehdr head;
    Elf64_Shdr section;
    int64_t bytes = 0;
    if (fread(&head, sizeof head, 1, stream) != 1 || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        fseek(stream, (long)head.e_shoff, SEEK_SET) != 0)
        return 0;
    for (int i = 0; i < head.e_shnum && fread(&section, sizeof section, 1, stream) == 1; i++)
        bytes += (section.sh_flags & SHF_EXECINSTR) != 0 ? (int64_t)section.sh_size : 0;
    return bytes;
}

static void measure_code(struct candidate *candidate) {
    char path[80 + SYMBOL_SIZE], symbol[SYMBOL_SIZE];
    kernel_symbol(&candidate->kernel, symbol);
    snprintf(path, sizeof path, "%s/%s.o", candidate->directory, symbol);
    FILE *stream = fopen(path, "rb");
    candidate->code_bytes = stream != NULL ? code_bytes_of(stream) : 0;
    if (stream != NULL)
        fclose(stream);
}

static void read_message(struct candidate *candidate) {
    char path[128], message[256] = "the compiler failed";
    name_file(candidate, "message", path);
    FILE *stream = fopen(path, "r");
    if (stream != NULL && fgets(message, sizeof message, stream) == NULL)
        strcpy(message, "the compiler failed");
    if (stream != NULL)
        fclose(stream);
    set_failure(candidate, OUTCOME_COMPILE, message);
}

static void load(struct candidate *candidate) {
    char path[128];
    struct error error;
    name_file(candidate, "libcandidate.so", path);
    if (built_pack_load(path, &candidate->built, &error))
        measure_code(candidate);
    else
        set_failure(candidate, OUTCOME_COMPILE, error.text);
}

static void finish_build(struct candidate *candidate, pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        load(candidate);
    else
        read_message(candidate);
}

bool candidates_build(struct candidate *candidates, int count, int jobs, struct error *error) {
    pid_t children[MOST_CANDIDATES];
    int started = 0, finished = 0;
    bool done = true;
    while (finished < started || (done && started < count)) {
        if (done && started < count && started - finished < jobs) {
            done = start_build(&candidates[started], &children[started], error);
            started += done;
        } else {
            finish_build(&candidates[finished], children[finished]);
            finished++;
        }
    }
    return done;
}

/* ---- Checking ---- */

static void check_and_exit(struct candidate *candidate, struct tune_work *work, int pipe_end,
                           unsigned seconds) {
    struct error error = {0};
    signal(SIGALRM, SIG_DFL);
    alarm(seconds);
    work->pool = pool_open(1); /* threads do not outlive a fork */
    if (work->pool != NULL && tune_work_check(work, &candidate->plan, &error))
        _exit(0);
    ssize_t ignored = write(pipe_end, error.text, strlen(error.text));
    (void)ignored;
    _exit(1);
}

static void judge(struct candidate *candidate, int status, const char *message) {
    char words[64];
    if (WIFSIGNALED(status)) {
        snprintf(words, sizeof words, "ended by signal %d", WTERMSIG(status));
        set_failure(candidate, WTERMSIG(status) == SIGALRM ? OUTCOME_HANG : OUTCOME_CRASH, words);
    } else if (WEXITSTATUS(status) != 0) {
        set_failure(candidate, OUTCOME_WRONG, message);
    }
}

static bool check_apart(struct candidate *candidate, struct tune_work *work, unsigned seconds,
                        struct error *error) {
    char message[256] = "";
    int ends[2], status = 0;
    if (pipe(ends) != 0)
        return fail_errno(error, "open", "a pipe");
    pid_t child = fork();
    if (child == 0)
        check_and_exit(candidate, work, ends[1], seconds);
    close(ends[1]);
    if (child > 0 && read(ends[0], message, sizeof message - 1) < 0)
        message[0] = '\0';
    close(ends[0]);
    if (child < 0)
        return fail_errno(error, "start", "a process");
    waitpid(child, &status, 0);
    judge(candidate, status, message);
    return true;
}

bool candidate_check(struct candidate *candidate, struct tune_work *work, const kvmill_pack *rest,
                     int threads, unsigned seconds, struct error *error) {
    const kvmill_pack *packs[] = {candidate->built.pack, rest};
    struct error refusal;
    if (candidate->outcome != OUTCOME_MEASURED)
        return true;
    if (!attention_plan_open(&work->scene, packs, 2, threads, &candidate->plan, &refusal)) {
        set_failure(candidate, OUTCOME_REFUSED, refusal.text);
        return true;
    }
    return check_apart(candidate, work, seconds, error);
}

/* ---- Closing ---- */

void candidate_close(struct candidate *candidate) {
    attention_plan_close(&candidate->plan);
    built_pack_free(&candidate->built);
    if (candidate->directory[0] != '\0')
        remove_tree(candidate->directory);
}
