/* The text of generated kernels: folding, pruning, words, layout.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <sys/stat.h>

#include "../gen/c_text.h"
#include "../gen/words.h"
#include "common.h"

ROWS(becomes, 3) {
    OWN(text_free) struct text text = {0};
    struct error error = {0};
    bool tidied = text_append(&text, cells[1], strlen(cells[1])) && c_text_tidy(&text, 0, &error);
    ok_text(tidied ? text.data : error.text, cells[2], "%s", cells[0]);
}

/* Pastes the words of a header of the test into a kernel. */
static bool paste(const char *header, const char *kernel, struct text *text, struct error *error) {
    mkdir(scratch_path("templates"), 0777);
    mkdir(scratch_path("templates/words"), 0777);
    write_text(scratch_path("templates/words/test.h"), header);
    write_text(scratch_path("templates/words/other.h"),
               "static inline int f(int a) { return a; }\n"
               "static inline int other_f(int a) { return 0; }\n");
    setenv("KVMILL_DATADIR", scratch_folder(), 1);
    return text_print(text, "#include \"test.h\"\n%s", kernel) &&
           words_paste("test", text, 0, error) && c_text_tidy(text, 0, error);
}

/* NAME HEADER KERNEL AFTER */
ROWS(pasted, 4) {
    OWN(text_free) struct text text = {0};
    struct error error = {0};
    bool done = paste(cells[1], cells[2], &text, &error);
    ok_text(done ? text.data : error.text, cells[3], "%s", cells[0]);
}

/* NAME HEADER CODE WORDS */
ROWS(not_pasted, 4) {
    OWN(text_free) struct text text = {0};
    struct error error = {0};
    ok_failed(paste(cells[1], "", &text, &error), &error, atoi(cells[2]), NULL, cells[3], "%s",
              cells[0]);
}

TABLE(c_text);
