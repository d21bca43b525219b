/* SPDX-License-Identifier: Apache-2.0 */
#include "calibration_file.h"

#include <stdlib.h>
#include <string.h>

#include "../base/output.h"
#include "../base/text.h"

static bool default_place(char path[CALIBRATION_PATH], struct error *error) {
    static const char instead[] = "KVMILL_CALIBRATION=FILE (for kvmill calibrate also -o FILE)";
    const char *home = getenv("HOME");
    if (!kvmill_calibration_path(path))
        return fail(error, EXIT_USER,
                    "no place for the calibration: KVMILL_CALIBRATION is empty, or there is no "
                    "HOME; accepted: %s",
                    instead);
    size_t length = home != NULL ? strlen(home) : 0;
    bool below = length > 0 && strncmp(path, home, length) == 0 && path[length] == '/';
    return !below || output_check_home(home, instead, error);
}

bool calibration_place(const char *given, char path[CALIBRATION_PATH], struct error *error) {
    if (given == NULL)
        return default_place(path, error);
    if (*given == '\0' || strlen(given) >= CALIBRATION_PATH)
        return fail(error, EXIT_USER, "-o: \"%.40s\"; accepted: a file", given);
    strcpy(path, given);
    return true;
}

struct calibration calibration_of(const char *path) {
    char why[CALIBRATION_WHY];
    struct calibration read = kvmill_calibration_presets();
    return kvmill_calibration_read(path, false, &read, why) ? read : kvmill_calibration_presets();
}

bool calibration_write(const struct calibration *calibration, const char *path, bool is_given,
                       struct error *error) {
    char printed[CALIBRATION_SIZE];
    struct text text = {0};
    char *slash = is_given ? NULL : strrchr(path, '/');
    char *directory = slash != NULL ? strndup(path, (size_t)(slash - path)) : NULL;
    kvmill_calibration_print(calibration, printed);
    bool done = (slash == NULL || directory != NULL) || out_of_memory(error);
    done = done && (directory == NULL || output_make_directories(directory, error)) &&
           (text_print(&text, "%s", printed) || out_of_memory(error)) &&
           output_write_file(path, &text, error);
    free(directory);
    text_free(&text);
    return done;
}
