/* Flow files for tests: texts with words of tests/tables/flow_words.tsv, and the flows that ship.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_FLOW_FILE_H
#define KVMILL_TESTS_FLOW_FILE_H

#include "../spec/flow_spec.h"
#include "fence.h"

/* Returns the text of a word, for free().  In the text, "$word" stands for another word's text,
   "$*" for `given`, "$+" for `more`, and "<c = Add a b beta=-1>" for an op. */
char *flow_text(const char *word, const char *given, const char *more);

/* Returns the file that flow_read writes. */
const char *flow_file(void);

/* Reads the specs of a file with this text. */
bool flow_read(const char *text, struct spec_list *specs, struct error *error);

/* Return the flow of a text, or of JSON; its specs must be valid. */
const kvmill_flow *flow_open(const char *text, struct spec_list *specs);
const kvmill_flow *flow_open_json(json_t *json, struct spec_list *specs);

/* Return the names of the flows that ship (configs/flows/NAME.json), in order, with NULL at the
   end; and one of these flows. */
const char *const *flows_shipped(void);
json_t *flow_json(const char *name);

/* ---- Random flows ---- */

/* Prints a spec file with `count` flows to standard output; returns a program's exit code. */
int print_random_flows(struct dice *dice, int count);

#endif
