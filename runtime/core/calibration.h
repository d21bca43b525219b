/* Settings that depend on the processor and not on the shape: presets for the processor's class, or
   those that `kvmill calibrate` and `kvmill llama --calibrate` measured and wrote to a file.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_CALIBRATION_H
#define KVMILL_RUNTIME_CORE_CALIBRATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct calibration {
    int64_t copy_streams; /* streams that a long copy interleaves */
    int64_t fetch_level;  /* the cache that attention prefetches into: the first or the second */
    int64_t
        gather_streams; /* streams of a gather of long windows: 1, or as many as its kernels have */
    int64_t around;     /* bytes of a result from which it is stored around the caches */
    int64_t asleep;     /* bytes of work, as kvmill_work counts them, that are worth a thread that
                           sleeps */
    int64_t ggml_split; /* multiply-adds of a thread for which ggml's graph is worth a split */
};

/* A number's name in files, and its values, ascending; 0 ends the list.  The first numbers are
   those of kernels; a file need not have the others, which are measured inside an engine. */
enum { KERNEL_NUMBERS = 4, CALIBRATION_NUMBERS = 6, MOST_ACCEPTED = 7 };
struct calibration_number {
    const char *name;
    size_t offset;
    int64_t accepted[MOST_ACCEPTED];
};
extern const struct calibration_number kvmill_calibration_numbers[CALIBRATION_NUMBERS];
int64_t *kvmill_calibration_at(struct calibration *calibration,
                               const struct calibration_number *number);

/* The number of that name, or NULL. */
const struct calibration_number *kvmill_calibration_named(const char *name);

/* The presets of this processor's class. */
struct calibration kvmill_calibration_presets(void);

/* Write a file's text; returns its length, or 0 if it does not fit.  Read a text, for this
   processor or for any; on failure `why` says what is accepted. */
enum { CALIBRATION_SIZE = 512, CALIBRATION_WHY = 384 };
size_t kvmill_calibration_print(const struct calibration *calibration, char text[CALIBRATION_SIZE]);
bool kvmill_calibration_parse(const char *text, bool any_processor, struct calibration *calibration,
                              char why[CALIBRATION_WHY]);
bool kvmill_calibration_read(const char *path, bool any_processor, struct calibration *calibration,
                             char why[CALIBRATION_WHY]);

/* The file that KVMILL_CALIBRATION names, or kvmill/calibration below XDG_CONFIG_HOME or ~/.config;
   false if there is no such path. */
enum { CALIBRATION_PATH = 4096 };
bool kvmill_calibration_path(char path[CALIBRATION_PATH]);

/* The numbers that plans use, from the first plan on.  A file that cannot be used causes one line
   on standard error; the default file need not exist. */
const struct calibration *kvmill_calibration(void);

/* Make plans use these numbers, for measuring.  No other thread may be planning. */
void kvmill_calibration_set(const struct calibration *calibration);

/* The file whose numbers plans use; NULL: the presets of the processor's class. */
const char *kvmill_calibration_file(void);

#endif
