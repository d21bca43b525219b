/* SPDX-License-Identifier: Apache-2.0 */
#include "report_charts.h"

#include <math.h>
#include <string.h>

#include "report_svg.h"
#include "sweep_file.h"

enum { PAGE = 960 };

/* Whether charts show the share of the limit.  Without a limit, they show the speed relative to the
   default. */
static bool has_limit(const struct report_entry *entry) {
    return entry->ranking.count > 0 && entry->ranking.items[0].share > 0;
}

static double height_of(const struct report_entry *entry, const struct standing *s) {
    if (has_limit(entry))
        return s->share;
    return s->gain.median > 0 ? s->gain.median
                              : entry->ranking.items[0].time.median / s->time.median;
}

static void describe(const struct standing *s, char title[TITLE_SIZE]) {
    char time[FIGURE_SIZE], share[FIGURE_SIZE] = "", gain[FIGURE_SIZE * 2] = "";
    print_seconds(s->time.median, "µ", time);
    if (s->share > 0)
        snprintf(share, sizeof share, ", %.0f %% of the limit", 100 * s->share);
    if (s->gain.median > 0)
        snprintf(gain, sizeof gain, ", %.2f (%.2f to %.2f) × the default", s->gain.median,
                 s->gain.low, s->gain.high);
    snprintf(title, TITLE_SIZE, "%.200s: %s%s%s", s->result->candidate, time, share, gain);
}

/* ---- Default against winner ---- */

static void draw_step(const struct plane *plane, const struct standing *preset,
                      const struct standing *winner, double y) {
    char title[TITLE_SIZE];
    double from = plane_x(plane, preset->share), to = plane_x(plane, winner->share);
    svg_line(plane->out, from, y, to, y, "gain");
    describe(preset, title);
    svg_circle(plane->out, from, y, 5.5, "preset", title);
    describe(winner, title);
    if (winner != preset)
        svg_circle(plane->out, to, y, 6.5, "winner", title);
}

static void draw_row(const struct plane *plane, const struct report_entry *entry, double y) {
    char words[NAME_SIZE], text[FIGURE_SIZE];
    const struct standing *preset = report_default(entry), *winner = report_winner(entry);
    report_problem_name(entry, words);
    svg_text(plane->out, plane->left - 12, y + 4, "label", "end", words);
    svg_line(plane->out, plane->left, y, plane->left + plane->width, y, "grid");
    if (preset == NULL)
        return;
    snprintf(text, sizeof text, "%.2f ×", winner->gain.median);
    svg_text(plane->out, plane->left + plane->width + 14, y + 4,
             winner != preset ? "figure" : "tick", "start", text);
    if (has_limit(entry))
        draw_step(plane, preset, winner, y);
}

/* Whether entry i is the first of its kernel, so that the kernel's name comes above it. */
static bool begins_kernel(const struct report *report, size_t i) {
    return i == 0 ||
           strcmp(report->entries[i].sweep->key.spec, report->entries[i - 1].sweep->key.spec) != 0;
}

static void draw_kernel(const struct plane *plane, const struct report_entry *entry, double y) {
    char words[WORK_SIZE];
    sweep_kernel_words(&entry->sweep->key, words);
    svg_text(plane->out, 0, y + 4, "label", "start", words);
}

static int count_kernels(const struct report *report) {
    int kernels = 0;
    for (size_t i = 0; i < report->count; i++)
        kernels += begins_kernel(report, i);
    return kernels;
}

static double greatest_share(const struct report *report) {
    double greatest = 1;
    for (size_t i = 0; i < report->count; i++) {
        const struct standing *winner = report_winner(&report->entries[i]);
        if (winner != NULL && winner->share > greatest)
            greatest = winner->share;
    }
    return greatest;
}

