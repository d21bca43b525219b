/* Converts MLIR bytecode, and StableHLO's portable artifacts, to text, by running Python with JAX.

   SPDX-License-Identifier: Apache-2.0 */
#include "mlir_bytecode.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "../base/find_program.h"
#include "../base/memory_streams.h"

enum { MOST_SECONDS = 300, WITHOUT_JAX = 3 };

/* Converts bytecode on standard input to text on standard output.  The bytes after the version name
   the producer; artifacts of StableHLO must be deserialised. */
static const char script[] =
    "import sys\n"
    "try:\n"
    "    from jax.interpreters.mlir import make_ir_context\n"
    "    from jaxlib.mlir import ir\n"
    "    from jaxlib.mlir.dialects import stablehlo\n"
    "except ImportError as error:\n"
    "    sys.stderr.write(str(error))\n"
    "    sys.exit(3)\n"
    "code = sys.stdin.buffer.read()\n"
    "with make_ir_context() as context:\n"
    "    try:\n"
    "        if code[5:14] == b'StableHLO':\n"
    "            module = stablehlo.deserialize_portable_artifact(context, code)\n"
    "        else:\n"
    "            module = ir.Module.parse(code)\n"
    "    except (ir.MLIRError, ValueError) as error:\n"
    "        sys.stderr.write(str(error))\n"
    "        sys.exit(1)\n"
    "    sys.stdout.write(module.operation.get_asm(large_elements_limit=None))\n";

bool is_mlir_bytecode(const struct text *text) {
    return text->length >= 4 && memcmp(text->data, "ML\xefR", 4) == 0;
}

static bool read_output(int stream, struct text *text, struct error *error) {
    return memory_stream_read(stream, text, "read", "what JAX wrote", error);
}

static bool refuse(const char *name, int status, int messages, struct error *error) {
    struct text said = {0};
    bool absent = WIFEXITED(status) && WEXITSTATUS(status) == WITHOUT_JAX;
    bool done = read_output(messages, &said, error);
    const char *words = said.data ? said.data : "it said nothing";
    done = done && fail(error, absent ? EXIT_ENVIRONMENT : EXIT_USER,
                        "%s: is MLIR bytecode, which JAX of %s reads: %.*s; accepted: %s", name,
                        python_program(), (int)strcspn(words, "\n"), words,
                        absent ? "text, .mlir, or KVMILL_PYTHON that names a Python with jax"
                               : "bytecode of StableHLO that this version knows");
    text_free(&said);
    return done;
}

static bool convert(const char *name, const int streams[STANDARD_STREAMS], struct text *text,
                    struct error *error) {
    char *arguments[] = {(char *)(uintptr_t)python_program(), "-I", "-c", (char *)(uintptr_t)script,
                         NULL};
    int status;
    if (!memory_stream_write(streams[0], text, "write", "a copy of bytecode", error) ||
        !process_run_group(arguments, streams, "a Python with jax, or text, .mlir,", MOST_SECONDS,
                           &status, error))
        return false;
    if (status != 0)
        return refuse(name, status, streams[2], error);
    text->length = 0;
    return read_output(streams[1], text, error);
}

bool mlir_text_of_bytecode(const char *name, struct text *text, struct error *error) {
    int streams[STANDARD_STREAMS];
    bool done = memory_streams_open(streams, "open", "memory for a file", error) &&
                convert(name, streams, text, error);
    memory_streams_close(streams);
    return done;
}
