/* Random flows, as specs.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_FLOW_TEXTS_H
#define KVMILL_TESTS_FLOW_TEXTS_H

#include "fence.h"

/* To standard output: a spec file with as many flows.  The exit code of a program. */
int print_random_flows(struct dice *dice, int count);

#endif
