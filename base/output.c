/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "signals.h"

struct output_file *output_add(struct output *output, const char *name, struct error *error) {
    struct output_file *files = realloc(output->files, (output->count + 1) * sizeof *files);
    if (files != NULL)
        output->files = files;
    char *copy = files ? strdup(name) : NULL;
    if (copy == NULL) {
        out_of_memory(error);
        return NULL;
    }
    files[output->count] = (struct output_file){.name = copy};
    return &files[output->count++];
}

void output_free(struct output *output) {
    for (size_t i = 0; i < output->count; i++) {
        free(output->files[i].name);
        text_free(&output->files[i].text);
    }
    free(output->files);
    *output = (struct output){0};
}

/* ---- The place of a file ---- */

struct target {
    char *path;      /* as the user gave it */
    char *place;     /* the path after symbolic links are followed */
    char *temporary; /* the temporary file, in the same directory as `place`; NULL while there is no
                     such file */
    bool is_equal;
};

char *path_join(const char *directory, const char *name) {
    char *path;
    size_t length = strlen(directory);
    const char *between = length > 0 && directory[length - 1] == '/' ? "" : "/";
    return asprintf(&path, "%s%s%s", directory, between, name) < 0 ? NULL : path;
}

/* Whether the file has this text.  O_NONBLOCK: the file may have become a fifo since it was
   checked, and opening a fifo must not block. */
static bool is_equal(const char *path, const struct text *text) {
    struct stat status;
    int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    FILE *stream = file >= 0 ? fdopen(file, "rb") : NULL;
    char *held = malloc(text->length + 1);
    bool equal = stream && held && fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
                 (size_t)status.st_size == text->length &&
                 fread(held, 1, text->length, stream) == text->length &&
                 (text->length == 0 || memcmp(held, text->data, text->length) == 0);
    if (stream != NULL)
        fclose(stream);
    else if (file >= 0)
        close(file);
    free(held);
    return equal;
}

/* Sets target->place.  Refuses anything but a regular file, because renaming would destroy devices
   and fifos. */
static bool find_place(struct target *target, struct error *error) {
    struct stat status;
    bool there = stat(target->path, &status) == 0;
    if (there && !S_ISREG(status.st_mode))
        return fail(error, EXIT_ENVIRONMENT, "%s: cannot write: is %s; accepted: a regular file",
                    target->path, S_ISDIR(status.st_mode) ? "a directory" : "not a regular file");
    if (!there && lstat(target->path, &status) == 0)
        return fail_errno(error, "follow the symbolic link", target->path);
    target->place = there ? realpath(target->path, NULL) : strdup(target->path);
    return target->place != NULL || fail_errno(error, "write", target->path);
}

static bool find_target(const char *directory, const struct output_file *file,
                        struct target *target, struct error *error) {
    target->path = path_join(directory, file->name);
    if (target->path == NULL)
        return out_of_memory(error);
    if (!find_place(target, error))
        return false;
    target->is_equal = is_equal(target->place, &file->text);
    return true;
}

static void free_targets(struct target *targets, size_t count) {
    for (size_t i = 0; targets != NULL && i < count; i++) {
        free(targets[i].path);
        free(targets[i].place);
        free(targets[i].temporary);
    }
    free(targets);
}

/* ---- Temporary files, next to their places ---- */

static bool write_all(int file, const struct text *text) {
    for (size_t done = 0; done < text->length;) {
        ssize_t got = write(file, text->data + done, text->length - done);
        if (got < 0 && errno != EINTR)
            return false;
        done += got > 0 ? (size_t)got : 0;
    }
    return true;
}

/* Sets the permissions that fopen would give; mkostemp gives permissions to the owner alone. */
static bool set_mode(int file) {
    mode_t mask = umask(0);
    umask(mask);
    return fchmod(file, 0666 & ~mask) == 0;
}

static bool fill_and_close(int file, const struct text *text) {
    bool done = set_mode(file) && write_all(file, text);
    int reason = errno;
    if (close(file) != 0 && done)
        return false;
    errno = reason;
    return done;
}

/* Writes the text to a temporary file.  target->temporary is set as soon as the file exists. */
static bool write_beside(struct target *target, const struct text *text, struct error *error) {
    char *temporary;
    int length = (int)(strrchr(target->place, '/') - target->place);
    if (asprintf(&temporary, "%.*s/.kvmill.XXXXXX", length, target->place) < 0)
        return out_of_memory(error);
    int file = mkostemp(temporary, O_CLOEXEC);
    if (file < 0) {
        fail_errno(error, "write", target->path);
        free(temporary);
        return false;
    }
    target->temporary = temporary;
    return fill_and_close(file, text) || fail_errno(error, "write", target->path);
}

