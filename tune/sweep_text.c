/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FIRST_LINE "kvmill-tune 1"

/* ---- Samples ---- */

bool samples_print(const double *samples, int count, struct text *text) {
    bool done = text_append(text, "", 0);
    for (int i = 0; done && i < count; i++)
        done = text_print(text, "%s%.9g", i > 0 ? " " : "", samples[i]);
    return done;
}

static int count_words(const char *text) {
    int count = 0;
    for (text += strspn(text, " "); *text != '\0'; text += strspn(text, " ")) {
        text += strcspn(text, " ");
        count++;
    }
    return count;
}

double *samples_parse(const char *text, int *count) {
    int words = count_words(text);
    double *samples = malloc(((size_t)words + 1) * sizeof *samples);
    char *end = (char *)text;
    *count = words;
    for (int i = 0; samples != NULL && i < words; i++) {
        const char *word = end;
        samples[i] = strtod(word, &end);
        if (end == word || (*end != ' ' && *end != '\0') || !isfinite(samples[i]))
            *count = -1;
    }
    if (*count >= 0)
        return samples;
    free(samples);
    return NULL;
}

/* ---- Times ---- */

enum { TIME_SIZE = 40, DIGITS = 6, MILLION = 1000000 };

static void print_time(int64_t measured, char text[TIME_SIZE]) {
    struct tm fields;
    time_t seconds = measured / MILLION;
    gmtime_r(&seconds, &fields);
    size_t length = strftime(text, TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &fields);
    snprintf(text + length, TIME_SIZE - length, ".%06dZ", (int)(measured % MILLION));
}

/* Parses a time.  Refuses text that print_time would not write. */
static bool parse_time(const char *text, int64_t *measured) {
    struct tm fields = {0};
    char again[TIME_SIZE];
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &fields);
    if (end == NULL || *end != '.' || strspn(end + 1, "0123456789") != DIGITS)
        return false;
    *measured = (int64_t)timegm(&fields) * MILLION + strtol(end + 1, NULL, 10);
    print_time(*measured, again);
    return strcmp(text, again) == 0;
}

/* ---- Printing ---- */

/* Prints a line with a fact. */
static bool print_line(struct text *text, const char *word, const char *value) {
    size_t start;
    bool done = text_print(text, "%s ", word);
    start = text->length;
    done = done && text_print(text, "%s\n", value);
    for (size_t i = start; done && i + 1 < text->length; i++)
        if (text->data[i] == '\n')
            text->data[i] = ' ';
    return done;
}

static bool print_samples_line(struct text *text, const char *word, const double *samples,
                               int count) {
    return samples == NULL || (text_print(text, "%s ", word) &&
                               samples_print(samples, count, text) && text_print(text, "\n"));
}

static bool print_key(const struct sweep_key *key, struct text *text) {
    bool done = text_print(text, "\nsweep\n");
    for (int i = 0; done && i < KEY_STRINGS; i++)
        done = print_line(text, sweep_key_names[i], sweep_key_text(key, i));
    return done && text_print(text, "threads %d\nbytes %.17g\nflops %.17g\n", key->threads,
                              key->bytes, key->flops);
}

static bool print_limit(const struct sweep_result *r, struct text *text) {
    return r->limit == LIMIT_NONE ||
           text_print(text, "limit %s %.9g\n", limit_word(r->limit), r->limit_rate);
}

static bool print_result(const struct sweep_result *r, struct text *text) {
    char time[TIME_SIZE];
    print_time(r->measured, time);
    return text_print(text, "result %s %s\n%s", outcome_word(r->outcome), r->candidate,
                      r->is_default ? "default\n" : "") &&
           text_print(text, "time %s\ncode %" PRId64 "\n", time, r->code_bytes) &&
           print_limit(r, text) && print_line(text, "environment", r->environment) &&
           (*r->message == '\0' || print_line(text, "message", r->message)) &&
           print_samples_line(text, "samples", r->samples, r->sample_count) &&
           print_samples_line(text, "baseline", r->baseline, r->sample_count);
}

