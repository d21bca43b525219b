/* SPDX-License-Identifier: Apache-2.0 */
#include "ort_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const kvmill_pack KVMILL_ORT_PACK; /* in this library */

/* ---- Entries ---- */

/* What precedes the names of options: the runtime puts the provider's name in lower case before
   those of the provider. */
static const char *const prefixes[] = {"ep.kvmillexecutionprovider.", "kvmill."};

enum { PREFIXES = sizeof prefixes / sizeof *prefixes };

static const char *value_of(const OrtKeyValuePairs *entries, const char *name) {
    const char *value = NULL;
    char key[96];
    if (entries == NULL) /* older runtimes give kernels no entries */
        return NULL;
    for (int i = 0; value == NULL && i < PREFIXES; i++) {
        snprintf(key, sizeof key, "%s%s", prefixes[i], name);
        value = ort->GetKeyValue(entries, key);
    }
    return value;
}

static bool is_option(const char *name) {
    static const char *const names[] = {"packs", "math", "make_kernels", "make_seconds",
                                        "portable"};
    bool known = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        known = known || strcmp(name, names[i]) == 0;
    return known;
}

/* Refuses a name of an option that is none, such as a misspelt one. */
static OrtStatus *check_names(const OrtKeyValuePairs *entries) {
    const char *const *keys = NULL, *const *values = NULL;
    size_t count = 0;
    if (entries != NULL)
        ort->GetKeyValuePairs(entries, &keys, &values, &count);
    for (size_t i = 0; i < count * PREFIXES; i++) {
        const char *key = keys[i / PREFIXES], *prefix = prefixes[i % PREFIXES];
        if (strncmp(key, prefix, strlen(prefix)) == 0 && !is_option(key + strlen(prefix)))
            return runtime_fail(ORT_IS_INVALID_ARGUMENT,
                                "\"%.80s\" is no option; accepted: packs, math, make_kernels, "
                                "make_seconds, portable",
                                key + strlen(prefix));
    }
    return NULL;
}

static OrtStatus *read_flag(const OrtKeyValuePairs *entries, const char *name, bool *flag) {
    const char *value = value_of(entries, name);
    if (value != NULL && strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
        return runtime_fail(ORT_IS_INVALID_ARGUMENT, "%s is \"%.80s\"; accepted: 0 or 1", name,
                            value);
    *flag = value != NULL && *value == '1';
    return NULL;
}

static OrtStatus *read_math(const OrtKeyValuePairs *entries, const char **math) {
    static const char *const known[] = {"f32", "near", "fast"};
    const char *value = value_of(entries, "math");
    *math = NULL;
    for (size_t i = 0; value != NULL && i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], value) == 0)
            *math = known[i];
    if (value != NULL && *math == NULL)
        return runtime_fail(ORT_IS_INVALID_ARGUMENT,
                            "math is \"%.80s\"; accepted: f32, near or fast", value);
    return NULL;
}

/* ---- Making kernels ---- */

static OrtStatus *read_directory(const char *value, struct making *making) {
    size_t length = value != NULL ? strlen(value) : 0;
    bool directory = length > 0 && *value == '/' && length < sizeof making->directory;
    making->allowed = value != NULL && strcmp(value, "0") != 0;
    making->directory[0] = '\0';
    if (directory)
        memcpy(making->directory, value, length + 1);
    if (making->allowed && !directory && strcmp(value, "1") != 0)
        return runtime_fail(ORT_IS_INVALID_ARGUMENT,
                            "make_kernels is \"%.80s\"; accepted: 0, 1 or the absolute path of a "
                            "directory of at most %zu bytes",
                            value, sizeof making->directory - 1);
    return NULL;
}

static OrtStatus *read_seconds(const char *value, int *seconds) {
    enum { DEFAULT = 600, MOST = 1000000 };
    char *end = NULL;
    long number = value != NULL ? strtol(value, &end, 10) : DEFAULT;
    *seconds = (int)number;
    if (value == NULL || (end != value && *end == '\0' && number >= 1 && number <= MOST))
        return NULL;
    return runtime_fail(ORT_IS_INVALID_ARGUMENT, "make_seconds is \"%.80s\"; accepted: 1 to %d",
                        value, MOST);
}

/* ---- Packs ---- */

/* Keeps the first reason only. */
static void keep(void *data, const char *reason) {
    OrtStatus **status = data;
    if (*status == NULL)
        *status = runtime_fail(ORT_IS_INVALID_ARGUMENT, "%s", reason);
}

static OrtStatus *read_packs(const OrtKeyValuePairs *entries, struct packs *packs) {
    const char *named = value_of(entries, "packs"), *paths = getenv("KVMILL_PACKS");
    OrtStatus *status = NULL;
    packs->count = 0;
    if (named != NULL)
        packs_add_named(packs, named, "packs", keep, &status);
    if (paths != NULL)
        packs_add_named(packs, paths, "KVMILL_PACKS", keep, &status);
    packs_add(packs, &KVMILL_ORT_PACK, keep, &status);
    return status;
}

OrtStatus *settings_read(struct settings *settings, struct making *making,
                         OrtKeyValuePairs *entries) {
    OrtStatus *status = check_names(entries);
    if (status == NULL)
        status = read_packs(entries, &settings->packs);
    if (status == NULL)
        status = read_flag(entries, "portable", &settings->portable);
    if (status == NULL)
        status = read_math(entries, &settings->math);
    if (status == NULL && making != NULL)
        status = read_directory(value_of(entries, "make_kernels"), making);
    if (status == NULL && making != NULL)
        status = read_seconds(value_of(entries, "make_seconds"), &making->seconds);
    if (entries != NULL)
        ort->ReleaseKeyValuePairs(entries);
    return status;
}