static void draw_shares(const struct plane *plane) {
    char text[FIGURE_SIZE];
    double bottom = plane->top + plane->height, step = nice_step(plane->x.to, 6);
    for (int i = 0; i * step <= plane->x.to + 1e-9; i++) {
        double x = plane_x(plane, i * step);
        svg_line(plane->out, x, plane->top, x, bottom, "grid");
        snprintf(text, sizeof text, "%.0f %%", i * step * 100);
        if (fabs(i * step - 1) > step / 2)
            svg_text(plane->out, x, bottom + 18, "tick", "middle", text);
    }
    svg_line(plane->out, plane_x(plane, 1), plane->top, plane_x(plane, 1), bottom, "limit");
    svg_text(plane->out, plane_x(plane, 1), bottom + 18, "limittext", "middle", "limit");
}

void chart_overview(const struct report *report, FILE *out) {
    enum { ROW = 26, LEFT = 330, RIGHT = 70 };
    double height = ROW * (double)(report->count + (size_t)count_kernels(report));
    struct plane plane = {
        out,          LEFT, 8, PAGE - LEFT - RIGHT, height, {0, greatest_share(report), false},
        {0, 1, false}};
    svg_begin(out, PAGE, height + 40, "Speed of default and winner as share of the limit");
    draw_shares(&plane);
    double y = plane.top + ROW / 2;
    for (size_t i = 0; i < report->count; i++, y += ROW) {
        if (begins_kernel(report, i)) {
            draw_kernel(&plane, &report->entries[i], y);
            y += ROW;
        }
        draw_row(&plane, &report->entries[i], y);
    }
    svg_end(out);
}

/* ---- Roofline ---- */

static bool is_in_roofline(const struct report_entry *entry) {
    const struct sweep_key *key = &entry->sweep->key;
    return key->bytes > 0 && key->flops > 0 && report_winner(entry) != NULL;
}

static double intensity(const struct report_entry *entry) {
    return entry->sweep->key.flops / entry->sweep->key.bytes;
}

/* Returns the highest limit of a kind, or 0. */
static double find_roof(const struct report *report, enum limit_kind kind) {
    double roof = 0;
    for (size_t i = 0; i < report->count; i++)
        for (size_t k = 0; k < report->entries[i].ranking.count; k++) {
            const struct sweep_result *result = report->entries[i].ranking.items[k].result;
            if (result->limit == kind && result->limit_rate > roof)
                roof = result->limit_rate;
        }
    return roof;
}

bool report_has_roofline(const struct report *report) {
    if (find_roof(report, LIMIT_BYTES) == 0 && find_roof(report, LIMIT_FLOPS) == 0)
        return false;
    for (size_t i = 0; i < report->count; i++)
        if (is_in_roofline(&report->entries[i]))
            return true;
    return false;
}

static void widen(struct axis *axis, double value) {
    if (axis->from == 0 || value < axis->from)
        axis->from = value;
    if (value > axis->to)
        axis->to = value;
}

static void find_axes(const struct report *report, double peak, struct plane *plane) {
    for (size_t i = 0; i < report->count; i++) {
        const struct report_entry *entry = &report->entries[i];
        if (!is_in_roofline(entry))
            continue;
        widen(&plane->x, intensity(entry));
        for (int k = 0; k < entry->measured; k++)
            widen(&plane->y, entry->sweep->key.flops / entry->ranking.items[k].time.median);
    }
    if (peak > 0)
        widen(&plane->y, peak);
    plane->x = (struct axis){plane->x.from / 3, plane->x.to * 3, true};
    plane->y = (struct axis){plane->y.from / 2, plane->y.to * 2, true};
}

/* Returns the next of 1, 2, 5, 10, 20, 50, ... */
static double next_tick(double tick) {
    double digit = tick / pow(10, floor(log10(tick) + 1e-9));
    return tick * (digit > 1.5 && digit < 2.5 ? 2.5 : 2);
}

static double first_tick(double from) {
    double tick = pow(10, floor(log10(from)));
    while (tick < from)
        tick = next_tick(tick);
    return tick;
}

