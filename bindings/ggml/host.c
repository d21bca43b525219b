/* SPDX-License-Identifier: Apache-2.0 */
#include "host.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "notice.h"

struct host host;

/* The function by which ggml is found, because all engines need it.  This library has one of the
   same name: see preload.c. */
static const char known[] = "ggml_backend_dev_count";

/* ---- Finding ggml ---- */

static const void *base_of(const void *address) {
    Dl_info info;
    return dladdr(address, &info) != 0 ? info.dli_fbase : NULL;
}

static const char *path_of(const void *address) {
    Dl_info info;
    return dladdr(address, &info) != 0 ? info.dli_fname : "?";
}

/* Returns the known function of a library or of those that it needs, but not of this one. */
static void *known_in(void *library) {
    void *found = dlsym(library, known);
    return found != NULL && base_of(found) != base_of(known) ? found : NULL;
}

static void *open_loaded(const char *path) {
    return dlopen(path, RTLD_NOW | RTLD_NOLOAD);
}

static void *known_to(const void *caller) {
    void *library = open_loaded(path_of(caller));
    void *found = library != NULL ? known_in(library) : NULL;
    if (library != NULL)
        dlclose(library);
    return found != NULL ? found : known_in(RTLD_NEXT);
}

static int find_in(struct dl_phdr_info *object, size_t size, void *found) {
    (void)size;
    void *library = *object->dlpi_name ? open_loaded(object->dlpi_name) : NULL;
    if (library == NULL)
        return 0;
    *(void **)found = known_in(library);
    dlclose(library);
    return *(void **)found != NULL;
}

void *host_library(const void *caller) {
    void *found = known_to(caller);
    if (found == NULL)
        dl_iterate_phdr(find_in, &found);
    if (found == NULL)
        return NULL;
    void *library = open_loaded(path_of(found));
    return library != NULL ? library : dlopen(NULL, RTLD_NOW);
}

/* Only this library's own function is in its way: see `known`. */
void *host_find(void *library, const char *name) {
    return strcmp(name, known) == 0 ? known_in(library) : dlsym(library, name);
}

/* ---- Using it ---- */

bool host_find_all(void *library, const struct host_function *functions, size_t count) {
    for (size_t i = 0; i < count; i++) {
        void *found = host_find(library, functions[i].name);
        if (found == NULL)
            return notice_refusal("this ggml has no function %s", functions[i].name);
        memcpy(functions[i].place, &found, sizeof found);
    }
    return true;
}

static bool find_all(void *library) {
    const struct host_function functions[] = {
        {"ggml_backend_cpu_buffer_type", &host.cpu_buffer_type},
        {"ggml_backend_cpu_buffer_from_ptr", &host.cpu_buffer_from_ptr},
        {"ggml_backend_buft_is_host", &host.is_host},
        {"ggml_graph_n_nodes", &host.n_nodes},
        {"ggml_graph_node", &host.node},
        {"ggml_type_name", &host.type_name},
        {"ggml_blck_size", &host.block_size},
        {"ggml_type_size", &host.type_size},
    };
    return host_find_all(library, functions, sizeof functions / sizeof *functions);
}

bool host_use(void *library) {
    if (library == NULL)
        return notice_refusal("this process has no ggml, or one that was linked statically");
    host.library = path_of(known_in(library));
    return find_all(library);
}

enum host_op host_op(const struct ggml_tensor *node) {
    if (node->op == host.attend)
        return HOST_ATTEND;
    if (node->op == host.store)
        return HOST_STORE;
    for (int i = 0; i < HOST_VIEWS; i++)
        if (node->op == host.views[i])
            return HOST_VIEW;
    return HOST_OTHER;
}

void host_arrange(struct ggml_backend *backend) {
    void **gap = backend->iface.tensors_2d, **end = (void **)(backend + 1);
    if (!host.has_tensors_2d)
        memmove(gap, gap + 2, (size_t)(end - (gap + 2)) * sizeof *gap);
}
