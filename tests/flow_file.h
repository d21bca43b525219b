/* Flow files for tests: in words of tests/tables/flow_words.tsv, and those that ship.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_FLOW_FILE_H
#define KVMILL_TESTS_FLOW_FILE_H

#include "../gen/flow.h"
#include "fence.h"

/* The text of a word, to be freed: "$word" in it is another one's, "$*" what is given, "$+" what
   more is, and "<c = Add a b beta=-1>" an op. */
char *flow_text(const char *word, const char *given, const char *more);

/* The file that flow_read writes. */
const char *flow_file(void);

/* Specs of a file with that text. */
bool flow_read(const char *text, struct spec_list *specs, struct error *error);

/* The flow of a text, or of JSON, whose specs must be good. */
const kvmill_flow *flow_open(const char *text, struct spec_list *specs);
const kvmill_flow *flow_open_json(json_t *json, struct spec_list *specs);

/* Flows that ship, configs/flows/NAME.json, in order, up to NULL; one of them. */
const char *const *flows_shipped(void);
json_t *flow_json(const char *name);

/* ---- Random flows ---- */

/* To standard output: a spec file with as many flows.  The exit code of a program. */
int print_random_flows(struct dice *dice, int count);

#endif
