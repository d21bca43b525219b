/* The charts of a report, as SVG.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_REPORT_CHARTS_H
#define KVMILL_TUNE_REPORT_CHARTS_H

#include "report.h"

enum { TITLE_SIZE = 400 }; /* of what a chart says of one of its marks */

/* Default against winner, a row for each entry. */
void chart_overview(const struct report *report, FILE *out);

/* Whether any entry has bytes, operations and a limit; then operations a second over operations a
 * byte. */
bool report_has_roofline(const struct report *report);
void chart_roofline(const struct report *report, FILE *out);

/* Every candidate, from the slowest to the fastest, below the limit. */
void chart_candidates(const struct report_entry *entry, FILE *out);

/* For each two values of a pair of parameters the best there is. */
void chart_map(const struct report_entry *entry, const int pair[2], FILE *out);

/* Default and winner over time. */
void chart_history(const struct report_entry *entry, FILE *out);

#endif
