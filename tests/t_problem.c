/* Problems in words, and the sizes they stand for.

   SPDX-License-Identifier: Apache-2.0 */
#include "../tune/problem.h"
#include "tap.h"

static void test_forms(void) {
    static const struct {
        const char *words;
        struct kvmill_call_size size;
    } good[] = {{"decode 1 on 4096", {1, 1, 4096}},
                {"decode 64 on 512", {64, 1, 512}},
                {"prefill 512 on 512", {1, 512, 512}},
                {"prefill 128 on 100000000", {1, 128, 100000000}},
                {"store 512", {1, 512, 0}},
                {"store 64 rows", {64, 1, 0}},
                {"update 64 in place", {64, 1, 0}},
                {"update 8 functional", {8, 1, 0}}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct kvmill_call_size size = {-1, -1, -1};
        ok(problem_parse(good[i].words, &size) && size.batch == good[i].size.batch &&
               size.tokens == good[i].size.tokens && size.positions == good[i].size.positions,
           "%s", good[i].words);
    }
}

static void test_others(void) {
    static const char *const bad[] = {"",
                                      "decode",
                                      "decode 4096 tokens",
                                      "decode 0 on 1",
                                      "decode 1 on 0",
                                      "decode -1 on 4",
                                      "decode 01 on 4",
                                      "decode 1  on 4",
                                      "decode 1 on 4 ",
                                      "decode 1 on 4, or so",
                                      "decode BATCH on POSITIONS",
                                      "decode 1 on 4.5",
                                      "decoder 1 on 4",
                                      "decode 10000000000 on 4",
                                      "store",
                                      "store 4 row",
                                      "update 1 in",
                                      "update 8 of 512",
                                      ", store 4",
                                      "store 4,"};
    struct kvmill_call_size size;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ok(!problem_parse(bad[i], &size), "of no form: \"%s\"", bad[i]);
}

int main(void) {
    test_forms();
    test_others();
    return done_testing();
}
