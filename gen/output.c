/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "signals.h"

struct output_file *output_add(struct output *output, const char *name, struct error *error) {
    struct output_file *files = realloc(output->files, (output->count + 1) * sizeof *files);
    if (files == NULL) {
        fail(error, EXIT_ENVIRONMENT, "out of memory");
        return NULL;
    }
    output->files = files;
    memset(&files[output->count], 0, sizeof *files);
    snprintf(files[output->count].name, sizeof files->name, "%s", name);
    return &files[output->count++];
}

void output_free(struct output *output) {
    for (size_t i = 0; i < output->count; i++)
        text_free(&output->files[i].text);
    free(output->files);
    *output = (struct output){0};
}

/* ---- One file ---- */

enum { PATH_SIZE = 4096 };

static void path_of(const char *directory, const struct output_file *file, const char *suffix,
                    char path[PATH_SIZE]) {
    snprintf(path, PATH_SIZE, "%s/%s%s", directory, file->name, suffix);
}

static bool is_equal(const char *path, const struct text *text) {
    struct stat status;
    char *held = malloc(text->length + 1);
    FILE *stream = fopen(path, "rb");
    bool equal = stream && held && fstat(fileno(stream), &status) == 0 &&
                 (size_t)status.st_size == text->length &&
                 fread(held, 1, text->length, stream) == text->length &&
                 memcmp(held, text->data, text->length) == 0;
    if (stream)
        fclose(stream);
    free(held);
    return equal;
}

static bool write_file(const char *path, const struct text *text, struct error *error) {
    FILE *stream = fopen(path, "wb");
    if (stream == NULL)
        return fail_errno(error, "write", path);
    bool done = fwrite(text->data, 1, text->length, stream) == text->length;
    done = fflush(stream) == 0 && done;
    if (!done)
        fail_errno(error, "write", path);
    if (fclose(stream) != 0 && done)
        done = fail_errno(error, "write", path);
    if (!done)
        unlink(path);
    return done;
}

/* ---- All of them ---- */

static const char beside[] = ".new";

static void withdraw(const struct output *output, size_t count, const char *directory) {
    char path[PATH_SIZE];
    for (size_t i = 0; i < count; i++) {
        path_of(directory, &output->files[i], beside, path);
        unlink(path);
    }
}

/* What would stop a rename half-way must be found out before the first. */
static bool can_be_replaced(const char *path, struct error *error) {
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISDIR(status.st_mode))
        return true;
    return fail(error, EXIT_ENVIRONMENT, "%s: cannot write: is a directory", path);
}

static bool write_one_beside(const struct output *output, size_t i, const char *directory,
                             struct error *error) {
    char place[PATH_SIZE], path[PATH_SIZE];
    path_of(directory, &output->files[i], "", place);
    path_of(directory, &output->files[i], beside, path);
    return can_be_replaced(place, error) && (is_equal(place, &output->files[i].text) ||
                                             write_file(path, &output->files[i].text, error));
}

static bool write_beside(const struct output *output, const char *directory, struct error *error) {
    for (size_t i = 0; i < output->count; i++)
        if (!write_one_beside(output, i, directory, error)) {
            withdraw(output, i, directory);
            return false;
        }
    return true;
}

static bool move_into_place(const struct output *output, const char *directory, int *written,
                            struct error *error) {
    char from[PATH_SIZE], to[PATH_SIZE];
    for (size_t i = 0; i < output->count; i++) {
        path_of(directory, &output->files[i], beside, from);
        path_of(directory, &output->files[i], "", to);
        if (rename(from, to) == 0)
            ++*written;
        else if (errno != ENOENT)
            return fail_errno(error, "replace", to);
    }
    return true;
}

bool output_make_directory(const char *path, bool *made, struct error *error) {
    struct stat status;
    *made = mkdir(path, 0777) == 0;
    if (*made || (errno == EEXIST && stat(path, &status) == 0 && S_ISDIR(status.st_mode)))
        return true;
    return fail_errno(error, "make the directory", path);
}

static bool write_set(const struct output *output, const char *directory, int *written,
                      struct error *error) {
    bool done = write_beside(output, directory, error) &&
                move_into_place(output, directory, written, error);
    if (!done)
        withdraw(output, output->count, directory);
    return done;
}

/* Holding signals takes milliseconds here. */
bool output_write(const struct output *output, const char *directory, int *written,
                  struct error *error) {
    sigset_t before = signals_hold();
    *written = 0;
    bool done = write_set(output, directory, written, error);
    signals_release(before);
    return done;
}
