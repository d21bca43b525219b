/* The key of a compiled pack: files, compiler and flags; the CPU, if these depend on it.

   SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>

#include "../tools/pack_key.h"
#include "common.h"

static struct error error;

/* Hashes of FIPS 180-4, and of lengths around a block. */
TEST(hash) {
    static const struct {
        const char *data;
        int times;
        const char *hash;
    } cases[] = {
        {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"aaaaaaaaaa", 100000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sha256 sha;
        char text[SHA256_TEXT];
        sha256_begin(&sha);
        for (int k = 0; k < cases[i].times; k++)
            sha256_add(&sha, cases[i].data, strlen(cases[i].data));
        sha256_end(&sha, text);
        ok_text(text, cases[i].hash, "SHA-256 of %d times %zu bytes", cases[i].times,
                strlen(cases[i].data));
    }
}

static void key_of(const struct output *output, char key[SHA256_TEXT]) {
    must(pack_key(output, scratch_folder(), key, &error), error.text);
}

/* Whether the key differs between two CPUs. */
static bool depends(const struct output *output, const char *a, const char *b) {
    char first[SHA256_TEXT], second[SHA256_TEXT];
    write_text(scratch_path("proc/cpuinfo"), a);
    key_of(output, first);
    write_text(scratch_path("proc/cpuinfo"), b);
    key_of(output, second);
    return strcmp(first, second) != 0;
}

static void test_cpu(const struct output *output) {
    static const char cpu[] = "processor: 0\nmodel name: A\ncpu MHz: 1000\nflags: sse avx\n\n";
    static const char faster[] = "processor: 0\nmodel name: A\ncpu MHz: 2000\nflags: sse avx\n\n";
    static const char other[] = "processor: 0\nmodel name: A\ncpu MHz: 1000\nflags: sse\n\n";
    setenv("CFLAGS", "-O2 -march=native", 1);
    char key[SHA256_TEXT];
    ok(!pack_key(output, scratch_folder(), key, &error) && error.exit_code == EXIT_ENVIRONMENT,
       "-march=native on a CPU that cannot be read: %s", error.text);
    ok(depends(output, cpu, other), "-march=native: the CPU is part of the key");
    ok(!depends(output, cpu, faster), "  but not its clock");
    setenv("CFLAGS", "-O2", 1);
    setenv("CC", "cc -mtune=native", 1);
    ok(depends(output, cpu, other), "  also with the compiler's name");
    unsetenv("CC");
    ok(!depends(output, cpu, other), "other flags: it is not");
}

/* Whether a change of any file changes the key. */
static void test_files(struct output *output) {
    char before[SHA256_TEXT], after[SHA256_TEXT];
    key_of(output, before);
    setenv("LDFLAGS", "-s", 1);
    key_of(output, after);
    ok(strcmp(before, after) != 0, "flags are part of it");
    unsetenv("LDFLAGS");
    struct output_file *file = output_add(output, "b", &error);
    if (file == NULL || !text_append(&file->text, "y", 1))
        bail_out("%s", "out of memory");
    key_of(output, before);
    output->files[0].text.data[0] = 'z';
    key_of(output, after);
    ok(strcmp(before, after) != 0, "and so is what the files hold");
}

TEST(key) {
    OWN(output_free) struct output output = {0};
    mkdir(scratch_path("proc"), 0700);
    unsetenv("CC");
    unsetenv("CPPFLAGS");
    unsetenv("LDFLAGS");
    struct output_file *file = output_add(&output, "a", &error);
    if (file == NULL || !text_append(&file->text, "x", 1))
        bail_out("%s", "out of memory");
    test_cpu(&output);
    test_files(&output);
}
