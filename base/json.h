/* Reads JSON.  Errors name the place: file:line:column for syntax, otherwise file: /json/path.
   Writes JSON, with members in the order in which they were set.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_JSON_H
#define KVMILL_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "text.h"

/* A value and its place in a file. */
struct json_place {
    const char *file;
    char path[192]; /* "/kernels/0/axis"; "" is the whole document */
    json_t *value;  /* borrowed */
    json_t *seen;   /* collects the keys that json_member looks for, or NULL; borrowed */
};

/* When memory runs out, Jansson may drop a character or a member and continue.  json_lacked returns
   whether this has happened in this thread since json_watch.  It works only in programs that have
   called json_watch_memory, which a library must not call: its host may use Jansson, too. */
void json_watch_memory(void);
void json_watch(void);
bool json_lacked(void);

/* Reads a whole document.  Refuses duplicate keys, more than 16 MiB, and a document that is not an
   object.  Returns NULL on error.  Release the result with json_decref. */
json_t *json_read(const char *file, struct error *error);

/* json_read for what Python's json module writes: it may contain Infinity, -Infinity and NaN.
   Infinity becomes the number 1.79e308, and NaN the string "N". */
json_t *json_read_python(const char *file, struct error *error);

/* json_read for text in memory, of any length; `file` is its name in messages. */
json_t *json_parse(const char *file, const char *text, size_t length, struct error *error);

struct json_place json_root(const char *file, json_t *value);
struct json_place json_member(const struct json_place *object,
                              const char *key); /* value may be NULL */
struct json_place json_element(const struct json_place *array, size_t index);

/* Sets the message "file: /path: ..." and EXIT_USER, or out_of_memory if json_lacked: then a value may
   be missing because of that.  Returns false. */
__attribute__((format(printf, 3, 4))) bool json_fail(struct error *error,
                                                     const struct json_place *place,
                                                     const char *format, ...);

/* Whether the value is present and not null. */
bool json_given(const struct json_place *place);

/* Typed reads.  Return false on failure; the message says what was found and what is accepted. */
bool json_get_integer(const struct json_place *place, int64_t least, int64_t most, int64_t *value,
                      struct error *error);
bool json_get_string(const struct json_place *place, const char **value, struct error *error);
bool json_get_array(const struct json_place *place, struct error *error);
bool json_get_object(const struct json_place *place, struct error *error);

/* Refuses members that are not in `known`, which ends with NULL, and suggests the most similar
   key. */
bool json_only_keys(const struct json_place *object, const char *const *known, struct error *error);

/* ---- Writing ---- */

/* Writes a document that was made since json_watch: one member per line, and a newline at the end.
   Releases the document. */
bool json_write(json_t *document, struct text *text, struct error *error);

/* json_write to standard output. */
bool json_print(json_t *document, struct error *error);

/* Returns the text as a string, and releases it.  If it is not whole, no memory was left: returns
   NULL, and json_lacked is true from here on. */
json_t *json_take_text(struct text *text, bool whole);

/* Sets a member, unless the number is not positive, which means "no value". */
void json_set_positive(json_t *object, const char *key, double value);

#endif