static void draw_ticks(const struct plane *plane) {
    char text[FIGURE_SIZE];
    double bottom = plane->top + plane->height;
    for (double x = first_tick(plane->x.from); x <= plane->x.to; x = next_tick(x)) {
        svg_line(plane->out, plane_x(plane, x), plane->top, plane_x(plane, x), bottom, "grid");
        snprintf(text, sizeof text, x < 1 ? "%.3g" : "%.0f", x);
        svg_text(plane->out, plane_x(plane, x), bottom + 18, "tick", "middle", text);
    }
    for (double y = first_tick(plane->y.from); y <= plane->y.to; y = next_tick(y)) {
        svg_line(plane->out, plane->left, plane_y(plane, y), plane->left + plane->width,
                 plane_y(plane, y), "grid");
        snprintf(text, sizeof text, "%.3g", y / 1e9);
        svg_text(plane->out, plane->left - 8, plane_y(plane, y) + 4, "tick", "end", text);
    }
}

/* Draws the roofs: a slope for the bandwidth of memory, and a level for the peak of the
   multipliers.  Leaves out an unknown roof. */
static void draw_roofs(const struct plane *plane, double bandwidth, double peak) {
    char text[FIGURE_SIZE];
    double ridge = bandwidth > 0 && peak > 0 ? peak / bandwidth
                   : peak > 0                ? plane->x.from
                                             : plane->x.to;
    double turn = fmin(fmax(ridge, plane->x.from), plane->x.to);
    if (bandwidth > 0 && turn > plane->x.from) {
        double from = fmax(plane->x.from, plane->y.from / bandwidth);
        double to = fmin(turn, plane->y.to / bandwidth);
        svg_line(plane->out, plane_x(plane, from), plane_y(plane, from * bandwidth),
                 plane_x(plane, to), plane_y(plane, to * bandwidth), "limit");
        print_rate(bandwidth, LIMIT_BYTES, text);
        svg_text(plane->out, plane_x(plane, from) + 20, plane_y(plane, from * bandwidth) + 2,
                 "limittext", "start", text);
    }
    if (peak > 0 && turn < plane->x.to) {
        svg_line(plane->out, plane_x(plane, turn), plane_y(plane, peak), plane->left + plane->width,
                 plane_y(plane, peak), "limit");
        print_rate(peak, LIMIT_FLOPS, text);
        svg_text(plane->out, plane->left + plane->width, plane_y(plane, peak) - 7, "limittext",
                 "end", text);
    }
}

static void draw_dot(const struct plane *plane, const struct report_entry *entry, int i, double x) {
    char title[TITLE_SIZE];
    const struct standing *s = &entry->ranking.items[i];
    bool wins = i == entry->ranking.winner;
    describe(s, title);
    svg_circle(plane->out, x, plane_y(plane, entry->sweep->key.flops / s->time.median),
               wins     ? 6
               : i == 0 ? 5
                        : 2.5,
               wins     ? "winner"
               : i == 0 ? "preset"
                        : "candidate",
               title);
}

/* Draws the candidates of an entry, with the number of its row in the summary. */
static void draw_column(const struct plane *plane, const struct report_entry *entry, size_t i) {
    char number[FIGURE_SIZE];
    double x = plane_x(plane, intensity(entry));
    double top = entry->sweep->key.flops / report_winner(entry)->time.median;
    for (int k = entry->measured; k-- > 0;)
        draw_dot(plane, entry, k, x);
    draw_dot(plane, entry, entry->ranking.winner, x);
    snprintf(number, sizeof number, "%zu", i + 1);
    svg_text(plane->out, x + 10, plane_y(plane, top) + 4, "figure", "start", number);
}

