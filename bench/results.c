/* SPDX-License-Identifier: Apache-2.0 */
#include "results.h"

#include <stdio.h>
#include <string.h>

struct bench_result *bench_results_add(struct bench_results *results) {
    struct bench_result *result = &results->items[results->count];
    results->count += results->count + 1 < MOST_RESULTS;
    *result = (struct bench_result){0};
    return result;
}

void bench_compare(struct bench_result *result, const char *limit, double seconds, double bar) {
    result->limit = limit;
    result->limit_seconds = seconds;
    result->bar = bar;
}

double bench_ratio(const struct bench_result *result) {
    return result->limit != NULL ? result->limit_seconds / result->seconds : 0;
}

const char *bench_verdict(const struct bench_result *result) {
    if (result->bar == 0)
        return "";
    return bench_ratio(result) >= result->bar ? "ok" : "below";
}

/* Symbols, by ", ", up to the next " (". */
static const char *list_in_plan(const kvmill_plan *plan, const char *word, char text[4096]) {
    kvmill_plan_describe(plan, text, 4096);
    const char *at = strstr(text, word);
    return at ? at + strlen(word) : "";
}

void bench_kernel_in_plan(const kvmill_plan *plan, const char *word, char kernel[SYMBOL_SIZE]) {
    char text[4096];
    const char *at = list_in_plan(plan, word, text);
    snprintf(kernel, SYMBOL_SIZE, "%.*s", (int)strcspn(at, " ,"), at);
}

void bench_last_kernel_in_plan(const kvmill_plan *plan, const char *word,
                               char kernel[SYMBOL_SIZE]) {
    char text[4096];
    const char *at = list_in_plan(plan, word, text);
    while (at[strcspn(at, " ,")] == ',')
        at += strcspn(at, " ,") + 2;
    snprintf(kernel, SYMBOL_SIZE, "%.*s", (int)strcspn(at, " ,"), at);
}
