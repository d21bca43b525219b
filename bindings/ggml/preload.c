/* Gets the device into programs whose ggml loads no plugins.

   A ggml with which a backend was linked, which is the default, does not load the library that
   GGML_BACKEND_PATH names unless a program asks for it, and few do.  But all programs ask how many
   devices there are before they load a model.  If this library is preloaded (LD_PRELOAD, kvmill
   llama), they ask its function of that name, which registers the device first.

   SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "device.h"
#include "host.h"

__attribute__((visibility("default"))) size_t ggml_backend_dev_count(void);

struct ggml {
    size_t (*count)(void);
    ggml_backend_dev_t (*by_type)(enum ggml_backend_dev_type type);
    ggml_backend_reg_t (*by_name)(const char *name);
    void (*add)(ggml_backend_reg_t reg);
};

static struct ggml functions_of(void *library) {
    struct ggml ggml;
    *(void **)&ggml.count = host_find(library, "ggml_backend_dev_count");
    *(void **)&ggml.by_type = host_find(library, "ggml_backend_dev_by_type");
    *(void **)&ggml.by_name = host_find(library, "ggml_backend_reg_by_name");
    *(void **)&ggml.add = host_find(library, "ggml_backend_register");
    return ggml;
}

/* Registers the device, unless ggml has loaded this library by itself, or has no CPU device yet. */
static void add_device(void *library, const struct ggml *ggml) {
    static void *refused;
    if (ggml->by_type == NULL || ggml->by_name == NULL || ggml->add == NULL || library == refused ||
        ggml->by_type(GGML_BACKEND_DEVICE_TYPE_CPU) == NULL || ggml->by_name("kvmill") != NULL)
        return;
    ggml_backend_reg_t reg = device_open(library);
    if (reg != NULL)
        ggml->add(reg);
    else
        refused = library;
}

/* ggml's functions ask, too, while the device is being added. */
size_t ggml_backend_dev_count(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static _Thread_local bool is_adding;
    void *library = host_library(__builtin_return_address(0));
    const struct ggml ggml = library != NULL ? functions_of(library) : (struct ggml){0};
    if (ggml.count == NULL)
        return 0;
    if (!is_adding) {
        is_adding = true;
        pthread_mutex_lock(&lock);
        add_device(library, &ggml);
        pthread_mutex_unlock(&lock);
        is_adding = false;
    }
    return ggml.count();
}
