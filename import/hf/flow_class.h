/* Flows that are classes in Python: --flow FILE.py:CLASS.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_HF_FLOW_CLASS_H
#define KVMILL_IMPORT_HF_FLOW_CLASS_H

#include <stdbool.h>

#include <jansson.h>

#include "../../base/error.h"

/* Whether the name is that of a Python file, with or without a class. */
bool is_flow_class(const char *name);

/* Runs kvmill.vflow, which makes a flow of the class for a model's attention.  Returns {"flow": the
   flow, "places": {path in the flow: "file:line"}}, or NULL on error: EXIT_ENVIRONMENT if there is
   no Python for it. */
json_t *flow_class_read(const char *name, const json_t *attention, struct error *error);

/* Replaces "name: path: " at the beginning of a message by "file:line: op: ", the place in the
   class that the path is from. */
void flow_class_find_place(const char *name, const json_t *document, struct error *error);

#endif
