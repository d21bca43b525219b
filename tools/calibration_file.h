/* The file of a calibration that a command writes.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_CALIBRATION_FILE_H
#define KVMILL_TOOLS_CALIBRATION_FILE_H

#include "../base/error.h"
#include "../runtime/core/calibration.h"

/* Finds the path: the given one, or, if it is NULL, that where the library looks. */
bool calibration_place(const char *given, char path[CALIBRATION_PATH], struct error *error);

/* Returns the numbers of the file, or the presets if there is no such file for this processor. */
struct calibration calibration_of(const char *path);

/* Writes the file.  Makes the directory of the default path, but not of one that the user gave. */
bool calibration_write(const struct calibration *calibration, const char *path, bool is_given,
                       struct error *error);

#endif
