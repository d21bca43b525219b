/* What all test programs need: element types, checks of refusals, files; and the headers of
   everything else in libtest that any program may use.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_COMMON_H
#define KVMILL_TESTS_COMMON_H

#include <kvmill.h>

#include "../base/error.h"
#include "case_table.h"
#include "elements.h"
#include "plans.h"
#include "program.h"
#include "settings.h"
#include "walk.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- Element types ---- */

static const DLDataType f16 = {kDLFloat, 16, 1}, bf16 = {kDLBfloat, 16, 1};
static const DLDataType f32 = {kDLFloat, 32, 1}, f64 = {kDLFloat, 64, 1};
static const DLDataType i4 = {kDLInt, 4, 1}, i8 = {kDLInt, 8, 1}, i16 = {kDLInt, 16, 1};
static const DLDataType i32 = {kDLInt, 32, 1}, i64 = {kDLInt, 64, 1};
static const DLDataType u4 = {kDLUInt, 4, 1}, u8 = {kDLUInt, 8, 1};
static const DLDataType boolean = {KVMILL_DL_BOOL, 8, 1};

/* ---- Refusals: one test each, which prints the actual result if it fails ---- */

/* A status by its name, "OK", "E_NULL" or "NULL", ...; ends the program for any other word. */
kvmill_status status_named(const char *name);

/* Checks that the library returned `wanted`, with a message that contains `words` (NULL: any). */
__attribute__((format(printf, 5, 6))) bool ok_status(kvmill_status got, kvmill_status wanted,
                                                     const kvmill_error *error, const char *words,
                                                     const char *format, ...);

/* Checks that the generator or a tool failed with this exit code, and that the message begins with
   `start` (NULL: any) and contains `words`. */
__attribute__((format(printf, 6, 7))) bool ok_failed(bool done, const struct error *error,
                                                     int exit_code, const char *start,
                                                     const char *words, const char *format, ...);

/* Checks that two texts are equal. */
__attribute__((format(printf, 3, 4))) bool ok_text(const char *got, const char *wanted,
                                                   const char *format, ...);

/* ---- Files ---- */

/* A path in the source tree, or in a folder of this run that is removed when the program ends. Both
   are valid until the eighth call after this one. */
__attribute__((format(printf, 1, 2))) const char *source_path(const char *format, ...);
__attribute__((format(printf, 1, 2))) const char *scratch_path(const char *format, ...);

/* The folder for scratch_path. */
const char *scratch_folder(void);

void write_bytes(const char *path, const void *bytes, size_t size);
void write_text(const char *path, const char *text);

/* The contents of a file, followed by a 0, for free(); *size may be NULL. */
char *read_bytes(const char *path, size_t *size);

#endif
