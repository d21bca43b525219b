/* The style of the report's page: by day, by night, on paper.  Drawings name their colours by
   classes: preset (the default), winner, tie, candidate, limit.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_REPORT_STYLE_H
#define KVMILL_TUNE_REPORT_STYLE_H

extern const char report_style[];

#endif
