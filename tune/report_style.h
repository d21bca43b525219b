/* The style of the report's page, for day, night and paper.  Drawings name colours by classes:
   preset (the default), winner, tie, candidate, limit.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_REPORT_STYLE_H
#define KVMILL_TUNE_REPORT_STYLE_H

extern const char report_style[];

#endif
