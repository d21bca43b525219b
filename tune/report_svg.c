/* SPDX-License-Identifier: Apache-2.0 */
#include "report_svg.h"

#include <math.h>

#include "../base/text.h"

static void print_character(FILE *out, char c) {
    switch (c) {
    case '<':
        fputs("&lt;", out);
        break;
    case '>':
        fputs("&gt;", out);
        break;
    case '&':
        fputs("&amp;", out);
        break;
    case '"':
        fputs("&quot;", out);
        break;
    default:
        putc(c, out);
    }
}

void print_escaped(FILE *out, const char *text) {
    char shown[2048];
    text_show(text, shown, sizeof shown);
    for (const char *at = shown; *at != '\0'; at++)
        print_character(out, *at);
}

/* ---- Elements ---- */

void svg_begin(FILE *out, double width, double height, const char *label) {
    fprintf(
        out,
        "<svg viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" role=\"img\" aria-label=\"",
        width, height, width, height);
    print_escaped(out, label);
    fputs("\">\n", out);
}

void svg_end(FILE *out) {
    fputs("</svg>\n", out);
}

void svg_text(FILE *out, double x, double y, const char *class, const char *anchor,
              const char *text) {
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\" text-anchor=\"%s\">", x, y, class,
            anchor);
    print_escaped(out, text);
    fputs("</text>\n", out);
}

void svg_line(FILE *out, double x1, double y1, double x2, double y2, const char *class) {
    fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1, y1,
            x2, y2, class);
}

/* Ends an element, with a title that is shown when the mouse is over it. */
static void end_element(FILE *out, const char *name, const char *title) {
    if (title == NULL) {
        fputs("/>\n", out);
        return;
    }
    fputs("><title>", out);
    print_escaped(out, title);
    fprintf(out, "</title></%s>\n", name);
}

void svg_rect(FILE *out, double x, double y, double width, double height, const char *class,
              double opacity, const char *title) {
    fprintf(out,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"%s\" "
            "fill-opacity=\"%.2f\"",
            x, y, width, height, class, opacity);
    end_element(out, "rect", title);
}

void svg_circle(FILE *out, double x, double y, double radius, const char *class,
                const char *title) {
    fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" class=\"%s\"", x, y, radius, class);
    end_element(out, "circle", title);
}

/* ---- A plane ---- */

static double place(const struct axis *axis, double value) {
    if (axis->log)
        return log(value / axis->from) / log(axis->to / axis->from);
    return (value - axis->from) / (axis->to - axis->from);
}

double plane_x(const struct plane *plane, double value) {
    return plane->left + plane->width * place(&plane->x, value);
}

double plane_y(const struct plane *plane, double value) {
    return plane->top + plane->height * (1 - place(&plane->y, value));
}

void plane_grid_y(const struct plane *plane, double step, double scale, const char *unit) {
    char text[40];
    for (int i = (int)ceil(plane->y.from / step - 1e-9); i * step <= plane->y.to + step * 1e-6;
         i++) {
        double y = plane_y(plane, i * step);
        svg_line(plane->out, plane->left, y, plane->left + plane->width, y,
                 i == 0 ? "axis" : "grid");
        snprintf(text, sizeof text, "%g%s", round(i * step * scale * 1e6) / 1e6, unit);
        svg_text(plane->out, plane->left - 8, y + 4, "tick", "end", text);
    }
}

double nice_step(double range, int count) {
    double raw = range / count, power = pow(10, floor(log10(raw)));
    double digit = raw / power;
    return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}
