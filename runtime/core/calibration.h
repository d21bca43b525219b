/* Settings that depend on the processor and not on the shape: presets for the processor's class, or
   those that `kvmill calibrate` measured and wrote to a file.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_CALIBRATION_H
#define KVMILL_RUNTIME_CORE_CALIBRATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct calibration {
    int64_t copy_streams;   /* places between which a long copy takes turns */
    int64_t read_streams;   /* places between which attention takes turns, reading positions */
    int64_t gather_streams; /* the same for long windows of a gather: 1, or what its kernels have */
    int64_t around;         /* bytes of a result from which it is stored around the caches */
};

/* A number's name in files, and what it may be, ascending; 0 ends them. */
enum { CALIBRATION_NUMBERS = 4, MOST_ACCEPTED = 6 };
struct calibration_number {
    const char *name;
    size_t offset;
    int64_t accepted[MOST_ACCEPTED];
};
extern const struct calibration_number kvmill_calibration_numbers[CALIBRATION_NUMBERS];
int64_t *kvmill_calibration_at(struct calibration *calibration,
                               const struct calibration_number *number);

/* The presets of this processor's class. */
struct calibration kvmill_calibration_presets(void);

/* A file's text; how much of it there is, or 0 if it does not fit.  What a text says, for this
   processor or for any; `why` not, with what is accepted. */
enum { CALIBRATION_SIZE = 512, CALIBRATION_WHY = 384 };
size_t kvmill_calibration_print(const struct calibration *calibration, char text[CALIBRATION_SIZE]);
bool kvmill_calibration_parse(const char *text, bool any_processor, struct calibration *calibration,
                              char why[CALIBRATION_WHY]);
bool kvmill_calibration_read(const char *path, bool any_processor, struct calibration *calibration,
                             char why[CALIBRATION_WHY]);

/* The file that KVMILL_CALIBRATION names, else kvmill/calibration below XDG_CONFIG_HOME or
   ~/.config.  false: there is none to look for. */
enum { CALIBRATION_PATH = 4096 };
bool kvmill_calibration_path(char path[CALIBRATION_PATH]);

/* What plans take, from the first one on.  A file that cannot be used costs one line on standard
   error; one that nobody named need not be there. */
const struct calibration *kvmill_calibration(void);

/* For whoever measures: plans take these.  No other thread may be planning. */
void kvmill_calibration_set(const struct calibration *calibration);

/* The file whose numbers plans take; NULL: the class's presets. */
const char *kvmill_calibration_file(void);

#endif
