/* Reports on databases: one self-contained page of HTML, and tables for a terminal.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_REPORT_H
#define KVMILL_TUNE_REPORT_H

#include <stdio.h>

#include "../base/json.h"
#include "sweep_file.h"
#include "sweep_space.h"

/* A file, and what is in it. */
struct report_source {
    const char *name;
    struct sweeps sweeps;
};

/* What one sweep about some work showed. */
struct report_past {
    int64_t measured;
    const char *source;
    double preset, winner; /* seconds of one run */
};

enum { MOST_PAIRS = 3 };

/* Work of the reported database: its latest sweep. */
struct report_entry {
    const struct sweep *sweep;
    struct ranking ranking;
    struct sweep_space *space; /* NULL where candidates have no parameters in common */
    struct report_past *past;  /* of all sources, this sweep included; by time */
    int past_count;
    int failures[OUTCOMES];
    int measured;             /* candidates */
    int pairs[MOST_PAIRS][2]; /* parameters that matter most, for maps */
    int pair_count;
};

struct report {
    struct report_entry *entries;
    size_t count;
    const char *name; /* of the reported file */
};

/* The report of the first source, with the history of all.  The sources must stay; free with
   report_free, also after a failure. */
bool report_open(const struct report_source *sources, int count, struct report *report,
                 struct error *error);
void report_free(struct report *report);

void report_print_text(const struct report *report, FILE *stream);
void report_print_html(const struct report *report, FILE *stream);
json_t *report_json(const struct report *report); /* to be released */

/* ---- For both ---- */

/* The default and the winner, which may be the same; NULL where there is none. */
const struct standing *report_default(const struct report_entry *entry);
const struct standing *report_winner(const struct report_entry *entry);

/* The default as it ran in the races of `s`, with its median time and share of the limit there; else
   as it ran by itself.  So times are in the proportion that speeds say. */
struct standing report_compared(const struct report_entry *entry, const struct standing *s);

/* Shares above that are of a limit that was measured while something else ran, or that is none. */
#define BEYOND_LIMIT 1.05

/* Geometric mean of the winners' speed over the defaults'; 1 where there are none. */
double report_mean_gain(const struct report *report);

enum { FIGURE_SIZE = 40 };
void print_seconds(double seconds, const char *micro, char text[FIGURE_SIZE]); /* "1.23 ms" */
void print_rate(double rate, enum limit_kind kind, char text[FIGURE_SIZE]);    /* "17.0 GB/s" */
void print_day(int64_t measured, char text[FIGURE_SIZE]);                      /* "2026-11-21" */

/* "5 compile, 1 crash", or "none". */
enum { FAILURES_SIZE = 120 };
void print_failures(const struct report_entry *entry, char text[FAILURES_SIZE]);

/* What a run does in a second: bytes, or operations where these are what its limit counts. */
double report_rate(const struct report_entry *entry, double seconds);

#endif