static bool print_sweep(const struct sweep *sweep, struct text *text) {
    bool done = print_key(&sweep->key, text);
    for (size_t i = 0; done && i < sweep->count; i++)
        done = print_result(&sweep->results[i], text);
    return done;
}

bool sweeps_print(const struct sweeps *sweeps, struct text *text, struct error *error) {
    size_t results = 0;
    bool done = text_print(text, FIRST_LINE "\n");
    for (size_t i = 0; done && i < sweeps->count; i++) {
        done = print_sweep(&sweeps->items[i], text);
        results += sweeps->items[i].count;
    }
    return (done && text_print(text, "\nend %zu\n", results)) || out_of_memory(error);
}

/* ---- Parsing by lines; a key or result is complete when the next one begins ---- */

enum state { BEFORE, IN_SWEEP, IN_RESULT, ENDED };

struct reader {
    const char *file;
    int line;
    enum state state;
    struct sweep_key key;
    struct sweep_result result;
    int baseline_count;
    bool lacks_memory;
    unsigned known; /* facts given so far for the key or result */
    size_t results;
    struct sweeps *sweeps;
};

static bool refuse(const struct reader *reader, struct error *error, const char *what) {
    return fail(error, EXIT_USER, "%.400s:%d: %s", reader->file, reader->line, what);
}

struct fact {
    const char *word;
    bool (*read)(struct reader *reader, const char *value, int index);
    bool is_required;
};

static bool own(struct reader *reader, char **string, const char *value) {
    free(*string);
    *string = strdup(value);
    reader->lacks_memory = *string == NULL;
    return *string != NULL;
}

static bool read_key_string(struct reader *reader, const char *value, int index) {
    return own(reader, sweep_key_string(&reader->key, index), value);
}

static bool read_number(const char *value, double *number) {
    char *end;
    *number = strtod(value, &end);
    return end != value && *end == '\0' && *number >= 0 && isfinite(*number);
}

static bool read_integer(const char *value, int64_t *number) {
    char *end;
    *number = strtoll(value, &end, 10);
    return end != value && *end == '\0' && *number >= 0;
}

static bool read_threads(struct reader *reader, const char *value, int index) {
    int64_t threads = 0;
    (void)index;
    if (!read_integer(value, &threads) || threads < 1 || threads > INT32_MAX)
        return false;
    reader->key.threads = (int)threads;
    return true;
}

static bool read_bytes(struct reader *reader, const char *value, int index) {
    (void)index;
    return read_number(value, &reader->key.bytes);
}

static bool read_flops(struct reader *reader, const char *value, int index) {
    (void)index;
    return read_number(value, &reader->key.flops);
}

static bool read_default(struct reader *reader, const char *value, int index) {
    (void)index;
    reader->result.is_default = true;
    return *value == '\0';
}

static bool read_time(struct reader *reader, const char *value, int index) {
    (void)index;
    return parse_time(value, &reader->result.measured);
}

static bool read_code(struct reader *reader, const char *value, int index) {
    (void)index;
    return read_integer(value, &reader->result.code_bytes);
}

static bool read_limit(struct reader *reader, const char *value, int index) {
    char word[8] = "";
    size_t length = strcspn(value, " ");
    (void)index;
    snprintf(word, sizeof word, "%.*s", (int)(length < 7 ? length : 7), value);
    return value[length] == ' ' && limit_by_word(word, &reader->result.limit) &&
           read_number(value + length + 1, &reader->result.limit_rate);
}

static bool read_environment(struct reader *reader, const char *value, int index) {
    (void)index;
    return own(reader, &reader->result.environment, value);
}

static bool read_message(struct reader *reader, const char *value, int index) {
    (void)index;
    return own(reader, &reader->result.message, value);
}