static bool move_into_place(struct target *target, struct error *error) {
    if (rename(target->temporary, target->place) != 0)
        return fail_errno(error, "replace", target->path);
    free(target->temporary);
    target->temporary = NULL;
    return true;
}

/* ---- All files ---- */

static bool find_targets(const struct output *output, const char *directory, struct target *targets,
                         struct error *error) {
    for (size_t i = 0; i < output->count; i++)
        if (!find_target(directory, &output->files[i], &targets[i], error))
            return false;
    return true;
}

/* Data that is on the disk before the file is renamed survives a crash of the machine.  All files
   are written before the first is synchronized, so that the disk gets them together. */
static bool sync_beside(const struct target *target, struct error *error) {
    int file = open(target->temporary, O_RDONLY | O_CLOEXEC);
    bool done = file >= 0 && fsync(file) == 0;
    if (!done)
        fail_errno(error, "write", target->path);
    if (file >= 0)
        close(file);
    return done;
}

/* Writes the directory's entries to the disk, if the file system can. */
static void sync_directory(const char *place) {
    char *directory = strndup(place, (size_t)(strrchr(place, '/') - place) + 1);
    int file = directory != NULL ? open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (file >= 0) {
        fsync(file);
        close(file);
    }
    free(directory);
}

static bool write_targets(const struct output *output, struct target *targets, int *written,
                          struct error *error) {
    const char *last = NULL;
    for (size_t i = 0; i < output->count; i++)
        if (!targets[i].is_equal && !write_beside(&targets[i], &output->files[i].text, error))
            return false;
    for (size_t i = 0; i < output->count; i++)
        if (!targets[i].is_equal && !sync_beside(&targets[i], error))
            return false;
    for (size_t i = 0; i < output->count; i++)
        if (!targets[i].is_equal) {
            if (!move_into_place(&targets[i], error))
                return false;
            ++*written;
            last = targets[i].place;
        }
    if (last != NULL)
        sync_directory(last);
    return true;
}

static void withdraw(const struct target *targets, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (targets[i].temporary != NULL)
            unlink(targets[i].temporary);
}

/* Writes all targets, or none, with signals blocked.  Only the disk can delay it, so signals wait
   for milliseconds. */
static bool write_held(const struct output *output, struct target *targets, int *written,
                       struct error *error) {
    sigset_t before = signals_hold();
    bool done = write_targets(output, targets, written, error);
    if (!done)
        withdraw(targets, output->count);
    signals_release(before);
    return done;
}

bool output_make_directory(const char *path, bool *made, struct error *error) {
    struct stat status;
    *made = mkdir(path, 0777) == 0;
    if (*made || (errno == EEXIST && stat(path, &status) == 0 && S_ISDIR(status.st_mode)))
        return true;
    return fail_errno(error, "make the directory", path);
}

bool output_check_home(const char *home, const char *instead, struct error *error) {
    struct stat status;
    return (stat(home, &status) == 0 && S_ISDIR(status.st_mode)) ||
           fail(error, EXIT_ENVIRONMENT, "HOME is \"%s\", which is not a directory; accepted: %s",
                home, instead);
}

bool output_make_directories(char *path, struct error *error) {
    for (char *slash = path + 1; (slash = strchr(slash, '/')) != NULL; *slash++ = '/') {
        *slash = '\0';
        mkdir(path, 0700);
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST ||
           fail_errno(error, "make the directory", path);
}

bool output_write(const struct output *output, const char *directory, int *written,
                  struct error *error) {
    struct target *targets = calloc(output->count + 1, sizeof *targets);
    *written = 0;
    bool done = (targets != NULL || out_of_memory(error)) &&
                find_targets(output, directory, targets, error) &&
                write_held(output, targets, written, error);
    free_targets(targets, output->count);
    return done;
}

bool output_write_file(const char *path, struct text *text, struct error *error) {
    const char *slash = strrchr(path, '/');
    char *directory = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    struct output output = {0};
    struct output_file *file = output_add(&output, slash ? slash + 1 : path, error);
    int written;
    if (file != NULL) {
        file->text = *text;
        *text = (struct text){0};
    }
    bool done = (directory != NULL && file != NULL) || out_of_memory(error);
    done = done && output_write(&output, directory, &written, error);
    output_free(&output);
    free(directory);
    return done;
}
