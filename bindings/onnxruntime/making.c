/* SPDX-License-Identifier: Apache-2.0 */
#include "making.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* ---- Files for the command ---- */

enum { MOST_PATH = 512 };

/* A temporary directory with the nodes and the command's output. */
struct files {
    char directory[MOST_PATH], model[MOST_PATH + 16], output[MOST_PATH + 16],
        messages[MOST_PATH + 16];
};

static bool open_files(struct files *files, struct reason *reason) {
    const char *below = getenv("TMPDIR");
    int length = snprintf(files->directory, MOST_PATH, "%s/kvmill-ort.XXXXXX",
                          below != NULL && *below == '/' ? below : "/tmp");
    if (length >= MOST_PATH || mkdtemp(files->directory) == NULL)
        return problem_decline(reason, "%.200s: cannot make a directory: %s", files->directory,
                               strerror(errno));
    snprintf(files->model, sizeof files->model, "%s/nodes.onnx", files->directory);
    snprintf(files->output, sizeof files->output, "%s/output", files->directory);
    snprintf(files->messages, sizeof files->messages, "%s/messages", files->directory);
    return true;
}

static void close_files(const struct files *files) {
    unlink(files->model);
    unlink(files->output);
    unlink(files->messages);
    rmdir(files->directory);
}

static bool write_model(const struct files *files, const struct nodes_file *nodes,
                        struct reason *reason) {
    FILE *stream = fopen(files->model, "wxe");
    bool done = stream != NULL && fwrite(nodes->data, 1, nodes->size, stream) == nodes->size;
    if (stream != NULL)
        done = fclose(stream) == 0 && done;
    return done ||
           problem_decline(reason, "%.200s: cannot write: %s", files->model, strerror(errno));
}

/* Reads the last line of a file that is not empty. */
static void read_line(const char *path, char *line, size_t size) {
    FILE *stream = fopen(path, "re");
    char *text = NULL;
    size_t room = 0;
    ssize_t length;
    line[0] = '\0';
    while (stream != NULL && (length = getline(&text, &room, stream)) > 0) {
        text[strcspn(text, "\n")] = '\0';
        if (text[0] != '\0')
            snprintf(line, size, "%s", text);
    }
    free(text);
    if (stream != NULL)
        fclose(stream);
}

/* ---- The command ---- */

/* Returns a copy of the environment, with another cache directory if the session sets one.  The
   caller frees the array, but not its strings. */
static char **environment_of(const struct making *making, char *cache, size_t size) {
    size_t count = 0, kept = 0;
    while (environ[count] != NULL)
        count++;
    char **copy = calloc(count + 2, sizeof *copy);
    snprintf(cache, size, "XDG_CACHE_HOME=%s", making->directory);
    for (size_t i = 0; copy != NULL && i < count; i++)
        if (making->directory[0] == '\0' || strncmp(environ[i], "XDG_CACHE_HOME=", 15) != 0)
            copy[kept++] = environ[i];
    if (copy != NULL && making->directory[0] != '\0')
        copy[kept] = cache;
    return copy;
}

