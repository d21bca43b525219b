/* Structs of older and of newer programs, for every function that takes one: what is missing has
   its default, what is unknown must be zeros; nothing beyond struct_size is read or written.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "callers.h"
#include "fence.h"
#include "tap.h"

enum { WORD = sizeof(size_t), MORE = 64, MOST = 4096 };

static struct dice dice;

static bool is_same(const struct answer *a, const struct answer *b) {
    return a->status == b->status && strcmp(a->error.message, b->error.message) == 0 &&
           strcmp(a->text, b->text) == 0;
}

static void tell(const struct answer *answer) {
    diag("  %s \"%s\" \"%s\"", kvmill_status_name(answer->status), answer->error.message,
         answer->text);
}

/* ---- Calls with structs that end where nobody may read on ---- */

static void set_size(unsigned char *at, size_t size) {
    memcpy(at, &size, sizeof size);
}

/* `size` bytes of the good struct, zeros after them but for byte `odd`, as a struct of struct_size
   `told`. */
static struct answer call_with(const struct caller *caller, size_t size, size_t told, size_t odd) {
    static struct answer answer;
    struct fence fence;
    size_t known = caller_part(caller)->size;
    memset(&answer, 0, sizeof answer);
    fence_open(&fence, size, 0, FENCE_ABOVE, &dice);
    memset(fence.data, 0, size);
    memcpy(fence.data, caller->good, size < known ? size : known);
    set_size(fence.data, told);
    if (odd != 0)
        fence.data[odd] = 1;
    caller->call(fence.data, &answer);
    fence_close(&fence);
    return answer;
}

/* The good struct with defaults from `size` on: what an older program means. */
static struct answer call_with_defaults(const struct caller *caller, size_t size) {
    static struct answer answer;
    size_t known = caller_part(caller)->size;
    unsigned char *whole = calloc(1, known);
    memset(&answer, 0, sizeof answer);
    caller->init(whole, known);
    memcpy(whole + WORD, (const unsigned char *)caller->good + WORD, size - WORD);
    caller->call(whole, &answer);
    free(whole);
    return answer;
}

/* ---- Older ---- */

static int count_older(const struct caller *caller) {
    int wrong = 0;
    for (size_t size = WORD; size <= caller_part(caller)->size; size += WORD) {
        struct answer have = call_with(caller, size, size, 0);
        struct answer want = call_with_defaults(caller, size);
        if (caller->is_result)
            memcpy(have.text, want.text, sizeof have.text);
        if (is_same(&have, &want))
            continue;
        wrong++;
        diag("%zu bytes:", size);
        tell(&have);
        tell(&want);
    }
    return wrong;
}

/* ---- Newer ---- */

static bool refuses_newer(const struct caller *caller, size_t size, size_t odd) {
    char words[160];
    const struct answer answer = call_with(caller, size, size, odd);
    snprintf(words, sizeof words,
             "%s.struct_size is %zu, and byte %zu is not 0; libkvmill %s knows", caller->what, size,
             odd, KVMILL_VERSION);
    bool good = answer.status == KVMILL_E_VERSION && strstr(answer.error.message, words) != NULL;
    if (!good)
        tell(&answer);
    return good;
}

static bool takes_newer(const struct caller *caller) {
    size_t known = caller_part(caller)->size;
    const struct answer want = call_with(caller, known, known, 0);
    bool good = want.status == KVMILL_OK;
    if (!good)
        tell(&want);
    for (size_t size = known + WORD; good && size <= known + MORE; size += WORD) {
        const struct answer have = call_with(caller, size, size, 0);
        good = is_same(&have, &want);
        if (!caller->is_result)
            good =
                good && refuses_newer(caller, size, known) && refuses_newer(caller, size, size - 1);
    }
    return good;
}

/* ---- Sizes of no struct ---- */

static bool refuses_sizes(const struct caller *caller) {
    const size_t sizes[] = {0,        1,           WORD - 1, WORD + 1,
                            WORD + 4, MOST + WORD, SIZE_MAX, SIZE_MAX - 7};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char words[96];
        const struct answer answer = call_with(caller, WORD, sizes[i], 0);
        snprintf(words, sizeof words, "%s.struct_size is %zu; accepted: sizeof (%s), which is %zu",
                 caller->what, sizes[i], caller_part(caller)->name, caller_part(caller)->size);
        if (answer.status != KVMILL_E_ATTRIBUTE ||
            strncmp(answer.error.message, words, strlen(words)) != 0) {
            tell(&answer);
            return false;
        }
    }
    return true;
}

static bool takes_null(const struct caller *caller) {
    static struct answer answer;
    memset(&answer, 0, sizeof answer);
    caller->call(NULL, &answer);
    kvmill_status wanted = caller->may_be_null ? KVMILL_OK : KVMILL_E_NULL;
    if (answer.status != wanted)
        tell(&answer);
    return answer.status == wanted;
}

/* ---- Init functions ---- */

static bool is_set(const struct caller *caller, size_t size) {
    struct fence fence;
    size_t known = caller_part(caller)->size;
    unsigned char *want = calloc(1, known + MORE);
    kvmill_op_init(caller_part(caller), want);
    set_size(want, size);
    fence_open(&fence, size, 0, FENCE_ABOVE, &dice);
    caller->init(fence.data, size);
    int64_t where;
    bool good = memcmp(fence.data, want, size) == 0 && fence_is_intact(&fence, &where);
    fence_close(&fence);
    free(want);
    return good;
}

static bool sets_defaults(const struct caller *caller) {
    size_t none[2] = {77, 77};
    bool good = true;
    for (size_t size = WORD; size <= caller_part(caller)->size + MORE; size += WORD)
        good = good && is_set(caller, size);
    caller->init(NULL, caller_part(caller)->size);
    caller->init(none, 0);
    caller->init(none, WORD + 1);
    caller->init(none, SIZE_MAX);
    return good && none[0] == 77 && none[1] == 77;
}

/* A layout says as much as there is room for. */
static void test_layout(void) {
    kvmill_flow_layout whole = {.struct_size = sizeof whole};
    struct {
        size_t struct_size;
        int64_t page_size, after;
    } small = {2 * WORD, 0, 77};
    kvmill_error error;
    ok(kvmill_flow_describe(&callers_flow, &whole, &error) == KVMILL_OK && whole.page_size == 4 &&
           whole.page_bytes > 0 && whole.struct_size == sizeof whole,
       "a layout is filled");
    ok(kvmill_flow_describe(&callers_flow, (kvmill_flow_layout *)(void *)&small, &error) ==
               KVMILL_OK &&
           small.struct_size == 2 * WORD && small.page_size == 4 && small.after == 77,
       "of an older program's as much as it has");
}

int main(void) {
    dice = dice_for(dice_seed(), "structs");
    callers_open();
    for (const struct caller *caller = callers; caller->name != NULL; caller++) {
        ok(count_older(caller) == 0, "%s: older structs have defaults for what they lack",
           caller->name);
        ok(takes_newer(caller), "  newer ones may add zeros alone");
        ok(refuses_sizes(caller), "  sizes of no struct are refused");
        ok(takes_null(caller), "  NULL %s", caller->may_be_null ? "is accepted" : "is refused");
        ok(sets_defaults(caller), "  the init function sets what there is room for");
    }
    test_layout();
    return done_testing();
}
