/* The charts of a report, as SVG.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_REPORT_CHARTS_H
#define KVMILL_TUNE_REPORT_CHARTS_H

#include "report.h"

enum { TITLE_SIZE = 400 }; /* the text of a mark in a chart */

/* Draws default and winner, a row for each entry. */
void chart_overview(const struct report *report, FILE *out);

/* Whether any entry has bytes, operations and a limit.  chart_roofline then draws operations a
   second over operations a byte. */
bool report_has_roofline(const struct report *report);
void chart_roofline(const struct report *report, FILE *out);

/* Draws every candidate, from the slowest to the fastest, and the limit. */
void chart_candidates(const struct report_entry *entry, FILE *out);

/* Draws the best speed for each combination of values of two parameters. */
void chart_map(const struct report_entry *entry, const int pair[2], FILE *out);

/* Draws default and winner over time. */
void chart_history(const struct report_entry *entry, FILE *out);

#endif
