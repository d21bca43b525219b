/* The text of generated kernels: what is folded, what goes, how lines are laid out.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "../gen/c_text.h"
#include "case_table.h"
#include "common.h"

static void test_becomes(char *const *cells) {
    struct text text = {0};
    struct error error = {0};
    bool tidied = text_append(&text, cells[1], strlen(cells[1])) && c_text_tidy(&text, 0, &error);
    ok_text(tidied ? text.data : error.text, cells[2], "%s", cells[0]);
    text_free(&text);
}

int main(void) {
    static const struct table_test rows[] = {{"becomes", 3, test_becomes}, {NULL, 0, NULL}};
    run_table("c_text", rows);
    return done_testing();
}
