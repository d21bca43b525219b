/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_results.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bench_time(struct bench_results *results, struct contender *contenders, int count,
                double seconds) {
    timer_race(contenders, count, seconds);
    results->disturbed = 0;
    for (int i = 0; i < count; i++)
        if (contenders[i].disturbed > results->disturbed)
            results->disturbed = contenders[i].disturbed;
}

struct bench_result *bench_results_add(struct bench_results *results) {
    struct bench_result *result = &results->items[results->count];
    results->count += results->count + 1 < MOST_RESULTS;
    *result = (struct bench_result){.disturbed = results->disturbed};
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

double bench_cycles(const struct bench_result *result) {
    return result->rows > 0 ? result->seconds * result->threads * result->hertz / result->rows : 0;
}

double bench_share_of_core(const struct bench_result *result) {
    return result->one / result->seconds;
}

static const double steady_spread = 1.1, most_disturbed = 0.25;

bool bench_is_trusted(const struct bench_result *result) {
    return result->spread <= steady_spread && result->disturbed <= most_disturbed;
}

int bench_doubted(const struct bench_results *results) {
    int doubted = 0;
    for (int i = 0; i < results->count; i++)
        doubted += !bench_is_trusted(&results->items[i]);
    return doubted;
}

const char *bench_verdict(const struct bench_result *result) {
    if (result->bar == 0)
        return "";
    return bench_ratio(result) >= result->bar ? "ok" : "below";
}

const struct kernel_words decode_words = {"; attend with ", false},
                          prefill_words = {"; attend with ", true},
                          write_words = {"; write K with ", false},
                          cells_words = {"; write with ", false},
                          read_words = {"; read K with ", false},
                          score_words = {"; score with ", false},
                          select_words = {"; select with ", false},
                          summarise_words = {"; summarise with ", false},
                          store_words = {"store with ", false}, keep_words = {"keep with ", false},
                          gather_words = {": with ", false}, apply_words = {"apply with ", false};

/* Returns how many query rows the kernel is for whose symbol begins the text. */
static int64_t rows_of_symbol(const char *text) {
    const char *end = text + strcspn(text, " ,");
    for (const char *at = text; at + 2 < end; at++)
        if (at[0] == '_' && at[1] == 'r' && isdigit((unsigned char)at[2]))
            return atoll(at + 2);
    return INT64_MAX;
}

/* The plan's text has symbols, separated by ", ", up to the next " (". */
void bench_kernel_in_plan(const kvmill_plan *plan, const struct kernel_words *words, int64_t rows,
                          char kernel[SYMBOL_SIZE]) {
    char text[4096];
    kvmill_plan_describe(plan, text, sizeof text);
    const char *at = strstr(text, words->words);
    at = at != NULL ? at + strlen(words->words) : "";
    while ((words->last || rows_of_symbol(at) < rows) && at[strcspn(at, " ,")] == ',')
        at += strcspn(at, " ,") + 2;
    snprintf(kernel, SYMBOL_SIZE, "%.*s", (int)strcspn(at, " ,"), at);
}
