/* Which nodes are worth a split of ggml's graph.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GGML_PAYS_H
#define KVMILL_GGML_PAYS_H

#include <stdbool.h>

#include "ggml_api.h"

/* Whether kvmill is faster than ggml, with all costs of a split.  Does not read data; the shapes of
   a graph's nodes decide.  KVMILL_GGML_LEAST, a number of multiply-adds of a thread, replaces the
   measured one; with 0 every node pays.  Any thread. */
bool pays_to_attend(const struct ggml_tensor *node);
bool pays_to_store(const struct ggml_tensor *node);

/* The number of threads that engines use from here on. */
void pays_for_threads(int threads);

#endif