void chart_roofline(const struct report *report, FILE *out) {
    enum { HEIGHT = 340, LEFT = 64 };
    double bandwidth = find_roof(report, LIMIT_BYTES), peak = find_roof(report, LIMIT_FLOPS);
    struct plane plane = {
        .out = out, .left = LEFT, .top = 24, .width = PAGE - LEFT - 10, .height = HEIGHT - 78};
    find_axes(report, peak, &plane);
    svg_begin(out, PAGE, HEIGHT, "Roofline: operations a second over operations a byte");
    draw_ticks(&plane);
    draw_roofs(&plane, bandwidth, peak);
    for (size_t i = 0; i < report->count; i++)
        if (is_in_roofline(&report->entries[i]))
            draw_column(&plane, &report->entries[i], i);
    svg_text(out, LEFT, 12, "tick", "start", "GFLOP/s");
    svg_text(out, PAGE - 10, HEIGHT - 14, "tick", "end", "operations for each byte of memory");
    svg_end(out);
}

/* ---- Candidates ---- */

/* Finds the vertical axis, from a line of the grid below all candidates to above all candidates and
   the limit. */
static void find_heights(const struct report_entry *entry, struct axis *axis, double *step) {
    double least = 1, greatest = 1;
    for (int i = 0; i < entry->measured; i++) {
        double height = height_of(entry, &entry->ranking.items[i]);
        least = fmin(least, height);
        greatest = fmax(greatest, height);
    }
    double margin = fmax(0.06 * (greatest - least), 0.02);
    *step = nice_step(greatest - least + 2 * margin, 6);
    axis->from = fmax(0, floor((least - margin) / *step) * *step);
    axis->to = greatest + margin;
}

/* Returns the class of a candidate's mark.  Candidates that tie with the fastest have a ring. */
static const char *class_of(const struct ranking *ranking, int i) {
    const struct choice *choice = &ranking->choice;
    if (i == ranking->winner)
        return "winner";
    if (i == 0 && ranking_has_default(ranking))
        return "preset";
    bool ties = choice->fastest >= 0 &&
                ranking->items[i].gain.median >=
                    ranking->items[choice->fastest].gain.median * (1 - choice->band);
    return ties ? "tie" : "candidate";
}

static void draw_candidate(const struct plane *plane, const struct report_entry *entry, int i,
                           double x) {
    enum { CROWD = 120 };
    char title[TITLE_SIZE];
    const struct standing *s = &entry->ranking.items[i];
    const char *class = class_of(&entry->ranking, i);
    double height = height_of(entry, s);
    describe(s, title);
    svg_line(plane->out, x, plane_y(plane, height * s->time.median / s->time.high), x,
             plane_y(plane, height * s->time.median / s->time.low), "whisker");
    svg_circle(plane->out, x, plane_y(plane, height),
               *class == 'w'   ? 6
               : *class == 'p' ? 5
                               : 3,
               class, title);
}

/* Returns the place of the default among the candidates by speed; in the ranking it comes first. */
static int place_of_default(const struct report_entry *entry) {
    int slower = 0;
    for (int i = 1; i < entry->measured; i++)
        slower += entry->ranking.items[i].gain.median < 1;
    return slower;
}

/* Draws the candidates, the winner and the default last, so that they cover their neighbours. */
static void draw_candidates(const struct plane *plane, const struct report_entry *entry) {
    int first = report_default(entry) != NULL, place = first ? place_of_default(entry) : -1;
    double x_of_winner = plane_x(plane, place + 0.5);
    for (int i = entry->measured - 1, column = 0; i >= first; i--, column++) {
        column += column == place;
        if (i == entry->ranking.winner)
            x_of_winner = plane_x(plane, column + 0.5);
        else
            draw_candidate(plane, entry, i, plane_x(plane, column + 0.5));
    }
    if (first)
        draw_candidate(plane, entry, 0, plane_x(plane, place + 0.5));
    if (entry->ranking.winner > 0)
        draw_candidate(plane, entry, entry->ranking.winner, x_of_winner);
}

