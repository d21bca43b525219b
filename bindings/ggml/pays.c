/* SPDX-License-Identifier: Apache-2.0 */
#include "pays.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvmill.h>

#include "host.h"

/* PADDING: llama.cpp's cells are multiples of this, of which the last may have one cell in use.
   WIDE: with this many elements of queries a layer's products take so long that the cost of a
   split is less than a hundredth of them, so that the expected number of cells decides. */
enum { PADDING = 256, WIDE = 2048 };

/* A few rows are stored in less time than kvmill's code needs to come from memory. */
enum { LEAST_VALUES = 8192, LEAST_VALUES_IQ4_NL = 512 };

static atomic_int threads = 1;
static int64_t least;

void pays_for_threads(int count) {
    threads = count > 1 ? count : 1;
}

/* ---- The setting ---- */

/* A split costs 20 us, mostly because code and plans have left the caches
   (doc/performance-engines.md): the calibration knows the multiply-adds that save as much. */
static void read_setting(void) {
    const char *given = getenv("KVMILL_GGML_LEAST");
    char *end;
    least = kvmill_calibrated("ggml_split");
    if (given == NULL || *given == '\0')
        return;
    long long number = strtoll(given, &end, 10);
    if (*end == '\0' && number >= 0)
        least = number;
    else
        fprintf(
            stderr,
            "kvmill: KVMILL_GGML_LEAST: \"%.40s\"; accepted: a number of multiply-adds; %lld is "
            "used\n",
            given, (long long)least);
}

static int64_t setting(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_setting);
    return least;
}

/* ---- Nodes ---- */

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Returns the number of cells that are in use: at least, or, if a loss would not be felt, on
   average. */
static int64_t cells_in_use(const struct ggml_tensor *query, const struct ggml_tensor *key) {
    int64_t cells = key->ne[1], certain = larger(smaller(query->ne[1], cells), cells - PADDING + 1);
    bool is_wide = query->ne[0] * query->ne[2] >= WIDE;
    return is_wide ? larger(certain, larger(cells / 2, cells - PADDING / 2)) : certain;
}

bool pays_to_attend(const struct ggml_tensor *node) {
    const struct ggml_tensor *query = node->src[0], *key = node->src[1], *value = node->src[2];
    int64_t rows = query->ne[1] * query->ne[2] * query->ne[3];
    double work = (double)(rows * (key->ne[0] + value->ne[0])) * (double)cells_in_use(query, key);
    return work >= (double)setting() * threads;
}

bool pays_to_store(const struct ggml_tensor *node) {
    const struct ggml_tensor *rows = node->src[0];
    int64_t values = rows->ne[0] * rows->ne[1] * rows->ne[2] * rows->ne[3];
    bool is_iq4_nl = strcmp(host.type_name(node->type), "iq4_nl") == 0;
    return setting() == 0 ||
           values >= (is_iq4_nl ? LEAST_VALUES_IQ4_NL : LEAST_VALUES) * (int64_t)threads;
}
