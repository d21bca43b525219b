/* Reading files that users name: limits, pipes, and what is no file.

   SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../base/input.h"
#include "common.h"

enum { MIB = 1 << 20 };

static struct error error;

static bool refuse_elf(const char *path, const struct text *begin, struct error *why) {
    return begin->length < 4 || memcmp(begin->data, "\177ELF", 4) != 0 ||
           fail(why, EXIT_USER, "%s: is a program", path);
}

static const struct input_kind files = {.words = "a file of the test", .most = MIB};
static const struct input_kind streams = {
    .words = "a file of the test", .most = MIB, .streams = true, .refuse = refuse_elf};

static const char *file_of(const char *name, off_t size) {
    const char *path = scratch_path("%s", name);
    write_text(path, "begin");
    must(truncate(path, size) == 0, "cannot change the size of a file");
    return path;
}

/* Writes a file to a pipe, in pieces, in another process.  Returns the end to read. */
static int pipe_of(const char *data, size_t size, size_t piece) {
    int ends[2];
    must(pipe(ends) == 0, "no pipe");
    if (fork() == 0) {
        close(ends[0]);
        for (size_t at = 0; at < size; at += piece)
            if (write(ends[1], data + at, size - at < piece ? size - at : piece) < 0)
                _exit(1);
        _exit(0);
    }
    close(ends[1]);
    return ends[0];
}

static bool read_pipe(const char *data, size_t size, size_t piece, struct text *text) {
    int file = pipe_of(data, size, piece);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    bool done = input_read(path, &streams, text, &error);
    close(file);
    wait(NULL);
    return done;
}

TEST(sizes) {
    for (int more = -1; more <= 1; more++) {
        OWN(text_free) struct text text = {0};
        bool done = input_read(file_of("sized", MIB + more), &files, &text, &error);
        if (more <= 0)
            ok(done && text.length == (size_t)(MIB + more) && memcmp(text.data, "begin", 6) == 0 &&
                   text.data[text.length] == '\0',
               "a file of %d bytes is read, and ends with NUL", MIB + more);
        else
            ok_failed(done, &error, EXIT_USER, NULL,
                      ": 1048577 bytes; accepted: a file of the test of at most 1 MiB",
                      "a byte more is refused");
    }
    OWN(text_free) struct text none = {0};
    ok(input_read(file_of("sized", 0), &files, &none, &error) && none.length == 0 &&
           none.data != NULL && *none.data == '\0',
       "an empty file is an empty text");
    ok_failed(input_check(file_of("sized", (off_t)100 << 30), &files, &error), &error, EXIT_USER,
              NULL, ": 107374182400 bytes; accepted: ", "100 GiB are refused");
    const struct input_kind any = {.words = "any"};
    ok(input_check(file_of("sized", (off_t)100 << 30), &any, &error), "  where there is a limit");
}

TEST(kinds) {
    OWN(text_free) struct text text = {0};
    const char *fifo = scratch_path("fifo");
    must(mkfifo(fifo, 0600) == 0, "no FIFO");
    ok_failed(input_check(scratch_folder(), &streams, &error), &error, EXIT_USER, NULL,
              ": is a directory; accepted: a file of the test", "a directory");
    ok_failed(input_check("/dev/null", &files, &error), &error, EXIT_USER, "/dev/null",
              "is not a regular file; accepted: a file of the test", "a device");
    ok_failed(input_check(fifo, &files, &error), &error, EXIT_USER, NULL,
              "is not a regular file; accepted: ", "a FIFO where none is accepted");
    ok_failed(input_check(fifo, &streams, &error), &error, EXIT_USER, NULL,
              "nobody writes to this FIFO for 5 s; accepted: ", "one that nobody writes to");
    ok_failed(input_read("/dev/zero", &streams, &text, &error), &error, EXIT_USER, "/dev/zero",
              "more than 1048576 bytes; accepted: a file of the test of at most 1 MiB",
              "a device without an end");
    ok(text.length == MIB + 1, "  is read to a byte beyond the limit, not %zu", text.length);
    ok_failed(input_check(scratch_path("absent"), &files, &error), &error, EXIT_USER, NULL,
              "cannot read: No such file", "what is not there");
}

TEST(pipes) {
    FREED char *data = malloc(MIB + 1);
    must(data != NULL, "no memory");
    for (size_t i = 0; i <= MIB; i++)
        data[i] = (char)('a' + i % 26);
    static const size_t sizes[] = {0, 1, INPUT_BEGIN - 1, INPUT_BEGIN, 70000, MIB};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        OWN(text_free) struct text text = {0};
        ok(read_pipe(data, sizes[i], sizes[i] < 100 ? 1 : 5000, &text) && text.length == sizes[i] &&
               memcmp(text.data, data, sizes[i]) == 0,
           "%zu bytes from a pipe", sizes[i]);
    }
    OWN(text_free) struct text text = {0};
    ok_failed(read_pipe(data, MIB + 1, 5000, &text), &error, EXIT_USER, NULL,
              "more than 1048576 bytes", "a byte more is refused");
}

TEST(beginnings) {
    OWN(text_free) struct text text = {0};
    const char *path = scratch_path("program");
    write_bytes(path, "\177ELF", 4);
    must(truncate(path, 2 * MIB) == 0, "cannot change the size of a file");
    ok_failed(input_read(path, &streams, &text, &error), &error, EXIT_USER, NULL, "is a program",
              "a known beginning is refused before the size");
}
