/* SPDX-License-Identifier: Apache-2.0 */
#include "llama_program.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "../base/input.h"
#include "../base/process.h"
#include "../base/text.h"

/* A variable that every ggml reads, and nothing else: a file that has its name has ggml inside. */
static const char mark[] = "GGML_BACKEND_PATH";

/* ---- Files ---- */

struct file {
    unsigned char *data;
    size_t size;
};

static bool open_file(const char *path, struct file *file, struct error *error) {
    static const struct input_kind program_input = {.words = "a program or a library",
                                                    .most = (int64_t)4 << 30};
    int descriptor = input_open(path, &program_input, error);
    if (descriptor < 0)
        return false;
    off_t size = lseek(descriptor, 0, SEEK_END);
    file->size = size > 0 ? (size_t)size : 0;
    file->data = MAP_FAILED;
    if (file->size > 0)
        file->data = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    bool done = file->data != MAP_FAILED ||
                (size == 0 ? fail(error, EXIT_USER,
                                  "%s: is not a program; accepted: a program or a library", path)
                           : fail_to_use(error, "read", path));
    close(descriptor);
    return done;
}

static void close_file(const struct file *file) {
    munmap(file->data, file->size);
}

static bool has_mark(const char *path) {
    struct file file;
    struct error ignored;
    if (!open_file(path, &file, &ignored))
        return false;
    bool has = memmem(file.data, file.size, mark, sizeof mark) != NULL;
    close_file(&file);
    return has;
}

/* ---- ELF ---- */

static bool is_script(const struct file *file) {
    return file->size > 2 && memcmp(file->data, "#!", 2) == 0;
}

/* Whether the file is of the kind that this command is. */
static bool is_native(const struct file *file) {
    struct file own;
    struct error ignored;
    if (!open_file("/proc/self/exe", &own, &ignored))
        return false;
    const Elf64_Ehdr *ours = (const void *)own.data, *theirs = (const void *)file->data;
    bool is = file->size > sizeof *theirs &&
              memcmp(ours->e_ident, theirs->e_ident, EI_DATA + 1) == 0 &&
              ours->e_machine == theirs->e_machine;
    close_file(&own);
    return is;
}

/* Returns the path of the loader, or NULL if the file names none. */
static const char *loader_of(const struct file *file) {
    const Elf64_Ehdr *header = (const void *)file->data;
    for (size_t i = 0; i < header->e_phnum; i++) {
        size_t at = header->e_phoff + i * header->e_phentsize;
        Elf64_Phdr part;
        if (at > file->size || file->size - at < sizeof part)
            return NULL;
        memcpy(&part, file->data + at, sizeof part); /* it may be at any address */
        if (part.p_type == PT_INTERP && part.p_offset < file->size && part.p_filesz > 0 &&
            part.p_filesz <= file->size - part.p_offset &&
            file->data[part.p_offset + part.p_filesz - 1] == '\0')
            return (const char *)file->data + part.p_offset;
    }
    return NULL;
}

static bool is_library(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return strstr(name, ".so") != NULL;
}

static bool can_be_preloaded(const struct file *file, const char *path, struct error *error) {
    if (is_script(file))
        return true; /* its interpreter passes the environment on */
    if (!is_native(file))
        return fail(error, EXIT_USER, "%s: is not an executable file for this processor", path);
    return loader_of(file) != NULL || is_library(path) ||
           fail(
               error, EXIT_USER,
               "%s: is linked statically, so no library can be loaded into it; accepted: llama.cpp "
               "with shared libraries (BUILD_SHARED_LIBS=ON, its default)",
               path);
}

/* The loader does not preload for programs that give more rights than the user has. */
static bool gives_no_rights(const char *path, struct error *error) {
    struct stat status;
    if (stat(path, &status) != 0)
        return fail_to_use(error, "read", path);
    bool user = (status.st_mode & S_ISUID) != 0 && status.st_uid != geteuid();
    bool group = (status.st_mode & S_ISGID) != 0 && status.st_gid != getegid();
    bool capable = geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
    return !(user || group || capable) ||
           fail(error, EXIT_USER,
                "%s: runs with rights that you do not have (setuid, setgid or capabilities), and "
                "the loader preloads nothing into such programs; accepted: a program without them",
                path);
}

/* ---- Finding ---- */

