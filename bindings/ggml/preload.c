/* SPDX-License-Identifier: Apache-2.0 */
#include "preload.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "device.h"
#include "host.h"

/* ---- What is said ---- */

static atomic_bool is_met, was_refused; /* a reason has been printed */
static atomic_long offered, taken;

static bool is_verbose(void) {
    const char *verbose = getenv("KVMILL_VERBOSE");
    return verbose != NULL && *verbose != '\0' && *verbose != '0';
}

/* Whether this process was started by `kvmill llama`, and not by a program that was. */
static bool is_launched(void) {
    const char *process = getenv(KVMILL_LAUNCHED);
    return process != NULL && strtol(process, NULL, 10) == (long)getpid();
}

void preload_met(void) {
    if (!atomic_exchange(&is_met, true) && (is_verbose() || is_launched()))
        fprintf(stderr, "kvmill: in use: version %d of ggml's interface, %s\n", host.api_version,
                host.library);
}

void preload_saw(bool is_taken) {
    atomic_fetch_add(&offered, 1);
    atomic_fetch_add(&taken, is_taken);
}

/* Says at the end of a program why kvmill had nothing to do. */
__attribute__((destructor)) static void say_at_end(void) {
    if (was_refused || taken > 0 || !(is_launched() || (is_met && is_verbose())))
        return;
    if (!is_met)
        host_refuse("this program has not asked ggml for its devices");
    else if (offered == 0)
        host_refuse("ggml offered no attention; -fa on turns flash attention on, -ngl 0 keeps it "
                    "on the CPU");
    else
        host_refuse("no pack has kernels for this model and cache; KVMILL_VERBOSE=1 names them");
}

/* ---- The function that programs ask ---- */

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
    if (reg != NULL) {
        ggml->add(reg);
    } else {
        refused = library;
        was_refused = true;
    }
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
