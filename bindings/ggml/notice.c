/* SPDX-License-Identifier: Apache-2.0 */
#include "notice.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What has happened in this process; is_refused: a reason has been printed. */
static atomic_bool is_met, is_refused;
static atomic_long offered[IS_TAKEN + 1];

bool notice_refusal(const char *format, ...) {
    va_list values;
    va_start(values, format);
    fputs("kvmill: not in use: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    atomic_store(&is_refused, true);
    return false;
}

bool notice_is_verbose(void) {
    const char *verbose = getenv("KVMILL_VERBOSE");
    return verbose != NULL && *verbose != '\0' && *verbose != '0';
}

/* Whether `kvmill llama` became this process.  Those that it starts have the variable, too. */
static bool is_launched(void) {
    const char *process = getenv("KVMILL_LAUNCHED");
    return process != NULL && strtol(process, NULL, 10) == (long)getpid();
}

void notice_use(int api_version, const char *library) {
    if (!atomic_exchange(&is_met, true) && (notice_is_verbose() || is_launched()))
        fprintf(stderr, "kvmill: in use: version %d of ggml's interface, %s\n", api_version,
                library);
}

void notice_attention(enum verdict verdict) {
    atomic_fetch_add(&offered[verdict], 1);
}

__attribute__((destructor)) static void say_at_end(void) {
    if (is_refused || offered[IS_TAKEN] > 0 || !(is_launched() || (is_met && notice_is_verbose())))
        return;
    if (!is_met)
        notice_refusal("this program has not asked ggml for its devices");
    else if (offered[IS_SMALL] > 0)
        notice_refusal("all attention was small, and ggml is faster there; KVMILL_GGML_LEAST=0 "
                       "takes it, too");
    else if (offered[HAS_NO_KERNELS] > 0)
        notice_refusal("no pack has kernels for this model and cache; KVMILL_VERBOSE=1 names them");
    else
        notice_refusal("ggml offered no attention; -fa on turns flash attention on, -ngl 0 keeps "
                       "it on the CPU");
}
