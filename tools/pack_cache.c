/* SPDX-License-Identifier: Apache-2.0 */
#include "pack_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../base/signals.h"
#include "../base/terminal.h"
#include "../base/text.h"
#include "../gen/pack.h"
#include "build_time.h"
#include "make.h"
#include "pack_key.h"
#include "remove_tree.h"

enum { KEY_DIGITS = 16, OTHERS_WRITE = 022 };

/* ---- Owners and permissions ---- */

/* Returns why an open file or directory cannot be trusted, or NULL. */
static const char *fault_of(int file) {
    struct stat status;
    if (fstat(file, &status) != 0)
        return "cannot be inspected";
    if (status.st_uid != geteuid())
        return "belongs to another user";
    return status.st_mode & OTHERS_WRITE ? "others may write to it" : NULL;
}

/* Returns why the parent directory cannot be trusted, or NULL.  Its owner, or anyone who may rename
   files in it, could replace the cache's directory. */
static const char *parent_fault_of(int directory) {
    struct stat status;
    if (fstat(directory, &status) != 0)
        return "cannot be inspected";
    if (status.st_uid != geteuid() && status.st_uid != 0)
        return "is in a directory of another user";
    return status.st_mode & S_IWOTH && !(status.st_mode & S_ISVTX)
               ? "is in a directory that anyone may write to"
               : NULL;
}

static const char *link_fault_of(int parent, const char *name) {
    struct stat status;
    return fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode)
               ? "is a symbolic link"
               : NULL;
}

static void note(const char *path, const char *name, const char *fault, const char *so) {
    print_shown(stderr, "%s/%s: %s; %s\n", path, name, fault, so);
}

/* ---- The directory ---- */

/* Returns the path of the parent directory, to be freed, or NULL after an error. */
static char *find_parent(struct error *error) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    if (cache != NULL && *cache == '/')
        path = strdup(cache);
    else if (home != NULL && *home) {
        if (!output_check_home(home, "XDG_CACHE_HOME, as the place of compiled kernels", error))
            return NULL;
        path = path_join(home, ".cache");
    } else {
        fail(error, EXIT_ENVIRONMENT,
             "neither XDG_CACHE_HOME nor HOME is set; set one, as the "
             "place of compiled kernels");
        return NULL;
    }
    if (path == NULL)
        out_of_memory(error);
    else if (output_make_directories(path, error))
        return path;
    free(path);
    return NULL;
}

static const char our_name[] = "kvmill";

/* Opens the cache's directory.  Returns -1 with a fault if other users may change it, or without a
   fault after an error. */
static int open_ours(const char *path, int parent, const char **fault, struct error *error) {
    *fault = parent_fault_of(parent);
    if (*fault == NULL)
        *fault = link_fault_of(parent, our_name);
    if (*fault != NULL)
        return -1;
    if (mkdirat(parent, our_name, 0700) != 0 && errno != EEXIST) {
        fail_errno(error, "make a directory in it", path);
        return -1;
    }
    int directory = openat(parent, our_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory < 0) {
        fail_errno(error, "open kvmill/ in it", path);
        return -1;
    }
    *fault = fault_of(directory);
    if (*fault == NULL)
        return directory;
    close(directory);
    return -1;
}

static bool use_scratch(struct pack_cache *cache, struct error *error) {
    const char *below = getenv("TMPDIR");
    if (!scratch_open(below && *below ? below : "/tmp", "kvmill-run", &cache->scratch, error))
        return false;
    cache->path = strdup(cache->scratch.directory);
    cache->directory =
        open(cache->scratch.directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return (cache->path != NULL || out_of_memory(error)) &&
           (cache->directory >= 0 || fail_errno(error, "open", cache->scratch.directory));
}

static bool use_parent(struct pack_cache *cache, const char *path, struct error *error) {
    const char *fault = NULL;
    int parent = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0)
        return fail_errno(error, "open", path);
    cache->directory = open_ours(path, parent, &fault, error);
    close(parent);
    if (fault != NULL) {
        note(path, our_name, fault,
             "compiled kernels are kept where nobody else may write; these are compiled for this "
             "run only");
        return use_scratch(cache, error);
    }
    if (cache->directory >= 0)
        cache->path = path_join(path, our_name);
    return cache->directory >= 0 && (cache->path != NULL || out_of_memory(error));
}