static int spawn(char *const *arguments, char **environment, const struct files *files,
                 pid_t *child) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    int error = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (error == 0)
        error = posix_spawn_file_actions_addopen(&actions, 1, files->output, flags, 0600);
    if (error == 0)
        error = posix_spawn_file_actions_addopen(&actions, 2, files->messages, flags, 0600);
    if (error == 0)
        error = posix_spawnp(child, arguments[0], &actions, &attributes, arguments, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* Waits for the command.  Returns false after a timeout; the command and its compilers are killed
   then. */
static bool wait_for(pid_t child, int seconds, int *status) {
    const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    struct timespec now, end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += seconds;
    do {
        pid_t done = waitpid(child, status, WNOHANG);
        if (done == child || (done < 0 && errno != EINTR))
            return true;
        nanosleep(&pause, NULL);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < end.tv_sec);
    kill(-child, SIGKILL);
    waitpid(child, status, 0);
    return false;
}

static bool run(char *const *arguments, const struct making *making, const struct files *files,
                struct reason *reason) {
    char cache[sizeof making->directory + 16], line[256];
    char **environment = environment_of(making, cache, sizeof cache);
    int status = -1, error = ENOMEM;
    pid_t child;
    if (environment != NULL)
        error = spawn(arguments, environment, files, &child);
    free(environment);
    if (error != 0)
        return problem_decline(
            reason,
            "%.200s: cannot be run: %s; accepted: kvmill in PATH, or its path in KVMILL_COMMAND",
            arguments[0], strerror(error));
    if (!wait_for(child, making->seconds, &status))
        return problem_decline(reason,
                               "kvmill generate took longer than make_seconds, %d, and was ended",
                               making->seconds);
    if (status == 0)
        return true;
    read_line(files->messages, line, sizeof line);
    return problem_decline(reason, "kvmill generate failed: %s", line);
}

/* Returns the best instruction set that plans may use: the environment's cap, or the best of this
   CPU. */
static const char *best_isa(void) {
    const char *best = getenv("KVMILL_ISA"), *name;
    if (best != NULL && *best != '\0')
        return best;
    for (size_t i = 0; (name = kvmill_isa_name(i)) != NULL; i++)
        if (kvmill_isa_usable(name))
            best = name;
    return best;
}

/* Runs the command, and reads the path of the library that it prints. */
static bool generate(const struct files *files, const struct making *making,
                     const struct settings *settings, char *path, size_t size,
                     struct reason *reason) {
    const char *command = getenv("KVMILL_COMMAND");
    const char *const arguments[] = {command != NULL && *command != '\0' ? command : "kvmill",
                                     "generate",
                                     "--keep",
                                     "--ort",
                                     "--model",
                                     files->model,
                                     "--name",
                                     "session",
                                     "--isa",
                                     best_isa(),
                                     "--math",
                                     settings->math != NULL ? settings->math : "f32",
                                     NULL};
    if (!run((char *const *)(uintptr_t)arguments, making, files, reason))
        return false;
    read_line(files->output, path, size);
    return true;
}

/* ---- The pack ---- */

static void keep(void *data, const char *words) {
    problem_decline(data, "%s", words);
}

static bool add_pack(const OrtGraph *graph, const OrtNode *const *nodes, size_t count,
                     const struct making *making, struct settings *settings,
                     struct reason *reason) {
    struct nodes_file model = nodes_file_of(graph, nodes, count);
    struct files files;
    char path[PATH_MAX];
    bool done = (model.data != NULL || problem_decline(reason, "out of memory for nodes")) &&
                open_files(&files, reason);
    if (done) {
        done = write_model(&files, &model, reason) &&
               generate(&files, making, settings, path, sizeof path, reason);
        close_files(&files);
    }
    free(model.data);
    if (!done)
        return false;
    reason->text[0] = '\0';
    packs_add_file(&settings->packs, path, "make_kernels", keep, reason);
    return reason->text[0] == '\0';
}

/* ---- Nodes that lack kernels ---- */

struct nodes {
    const struct settings *settings;
    const OrtNode *const *all;
    size_t count;
};

static bool is_slow(const struct nodes *nodes, const struct problem *problem) {
    struct reason reason;
    node_close(problem_open(problem, nodes->settings, NULL, NULL, &reason));
    return reason.slow;
}

/* Marks a node that lacks kernels; also the nodes of a step that lacks them, though its nodes alone
   may have kernels. */
static void mark_slow(const struct nodes *nodes, size_t at, bool *slow) {
    const OrtNode *node = nodes->all[at];
    const struct node_op *op = problem_op_of(node);
    struct problem problem;
    struct reason reason;
    if (op == NULL)
        return;
    slow[at] = slow[at] || (problem_of_node(node, &problem, &reason) && is_slow(nodes, &problem));
    if (op != &attention_op || !problem_of_step(node, nodes->all, nodes->count, &problem) ||
        !is_slow(nodes, &problem))
        return;
    for (size_t i = 0; i < nodes->count; i++)
        for (size_t j = 0; j < problem.part_count; j++)
            slow[i] = slow[i] || nodes->all[i] == problem.parts[j];
}

/* Finds the nodes that kvmill takes or would take, but that lack fast kernels, in their order. */
static size_t find_slow(const struct nodes *nodes, bool *slow, const OrtNode **found) {
    size_t count = 0;
    memset(slow, 0, nodes->count * sizeof *slow);
    for (size_t i = 0; i < nodes->count; i++)
        mark_slow(nodes, i, slow);
    for (size_t i = 0; i < nodes->count; i++)
        if (slow[i])
            found[count++] = nodes->all[i];
    return count;
}

static bool make_for(const OrtGraph *graph, const OrtNode *const *slow, size_t count,
                     const struct making *making, struct settings *settings,
                     const OrtLogger *logger) {
    struct reason reason;
    runtime_log(logger, ORT_LOG_INFO, "makes kernels for %zu nodes", count);
    bool made = add_pack(graph, slow, count, making, settings, &reason);
    if (!made)
        runtime_log(logger, ORT_LOG_WARNING, "makes no kernels: %s", reason.text);
    return made;
}

void making_kernels(struct making *making, struct settings *settings, const OrtLogger *logger,
                    const OrtGraph *graph, const OrtNode *const *all, size_t count) {
    const struct nodes nodes = {settings, all, count};
    bool *slow = calloc(count + 1, sizeof *slow);
    const OrtNode **found = calloc(count + 1, sizeof *found);
    size_t lacking = slow != NULL && found != NULL ? find_slow(&nodes, slow, found) : 0;
    if (lacking > 0)
        making->allowed = make_for(graph, found, lacking, making, settings, logger) &&
                          find_slow(&nodes, slow, found) < lacking;
    free(slow);
    free(found);
}
