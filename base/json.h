/* Reads JSON, with errors that a user can act on: syntax errors as file:line:column, other errors
   as file: /json/path.  Writes JSON, with members in their order.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_JSON_H
#define KVMILL_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "text.h"

/* A value and where it came from. */
struct json_place {
    const char *file;
    char path[192]; /* "/kernels/0/axis"; "" is the whole document */
    json_t *value;  /* borrowed */
    json_t *seen;   /* NULL, or an object that gets each key that json_member looks for; borrowed */
};

/* When memory runs out, Jansson may drop a character or a member and go on.  Returns whether this
   has happened in this thread since the watch began; only in programs that have called
   json_watch_memory.  A library must not call it, because its host may use Jansson, too. */
void json_watch_memory(void);
void json_watch(void);
bool json_lacked(void);

/* Read the whole document.  Duplicate keys, more than 16 MiB, and anything but an object are
   refused.  Returns NULL on error; release with json_decref. */
json_t *json_read(const char *file, struct error *error);

/* The same for text in memory, of any length; `file` is its name in messages. */
json_t *json_parse(const char *file, const char *text, size_t length, struct error *error);

struct json_place json_root(const char *file, json_t *value);
struct json_place json_member(const struct json_place *object,
                              const char *key); /* value may be NULL */
struct json_place json_element(const struct json_place *array, size_t index);

/* "file: /path: " + message; EXIT_USER; false. */
__attribute__((format(printf, 3, 4))) bool json_fail(struct error *error,
                                                     const struct json_place *place,
                                                     const char *format, ...);

/* Whether it is present and not null. */
bool json_given(const struct json_place *place);

/* Typed reads; on failure false, with a message that says what was found and what is accepted. */
bool json_get_integer(const struct json_place *place, int64_t least, int64_t most, int64_t *value,
                      struct error *error);
bool json_get_string(const struct json_place *place, const char **value, struct error *error);
bool json_get_array(const struct json_place *place, struct error *error);
bool json_get_object(const struct json_place *place, struct error *error);

/* Refuse members that are not in `known` (which ends with NULL), and suggest the most similar one.
 */
bool json_only_keys(const struct json_place *object, const char *const *known, struct error *error);

/* ---- Writing ---- */

/* The text of a document that was made since json_watch: one member per line, and a newline.
 * Releases the document. */
bool json_write(json_t *document, struct text *text, struct error *error);

/* The same, to standard output. */
bool json_print(json_t *document, struct error *error);

/* Set a member, unless the number is not positive, which means that there is none. */
void json_set_positive(json_t *object, const char *key, double value);

#endif