/* ---- Killed builds: <key>.<process>/ with a lock file, and <key>.<process>.log ---- */

enum { ABANDONED_SECONDS = 3600 };
static const char lock_name[] = "lock";

static bool lock_file(int file) {
    return flock(file, LOCK_EX | LOCK_NB) == 0;
}

/* Whether a build is abandoned: nothing locks its file.  Without a lock file it may be just
   beginning, be of an older version, or belong to another machine that shares the directory.  Then
   it counts as abandoned after ABANDONED_SECONDS. */
static bool is_left(int cache, const char *name) {
    struct stat status;
    char path[NAME_MAX + sizeof lock_name + 1];
    snprintf(path, sizeof path, "%s/%s", name, lock_name);
    int lock = openat(cache, path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (lock >= 0) {
        bool left = lock_file(lock);
        close(lock);
        return left;
    }
    return fstatat(cache, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           status.st_mtime < time(NULL) - ABANDONED_SECONDS;
}

static bool is_abandoned(int cache, const char *name) {
    char *end;
    if (strspn(name, "0123456789abcdef") != KEY_DIGITS || name[KEY_DIGITS] != '.')
        return false;
    long process = strtol(name + KEY_DIGITS + 1, &end, 10);
    if (process <= 0 || process > INT32_MAX || (*end != '\0' && strcmp(end, ".log") != 0))
        return false;
    return kill((pid_t)process, 0) != 0 && errno == ESRCH && is_left(cache, name);
}

static void sweep(const char *path) {
    DIR *stream = opendir(path);
    struct dirent *entry;
    while (stream != NULL && (entry = readdir(stream)) != NULL)
        if (is_abandoned(dirfd(stream), entry->d_name)) {
            char *left = path_join(path, entry->d_name);
            if (left != NULL)
                remove_tree(left);
            free(left);
        }
    if (stream != NULL)
        closedir(stream);
}

bool pack_cache_open(struct pack_cache *cache, struct error *error) {
    *cache = (struct pack_cache){.directory = -1};
    char *parent = find_parent(error);
    bool done = parent != NULL && use_parent(cache, parent, error);
    free(parent);
    if (done)
        sweep(cache->path);
    else
        pack_cache_close(cache);
    return done;
}

void pack_cache_close(struct pack_cache *cache) {
    if (cache->directory >= 0)
        close(cache->directory);
    scratch_close(&cache->scratch);
    free(cache->path);
    *cache = (struct pack_cache){.directory = -1};
}

/* ---- A pack in the cache ---- */

struct entry {
    const struct pack_cache *cache;
    char key[SHA256_TEXT];
    char name[KEY_DIGITS + 1]; /* of its directory in the cache */
    char library[128];         /* the file name of the library */
    char *target;              /* the path of that directory */
    char *ours, *log;          /* the directory where it is built, and make's log */
};

static const char stamp_name[] = "stamp";

/* Prints the stamp: the key, and the size and hash of an open library. */
static bool print_stamp(const struct entry *entry, int library, struct text *stamp) {
    char block[65536], hash[SHA256_TEXT];
    struct sha256 sha;
    off_t at = 0;
    ssize_t got;
    sha256_begin(&sha);
    while ((got = pread(library, block, sizeof block, at)) > 0) {
        sha256_add(&sha, block, (size_t)got);
        at += got;
    }
    sha256_end(&sha, hash);
    return got == 0 && text_print(stamp, "kvmill pack 1\nkey %s\nlibrary %lld %s\n", entry->key,
                                  (long long)at, hash);
}

/* Opens a kept file or directory.  Does not follow a link or wait for a fifo; refuses a file that
   other users may change. */
static int open_kept(int directory, const char *name, int flags, const char **fault) {
    int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags);
    if (file < 0 && errno != ENOENT)
        *fault = "cannot be opened, or is a link";
    if (file >= 0 && (*fault = fault_of(file)) != NULL) {
        close(file);
        return -1;
    }
    return file;
}

static bool is_stamped(const struct entry *entry, int directory, int library, const char **fault) {
    char held[512];
    struct text stamp = {0};
    int file = open_kept(directory, stamp_name, 0, fault);
    ssize_t length = file >= 0 ? pread(file, held, sizeof held, 0) : -1;
    bool same = print_stamp(entry, library, &stamp) && length == (ssize_t)stamp.length &&
                memcmp(held, stamp.data, stamp.length) == 0;
    if (!same && *fault == NULL)
        *fault = "has changed since it was compiled";
    if (file >= 0)
        close(file);
    text_free(&stamp);
    return same;
}

static int find_library(const struct entry *entry, int directory, const char **fault) {
    int library = open_kept(directory, entry->library, 0, fault);
    if (library >= 0 && is_stamped(entry, directory, library, fault))
        return library;
    if (library >= 0)
        close(library);
    return -1;
}

/* Returns a descriptor of the kept library, or -1.  Prints a note if there is one that cannot be
   used. */
static int find_kept(const struct entry *entry) {
    const char *fault = NULL;
    int directory = open_kept(entry->cache->directory, entry->name, O_DIRECTORY, &fault);
    int library = directory >= 0 ? find_library(entry, directory, &fault) : -1;
    if (fault != NULL)
        note(entry->cache->path, entry->name, fault, "it is compiled again");
    if (directory >= 0)
        close(directory);
    return library;
}

/* ---- Building, in a directory of this process, which is then renamed to its place ---- */

static bool write_stamp(const struct entry *entry, int directory, int library) {
    struct text stamp = {0};
    int file =
        openat(directory, stamp_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool done = file >= 0 && print_stamp(entry, library, &stamp) &&
                write(file, stamp.data, stamp.length) == (ssize_t)stamp.length && fsync(file) == 0;
    if (file >= 0)
        close(file);
    text_free(&stamp);
    return done;
}

/* Writes everything to the disk before the directory is renamed, so that it survives a crash of the
   machine. */
static bool seal(const struct entry *entry, int directory, int library) {
    struct stat status;
    return fstat(library, &status) == 0 &&
           fchmod(library, status.st_mode & 07777 & ~OTHERS_WRITE) == 0 &&
           write_stamp(entry, directory, library) && fsync(library) == 0 &&
           unlinkat(directory, lock_name, 0) == 0 && fsync(directory) == 0;
}

/* Moves the build to its place in the cache.  If something is there, it is the same pack from
   another process, or useless, and is replaced. */
static void move_to_target(const struct entry *entry) {
    if (rename(entry->ours, entry->target) != 0) {
        remove_tree(entry->target);
        if (rename(entry->ours, entry->target) != 0)
            note(entry->cache->path, entry->name, strerror(errno), "it is not kept");
    }
    fsync(entry->cache->directory);
}

/* Builds the library.  Returns its descriptor, or -1 after an error. */
static int make_library(const struct entry *entry, const struct output *output, int directory,
                        struct error *error) {
    int written;
    if (!pack_write(output, entry->ours, &written, error) || signals_noted)
        return -1;
    say_doing("compiling", entry->library);
    bool made = run_make(entry->ours, entry->log, error);
    say_done();
    if (!made)
        return -1;
    int library = openat(directory, entry->library, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (library < 0 || !seal(entry, directory, library)) {
        fail_errno(error, "keep compiled kernels there", entry->ours);
        if (library >= 0)
            close(library);
        return -1;
    }
    move_to_target(entry);
    return library;
}

/* Makes and locks a directory to build in.  Returns its descriptor, or -1 after an error. */
static int open_build(const struct entry *entry, int *lock, struct error *error) {
    remove_tree(entry->ours);
    if (mkdir(entry->ours, 0700) != 0) {
        fail_errno(error, "make the directory", entry->ours);
        return -1;
    }
    int directory = open(entry->ours, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    *lock = openat(directory, lock_name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (*lock >= 0 && directory >= 0) {
        lock_file(*lock); /* may fail: without locks, builds are removed by age */
        return directory;
    }
    fail_errno(error, "open", entry->ours);
    if (directory >= 0)
        close(directory);
    return -1;
}

static int build_noted(const struct entry *entry, const struct output *output,
                       struct error *error) {
    int lock = -1, library = -1, directory = open_build(entry, &lock, error);
    if (directory >= 0)
        library = make_library(entry, output, directory, error);
    if (library >= 0 || signals_noted)
        unlink(entry->log);
    remove_tree(entry->ours); /* if it was not moved */
    if (directory >= 0)
        close(directory);
    if (lock >= 0)
        close(lock);
    return library;
}

static int build(const struct entry *entry, const struct output *output, struct error *error) {
    struct signal_actions before;
    signals_note(&before);
    int library = build_noted(entry, output, error);
    signals_obey(&before);
    return library;
}

/* ---- Finding or building ---- */

static bool name_entry(struct entry *entry, const struct output *output, const char *name,
                       struct error *error) {
    const char *path = entry->cache->path;
    if (!pack_key(output, "/", entry->key, error))
        return false;
    memcpy(entry->name, entry->key, KEY_DIGITS);
    entry->name[KEY_DIGITS] = '\0';
    snprintf(entry->library, sizeof entry->library, "lib%.100s.so", name);
    return (asprintf(&entry->target, "%s/%s", path, entry->name) >= 0 &&
            asprintf(&entry->ours, "%s/%s.%ld", path, entry->name, (long)getpid()) >= 0 &&
            asprintf(&entry->log, "%s.log", entry->ours) >= 0) ||
           out_of_memory(error);
}

static void free_entry(struct entry *entry) {
    free(entry->target);
    free(entry->ours);
    free(entry->log);
}

static int find_or_build(struct entry *entry, const struct output *output, const char *name,
                         double seconds, struct error *error) {
    int library = -1;
    if (name_entry(entry, output, name, error) && (library = find_kept(entry)) < 0 &&
        build_time_check(output, seconds, error))
        library = build(entry, output, error);
    return library;
}

int pack_cache_library(const struct pack_cache *cache, const struct output *output,
                       const char *name, double seconds, struct error *error) {
    struct entry entry = {.cache = cache};
    int library = find_or_build(&entry, output, name, seconds, error);
    free_entry(&entry);
    return library;
}

static char *path_of(const struct entry *entry, struct error *error) {
    char *path = path_join(entry->target, entry->library);
    if (path == NULL)
        out_of_memory(error);
    else if (access(path, R_OK) != 0) {
        fail_errno(error, "find compiled kernels at", path);
        free(path);
        path = NULL;
    }
    return path;
}

char *pack_cache_keep(const struct pack_cache *cache, const struct output *output, const char *name,
                      struct error *error) {
    struct entry entry = {.cache = cache};
    char *path = NULL;
    if (cache->scratch.directory != NULL) {
        fail(error, EXIT_ENVIRONMENT,
             "compiled kernels are kept where nobody else may write, see above; accepted: "
             "XDG_CACHE_HOME with a directory of your own");
        return NULL;
    }
    int library = find_or_build(&entry, output, name, INFINITY, error);
    if (library >= 0) {
        path = path_of(&entry, error);
        close(library);
    }
    free_entry(&entry);
    return path;
}
