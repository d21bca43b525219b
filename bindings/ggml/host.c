/* SPDX-License-Identifier: Apache-2.0 */
#include "host.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

struct host host;

/* ---- Finding functions ---- */

/* Looks for a function in a loaded library with a name like libggml-base.so.0 or libggml.so. */
static int find_in(struct dl_phdr_info *object, size_t size, void *search) {
    const char **name = search;
    const char *slash = strrchr(object->dlpi_name, '/');
    (void)size;
    if (strncmp(slash ? slash + 1 : object->dlpi_name, "libggml", 7) != 0)
        return 0;
    void *library = dlopen(object->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
    void *found = library != NULL ? dlsym(library, *name) : NULL;
    if (library != NULL)
        dlclose(library);
    if (found == NULL)
        return 0;
    *name = found;
    return 1;
}

static void *look_up(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    const char *search = name;
    if (found == NULL && dl_iterate_phdr(find_in, &search) != 0)
        found = (void *)search;
    return found;
}

static void *find(const char *name) {
    void *found = look_up(name);
    if (found == NULL)
        fprintf(stderr, "kvmill: not loaded: this process has no function %s of ggml\n", name);
    return found;
}

static bool find_all(void) {
    const struct {
        const char *name;
        void *place;
    } functions[] = {
        {"ggml_backend_cpu_buffer_type", &host.cpu_buffer_type},
        {"ggml_backend_cpu_buffer_from_ptr", &host.cpu_buffer_from_ptr},
        {"ggml_backend_buft_is_host", &host.is_host},
        {"ggml_graph_n_nodes", &host.n_nodes},
        {"ggml_graph_node", &host.node},
        {"ggml_op_name", &host.op_name},
        {"ggml_type_name", &host.type_name},
        {"ggml_blck_size", &host.block_size},
        {"ggml_type_size", &host.type_size},
        {"ggml_tensor_overhead", &host.tensor_overhead},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *found = find(functions[i].name);
        if (found == NULL)
            return false;
        memcpy(functions[i].place, &found, sizeof found);
    }
    host.marks_nodes = look_up("ggml_build_forward_select") != NULL;
    return true;
}

/* ---- Is it the ggml of the headers? ---- */

static bool is_named(const char *what, int number, const char *name, const char *wanted) {
    if (name != NULL && strcmp(name, wanted) == 0)
        return true;
    fprintf(stderr,
            "kvmill: not loaded: %s %d of this ggml is %s, and %s in the one that the library was "
            "built against: build it against this one\n",
            what, number, name ? name : "unknown", wanted);
    return false;
}

/* Compares the size of ggml_object and ggml_tensor. */
static bool has_tensors(void) {
    size_t object = 32, wanted = object + sizeof(struct ggml_tensor);
    if (host.tensor_overhead() == wanted)
        return true;
    fprintf(stderr,
            "kvmill: not loaded: a tensor of this ggml has %zu bytes, and %zu in the one that the "
            "library was built against: build it against this one\n",
            host.tensor_overhead() - object, wanted - object);
    return false;
}

/* Checks only the last ops and types that are used: if ggml inserted others before them, their
   numbers would change. */
bool host_open(void) {
    return find_all() && has_tensors() &&
           is_named("op", GGML_OP_FLASH_ATTN_EXT, host.op_name(GGML_OP_FLASH_ATTN_EXT),
                    "FLASH_ATTN_EXT") &&
           is_named("op", GGML_OP_SET_ROWS, host.op_name(GGML_OP_SET_ROWS), "SET_ROWS") &&
           is_named("op", GGML_OP_TRANSPOSE, host.op_name(GGML_OP_TRANSPOSE), "TRANSPOSE") &&
           is_named("type", GGML_TYPE_Q8_0, host.type_name(GGML_TYPE_Q8_0), "q8_0") &&
           is_named("type", GGML_TYPE_BF16, host.type_name(GGML_TYPE_BF16), "bf16");
}