static void draw_level(const struct plane *plane, double height, const char *class,
                       const char *textclass, const char *text) {
    double y = plane_y(plane, height), right = plane->left + plane->width;
    svg_line(plane->out, plane->left, y, right, y, class);
    svg_text(plane->out, plane->left + 6, y - 6, textclass, "start", text);
}

static void draw_limit(const struct plane *plane, const struct report_entry *entry) {
    char rate[FIGURE_SIZE], text[FIGURE_SIZE + 16];
    const struct sweep_result *first = entry->ranking.items[0].result;
    print_rate(first->limit_rate, first->limit, rate);
    snprintf(text, sizeof text, "limit: %s", rate);
    draw_level(plane, 1, "limit", "limittext", text);
}

void chart_candidates(const struct report_entry *entry, FILE *out) {
    enum { HEIGHT = 300, LEFT = 56 };
    double step;
    struct plane plane = {
        out, LEFT, 20, PAGE - LEFT - 10, HEIGHT - 56, {0, entry->measured, false}, {0, 0, false}};
    find_heights(entry, &plane.y, &step);
    svg_begin(out, PAGE, HEIGHT, "Speed of every candidate");
    plane_grid_y(&plane, step, has_limit(entry) ? 100 : 1, has_limit(entry) ? " %" : " ×");
    if (has_limit(entry))
        draw_limit(&plane, entry);
    if (report_default(entry) != NULL)
        draw_level(&plane, height_of(entry, report_default(entry)), "presetline", "tick",
                   "default");
    draw_candidates(&plane, entry);
    svg_text(out, PAGE - 10, HEIGHT - 14, "tick", "end",
             "candidates, from the slowest to the fastest");
    svg_end(out);
}

/* ---- History ---- */

static void draw_past(const struct plane *plane, const struct report_entry *entry, int i) {
    char day[FIGURE_SIZE], title[TITLE_SIZE], preset[FIGURE_SIZE], winner[FIGURE_SIZE];
    const struct report_past *past = &entry->past[i], *before = &entry->past[i > 0 ? i - 1 : 0];
    double x = plane_x(plane, i), from = plane_x(plane, i > 0 ? i - 1 : 0);
    double low = plane_y(plane, 1 / past->preset), high = plane_y(plane, 1 / past->winner);
    svg_line(plane->out, from, plane_y(plane, 1 / before->preset), x, low, "presetline");
    svg_line(plane->out, from, plane_y(plane, 1 / before->winner), x, high, "gain");
    print_day(past->measured, day);
    print_seconds(past->preset, "µ", preset);
    print_seconds(past->winner, "µ", winner);
    snprintf(title, sizeof title, "%s, %.200s: default %s, winner %s", day, past->source, preset,
             winner);
    svg_circle(plane->out, x, low, 5, "preset", title);
    svg_circle(plane->out, x, high, 6, "winner", title);
    svg_text(plane->out, x, plane->top + plane->height + 18, "tick", "middle", day);
}

void chart_history(const struct report_entry *entry, FILE *out) {
    enum { HEIGHT = 220, LEFT = 96 };
    char unit[FIGURE_SIZE];
    double most = 0, whole = report_rate(entry, 1);
    for (int i = 0; i < entry->past_count; i++)
        most = fmax(most, fmax(1 / entry->past[i].winner, 1 / entry->past[i].preset));
    struct plane plane = {out,
                          LEFT,
                          14,
                          PAGE - LEFT - 10,
                          HEIGHT - 50,
                          {-0.25, entry->past_count - 0.75, false},
                          {0, most * 1.1, false}};
    snprintf(unit, sizeof unit,
             entry->ranking.items[0].result->limit == LIMIT_FLOPS ? " GFLOP/s" : " GB/s");
    svg_begin(out, PAGE, HEIGHT, "Speed of default and winner over time");
    plane_grid_y(&plane, nice_step(most * whole, 4) / whole, whole / 1e9, unit);
    for (int i = 0; i < entry->past_count; i++)
        draw_past(&plane, entry, i);
    svg_end(out);
}
