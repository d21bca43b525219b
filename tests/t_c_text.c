/* The text of generated kernels: folding, pruning, layout.

   SPDX-License-Identifier: Apache-2.0 */
#include "../gen/c_text.h"
#include "common.h"

ROWS(becomes, 3) {
    OWN(text_free) struct text text = {0};
    struct error error = {0};
    bool tidied = text_append(&text, cells[1], strlen(cells[1])) && c_text_tidy(&text, 0, &error);
    ok_text(tidied ? text.data : error.text, cells[2], "%s", cells[0]);
}

TABLE(c_text);
