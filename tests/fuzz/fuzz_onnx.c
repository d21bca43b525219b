/* An ONNX model: its nodes as specs.

   SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "fuzz_specs.h"

void fuzz_onnx(const unsigned char *data, size_t size) {
    struct spec_list specs = {0};
    struct error error = {0};
    if (specs_of_onnx(fuzz_file(0, data, size), &specs, &error))
        fuzz_check_specs(&specs);
    else
        fuzz_require_refusal(&error);
    spec_list_free(&specs);
}