static bool is_program(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

static bool find_in_path(const char *name, char path[PATH_MAX]) {
    const char *place = getenv("PATH");
    for (place = place ? place : "/usr/bin:/bin"; place != NULL && *place != '\0';) {
        int length = (int)strcspn(place, ":");
        snprintf(path, PATH_MAX, "%.*s/%s", length > 0 ? length : 1, length > 0 ? place : ".",
                 name);
        if (is_program(path))
            return true;
        place += length + (place[length] == ':');
    }
    return false;
}

static bool find_path(const char *name, struct llama_program *program, struct error *error) {
    bool is_path = strchr(name, '/') != NULL;
    if (!is_path && find_in_path(name, program->path))
        return true;
    if (!is_path && !is_library(name))
        return fail(error, EXIT_USER, "\"%.200s\": no such program in PATH", name);
    if (strlen(name) >= PATH_MAX)
        return fail(error, EXIT_USER, "a path of %zu bytes; accepted: %d at most", strlen(name),
                    PATH_MAX - 1);
    strcpy(program->path, name);
    return is_library(name) || access(name, F_OK) != 0 || is_program(name) ||
           fail(error, EXIT_USER, "%s: is not executable; accepted: a program or a library", name);
}

bool llama_program_find(const char *name, struct llama_program *program, struct error *error) {
    struct file file;
    *program = (struct llama_program){0};
    if (!find_path(name, program, error) || !open_file(program->path, &file, error))
        return false;
    bool can = can_be_preloaded(&file, program->path, error);
    close_file(&file);
    return can && gives_no_rights(program->path, error);
}

bool llama_adapter_find(const char *name, char path[PATH_MAX], struct error *error) {
    struct file file;
    if (realpath(name, path) == NULL)
        return fail(error, EXIT_USER,
                    "%.200s: cannot read: %s; accepted: --adapter LIBRARY, which `make -f "
                    "bindings/ggml/Makefile` of kvmill's source builds",
                    name, strerror(errno));
    if (strpbrk(path, " :") != NULL)
        return fail(error, EXIT_USER,
                    "%.300s: the loader preloads no path with a space or a colon; accepted: a path "
                    "without them",
                    path);
    if (!open_file(path, &file, error))
        return false;
    bool is = is_native(&file);
    close_file(&file);
    return is || fail(error, EXIT_USER, "%s: is not a library for this processor", path);
}

/* ---- The libraries that a program loads when it starts ---- */

/* Copies the path of the program's loader, or of this command's, for a library.  "" for scripts. */
static bool find_loader(const char *path, char loader[PATH_MAX], struct error *error) {
    struct file file;
    if (!open_file(path, &file, error))
        return false;
    const char *found = is_script(&file) ? "" : loader_of(&file);
    snprintf(loader, PATH_MAX, "%s", found ? found : "");
    bool done = found != NULL || find_loader("/proc/self/exe", loader, error);
    close_file(&file);
    return done;
}

static bool fail_to_load(const char *path, const struct text *list, struct error *error) {
    return fail(error, EXIT_USER, "%s: cannot be loaded: %.*s", path,
                (int)strcspn(list->data, "\n"), list->data);
}

/* Lists them by the loader, which does not run the program.  If one is missing, the loader says
   which. */
static bool list_libraries(char *loader, char *path, struct text *list, struct error *error) {
    char option[] = "--list", *arguments[] = {loader, option, path, NULL}, place[64];
    int status, descriptor = memfd_create("libraries", MFD_CLOEXEC);
    if (descriptor < 0)
        return fail_errno(error, "create", "a file in memory");
    const int streams[STANDARD_STREAMS] = {-1, descriptor, descriptor};
    snprintf(place, sizeof place, "/proc/self/fd/%d", descriptor);
    bool ran = process_run(arguments, streams, "the loader of programs", &status, error);
    bool has_words = text_read_file(list, place) && list->data != NULL;
    close(descriptor);
    if (!has_words)
        return ran; /* a library that needs no other */
    return (ran && status == 0) || fail_to_load(path, list, error);
}

/* Copies the path of the first library that has ggml inside from lines "NAME => PATH (ADDRESS)". */
static void find_ggml(const char *list, char ggml[PATH_MAX]) {
    const char *arrow = list;
    while ((arrow = strstr(arrow, " => ")) != NULL && *ggml == '\0') {
        arrow += 4;
        snprintf(ggml, PATH_MAX, "%.*s", (int)strcspn(arrow, " \n"), arrow);
        const char *name = strrchr(ggml, '/');
        bool may_be =
            name != NULL && (strstr(name, "ggml") != NULL || strstr(name, "llama") != NULL);
        if (!may_be || !has_mark(ggml))
            *ggml = '\0';
    }
}

static bool is_part_of_program(const struct llama_program *program, struct error *error) {
    return !has_mark(program->path) ||
           fail(error, EXIT_USER,
                "%s: ggml is linked statically into it, so it uses no other backends; accepted: "
                "llama.cpp with shared libraries (BUILD_SHARED_LIBS=ON, its default)",
                program->path);
}

bool llama_program_ggml(struct llama_program *program, struct error *error) {
    struct text list = {0};
    char loader[PATH_MAX];
    if (is_library(program->path) && has_mark(program->path)) {
        strcpy(program->ggml, program->path);
        return true;
    }
    if (!find_loader(program->path, loader, error))
        return false;
    bool done = *loader == '\0' || list_libraries(loader, program->path, &list, error);
    if (done && list.data != NULL)
        find_ggml(list.data, program->ggml);
    text_free(&list);
    return done && (*program->ggml != '\0' || is_part_of_program(program, error));
}
