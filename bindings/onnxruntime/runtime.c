/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime.h"

#include <stdarg.h>
#include <stdio.h>

const struct ort_api *ort;
bool runtime_is_old;

/* Returns the minor version of, for example, "1.24.0".  A runtime prints an error if it is asked
   for an API that it does not have; the version avoids this. */
static unsigned minor_of(const char *version) {
    unsigned major = 0, minor = 0;
    bool known = sscanf(version, "%u.%u", &major, &minor) == 2;
    return !known || major > 1 ? ORT_VERSION : major < 1 ? 0 : minor;
}

OrtStatus *runtime_open(const struct ort_api_base *base, unsigned least) {
    const char *version = base->GetVersionString();
    bool is_old = minor_of(version) < ORT_VERSION;
    unsigned used = is_old ? least : ORT_VERSION;
    const struct ort_api *api = minor_of(version) >= used ? base->GetApi(used) : NULL;
    char message[128];
    if (api != NULL) {
        ort = api;
        runtime_is_old = is_old;
        return NULL;
    }
    snprintf(message, sizeof message, "kvmill: this is ONNX Runtime %.40s; accepted: 1.%u or later",
             version, least);
    return base->GetApi(1)->CreateStatus(ORT_IS_FAILED, message);
}

/* A text that begins with "kvmill: ". */
struct message {
    char text[512];
};

static void write_message(struct message *message, const char *format, va_list arguments) {
    int length = snprintf(message->text, sizeof message->text, "kvmill: ");
    vsnprintf(message->text + length, sizeof message->text - (size_t)length, format, arguments);
}

OrtStatus *runtime_fail(unsigned code, const char *format, ...) {
    struct message message;
    va_list arguments;
    va_start(arguments, format);
    write_message(&message, format, arguments);
    va_end(arguments);
    return ort->CreateStatus(code, message.text);
}

OrtStatus *runtime_refuse(kvmill_status status, const kvmill_error *error) {
    if (status == KVMILL_OK)
        return NULL;
    unsigned code = status == KVMILL_E_MEMORY ? ORT_IS_FAILED : ORT_IS_INVALID_ARGUMENT;
    return runtime_fail(code, "%s (%s)", error->message, kvmill_status_name(status));
}

bool runtime_succeeded(OrtStatus *status) {
    if (status != NULL)
        ort->ReleaseStatus(status);
    return status == NULL;
}

void runtime_log(const OrtLogger *logger, unsigned level, const char *format, ...) {
    struct message message;
    va_list arguments;
    va_start(arguments, format);
    write_message(&message, format, arguments);
    va_end(arguments);
    runtime_succeeded(ort->Logger_LogMessage(logger, level, message.text, "kvmill", 0, "kvmill"));
}
