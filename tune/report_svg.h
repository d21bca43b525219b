/* Draws SVG: the elements of charts, and a plane with axes.  Colours are classes, so that the
   page's style can set them for day, night and paper.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_REPORT_SVG_H
#define KVMILL_TUNE_REPORT_SVG_H

#include <stdbool.h>
#include <stdio.h>

/* Prints text, with the special characters of HTML and SVG escaped. */
void print_escaped(FILE *out, const char *text);

void svg_begin(FILE *out, double width, double height, const char *label);
void svg_end(FILE *out);

/* Draws text.  `anchor` is "start", "middle" or "end". */
void svg_text(FILE *out, double x, double y, const char *class, const char *anchor,
              const char *text);
void svg_line(FILE *out, double x1, double y1, double x2, double y2, const char *class);
void svg_rect(FILE *out, double x, double y, double width, double height, const char *class,
              double opacity, const char *title);
void svg_circle(FILE *out, double x, double y, double radius, const char *class, const char *title);

/* ---- A plane ---- */

struct axis {
    double from, to; /* the values at its ends */
    bool log;
};

struct plane {
    FILE *out;
    double left, top, width, height; /* the area inside the axes, in pixels */
    struct axis x, y;
};

double plane_x(const struct plane *plane, double value);
double plane_y(const struct plane *plane, double value);

/* Draws horizontal lines with their values on the left: value times `scale`, then `unit`. */
void plane_grid_y(const struct plane *plane, double step, double scale, const char *unit);

/* Returns a step of 1, 2 or 5 times a power of ten that divides `range` into about `count`
   steps. */
double nice_step(double range, int count);

#endif