static bool own_samples(struct reader *reader, double **samples, int *count, const char *value) {
    *samples = samples_parse(value, count);
    reader->lacks_memory = *samples == NULL && *count >= 0;
    return *samples != NULL;
}

static bool read_samples(struct reader *reader, const char *value, int index) {
    struct sweep_result *r = &reader->result;
    (void)index;
    return own_samples(reader, &r->samples, &r->sample_count, value) && r->sample_count > 0;
}

static bool read_baseline(struct reader *reader, const char *value, int index) {
    (void)index;
    return own_samples(reader, &reader->result.baseline, &reader->baseline_count, value);
}

static const struct fact key_facts[] = {
    {"cpu", read_key_string, true},     {"compiler", read_key_string, true},
    {"flags", read_key_string, true},   {"templates", read_key_string, true},
    {"isa", read_key_string, true},     {"spec", read_key_string, true},
    {"problem", read_key_string, true}, {"threads", read_threads, true},
    {"bytes", read_bytes, true},        {"flops", read_flops, true},
};
static const struct fact result_facts[] = {
    {"default", read_default, false},
    {"time", read_time, true},
    {"code", read_code, true},
    {"limit", read_limit, false},
    {"environment", read_environment, true},
    {"message", read_message, false},
    {"samples", read_samples, false},
    {"baseline", read_baseline, false},
};
enum {
    KEY_FACTS = sizeof key_facts / sizeof *key_facts,
    RESULT_FACTS = sizeof result_facts / sizeof *result_facts
};

static const struct fact *facts_of(const struct reader *reader, int *count) {
    *count = reader->state == IN_SWEEP ? KEY_FACTS : RESULT_FACTS;
    return reader->state == IN_SWEEP ? key_facts : result_facts;
}

static bool read_fact(struct reader *reader, const char *word, const char *value,
                      struct error *error) {
    char what[128];
    int count;
    const struct fact *facts = facts_of(reader, &count);
    for (int i = 0; i < count; i++)
        if (strcmp(facts[i].word, word) == 0) {
            bool again = reader->known & 1u << i;
            reader->known |= 1u << i;
            if (!again && facts[i].read(reader, value, i))
                return true;
            if (reader->lacks_memory)
                return out_of_memory(error);
            snprintf(what, sizeof what, "%s \"%.60s\": %s", word, value,
                     again ? "is given twice" : "is not a value of it");
            return refuse(reader, error, what);
        }
    snprintf(what, sizeof what,
             "\"%.40s\" is not known here; accepted: a line that db export wrote", word);
    return refuse(reader, error, what);
}

static bool is_complete(struct reader *reader, struct error *error) {
    char what[64];
    int count;
    const struct fact *facts = facts_of(reader, &count);
    for (int i = 0; i < count; i++)
        if (facts[i].is_required && !(reader->known & 1u << i)) {
            snprintf(what, sizeof what, "no %s before this line", facts[i].word);
            return refuse(reader, error, what);
        }
    return true;
}

/* ---- Completing keys and results ---- */

static void clear_result(struct sweep_result *result) {
    free(result->candidate);
    free(result->message);
    free(result->environment);
    free(result->samples);
    free(result->baseline);
    *result = (struct sweep_result){0};
}

static void clear_key(struct sweep_key *key) {
    for (int i = 0; i < KEY_STRINGS; i++)
        free(*sweep_key_string(key, i));
    *key = (struct sweep_key){0};
}

static bool finish_result(struct reader *reader, struct error *error) {
    struct sweep_result *r = &reader->result;
    if (!is_complete(reader, error))
        return false;
    if (r->message == NULL && !own(reader, &r->message, ""))
        return out_of_memory(error);
    const char *fault = sweep_result_fault(r);
    if (fault == NULL && r->baseline != NULL && reader->baseline_count != r->sample_count)
        fault = "as many samples and baselines are needed";
    if (fault != NULL)
        return refuse(reader, error, fault);
    bool done = sweeps_add(reader->sweeps, &reader->key, r, error);
    clear_result(r);
    reader->results++;
    return done;
}

