/* write_onnx < DESCRIPTION > FILE.onnx: writes a model from lines of text, by onnx_text.h, for
   scripts.

   SPDX-License-Identifier: Apache-2.0 */
#include "onnx_text.h"
#include "tap.h"

int main(void) {
    static char description[1 << 20];
    OWN(text_free) struct text file = {0};
    size_t length = fread(description, 1, sizeof description - 1, stdin);
    description[length] = '\0';
    onnx_write(description, &file);
    bool done = fwrite(file.data, 1, file.length, stdout) == file.length && fflush(stdout) == 0;
    return done ? 0 : EXIT_FAILURE;
}
