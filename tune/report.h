/* Reports on databases: a self-contained page of HTML, and tables for a terminal.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_REPORT_H
#define KVMILL_TUNE_REPORT_H

#include <stdio.h>

#include "../base/json.h"
#include "sweep_name.h"
#include "sweep_space.h"

/* A file, and its sweeps. */
struct report_source {
    const char *name;
    struct sweeps sweeps;
};

/* The result of one sweep about some work. */
struct report_past {
    int64_t measured;
    const char *source;
    double preset, winner; /* seconds of one run */
};

enum { MOST_PAIRS = 3 };

/* Some work in the reported database, on one CPU, with its latest sweep. */
struct report_entry {
    const struct sweep *sweep;
    struct text apart; /* tells it from other work with the same words */
    struct ranking ranking;
    struct sweep_space *space; /* NULL if candidates have no parameters in common */
    struct report_past *past;  /* sweeps of all sources, this one included, by time */
    int past_count;
    int failures[OUTCOMES];
    int measured;             /* candidates */
    int pairs[MOST_PAIRS][2]; /* the most important parameters, for maps */
    int pair_count;
};

struct report {
    struct report_entry *entries;
    size_t count;
    const char *name; /* the reported file's */
};

/* Makes the report of the first source, with the history of all.  Keeps pointers to the sources.
   Free with report_free, also after a failure. */
bool report_open(const struct report_source *sources, int count, struct report *report,
                 struct error *error);
void report_free(struct report *report);

void report_print_text(const struct report *report, FILE *stream);
void report_print_html(const struct report *report, FILE *stream);
json_t *report_json(const struct report *report); /* to be released */

/* ---- For pages and tables ---- */

/* Write the work's name, and its second half without the kernel: each is the only one of its name,
   or of its kernel. */
enum { NAME_SIZE = WORK_SIZE + 640 };
void report_name(const struct report_entry *entry, char name[NAME_SIZE]);
void report_problem_name(const struct report_entry *entry, char name[NAME_SIZE]);

/* Return the default and the winner, which may be the same, or NULL. */
const struct standing *report_default(const struct report_entry *entry);
const struct standing *report_winner(const struct report_entry *entry);

/* Returns the default with its time and share of the limit in the races of `s`, or else as it ran
   alone.  The ratio of times then equals the speed that is shown. */
struct standing report_compared(const struct report_entry *entry, const struct standing *s);

/* A share above this means that something else ran while the limit was measured, or that it is no
   limit. */
#define BEYOND_LIMIT 1.05

/* Returns the geometric mean of the winners' speeds relative to the defaults, or 1 without
   winners. */
double report_mean_gain(const struct report *report);

enum { FIGURE_SIZE = 40 };
void print_seconds(double seconds, const char *micro, char text[FIGURE_SIZE]); /* "1.23 ms" */
void print_rate(double rate, enum limit_kind kind, char text[FIGURE_SIZE]);    /* "17.0 GB/s" */
void print_day(int64_t measured, char text[FIGURE_SIZE]);                      /* "2026-11-21" */

/* Writes "5 compile, 1 crash", or "none". */
enum { FAILURES_SIZE = 120 };
void print_failures(const struct report_entry *entry, char text[FAILURES_SIZE]);

/* Returns the rate of a run: bytes a second, or operations if these are what its limit counts. */
double report_rate(const struct report_entry *entry, double seconds);

#endif