static bool finish_key(struct reader *reader, struct error *error) {
    const char *fault = is_complete(reader, error) ? sweep_key_fault(&reader->key) : "";
    return fault == NULL || (*fault != '\0' && refuse(reader, error, fault));
}

/* Completes the key or result before the next sweep, result or end. */
static bool finish(struct reader *reader, struct error *error) {
    bool done = reader->state == IN_RESULT  ? finish_result(reader, error)
                : reader->state == IN_SWEEP ? finish_key(reader, error)
                                            : true;
    reader->known = 0;
    return done;
}

static bool begin_sweep(struct reader *reader, struct error *error) {
    if (!finish(reader, error))
        return false;
    clear_key(&reader->key);
    reader->state = IN_SWEEP;
    return true;
}

static bool begin_result(struct reader *reader, const char *value, struct error *error) {
    char word[16];
    size_t length = strcspn(value, " ");
    if (reader->state == BEFORE)
        return refuse(reader, error, "a result without a sweep");
    if (!finish(reader, error))
        return false;
    reader->state = IN_RESULT;
    snprintf(word, sizeof word, "%.*s", (int)(length < 15 ? length : 15), value);
    if (value[length] == '\0' || !outcome_by_word(word, &reader->result.outcome))
        return refuse(
            reader, error,
            "accepted: result, then measured, compile, crash, hang, wrong or refused, then "
            "the candidate");
    return own(reader, &reader->result.candidate, value + length + 1) || out_of_memory(error);
}

static bool end(struct reader *reader, const char *value, struct error *error) {
    int64_t results;
    if (!finish(reader, error))
        return false;
    reader->state = ENDED;
    return (read_integer(value, &results) && results == (int64_t)reader->results) ||
           refuse(reader, error,
                  "the number of results is not that of its end: it is cut or changed");
}

static bool read_line(struct reader *reader, const char *word, const char *value,
                      struct error *error) {
    if (*word == '\0' || *word == '#')
        return true;
    if (reader->state == ENDED)
        return refuse(reader, error, "a line after the end");
    if (strcmp(word, "sweep") == 0)
        return begin_sweep(reader, error);
    if (strcmp(word, "result") == 0)
        return begin_result(reader, value, error);
    if (strcmp(word, "end") == 0)
        return end(reader, value, error);
    if (reader->state == BEFORE)
        return refuse(reader, error, "accepted: sweep");
    return read_fact(reader, word, value, error);
}

/* Splits a line in place, and reads it. */
static bool split_line(struct reader *reader, char *line, struct error *error) {
    char *space = strchr(line, ' ');
    if (space != NULL)
        *space = '\0';
    return read_line(reader, line, space != NULL ? space + 1 : "", error);
}

static bool read_first_line(struct reader *reader, const char *line, struct error *error) {
    return strcmp(line, FIRST_LINE) == 0 ||
           refuse(reader, error,
                  "is not a text form of a tuning database of this version; accepted: \"" FIRST_LINE
                  "\"");
}

static bool read_lines(struct reader *reader, char *text, struct error *error) {
    for (char *next; text != NULL && *text != '\0'; text = next) {
        next = strchr(text, '\n');
        if (next != NULL)
            *next++ = '\0';
        if (!(reader->line++ == 0 ? read_first_line(reader, text, error)
                                  : split_line(reader, text, error)))
            return false;
    }
    return reader->state == ENDED || refuse(reader, error, "has no end: it is cut");
}

bool sweeps_parse(const char *file, const char *text, struct sweeps *sweeps, struct error *error) {
    struct reader reader = {.file = file, .sweeps = sweeps};
    char *copy = strdup(text);
    bool done = copy != NULL ? read_lines(&reader, copy, error) : out_of_memory(error);
    free(copy);
    clear_key(&reader.key);
    clear_result(&reader.result);
    sweeps_sort(sweeps);
    return done;
}
