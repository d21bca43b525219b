/* The report as a page: style, text and tables.  Other files draw the charts.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "report_charts.h"
#include "report_style.h"
#include "report_svg.h"
#include "sweep_file.h"

enum { SHOWN = 12 }; /* candidates in the table of a sweep */

/* ---- Pieces ---- */

static void print_element(FILE *out, const char *element, const char *text) {
    fprintf(out, "<%s>", element);
    print_escaped(out, text);
    fprintf(out, "</%.*s>", (int)strcspn(element, " "), element);
}

static void print_fact(FILE *out, const char *figure, const char *what) {
    fputs("<div>", out);
    print_element(out, "b", figure);
    print_element(out, "span", what);
    fputs("</div>\n", out);
}

static void print_term(FILE *out, const char *term, const char *text) {
    if (*text == '\0')
        return;
    print_element(out, "dt", term);
    print_element(out, "dd", text);
    fputc('\n', out);
}

static void print_seconds_cell(FILE *out, const struct standing *s) {
    char text[FIGURE_SIZE] = "–";
    if (s != NULL && s->time.count > 0)
        print_seconds(s->time.median, "µ", text);
    print_element(out, "td class=\"n\"", text);
}

static void print_share_cell(FILE *out, const struct standing *s) {
    char text[FIGURE_SIZE] = "–";
    if (s != NULL && s->share > 0)
        snprintf(text, sizeof text, "%.0f %%%s", 100 * s->share,
                 s->share > BEYOND_LIMIT ? " ?" : "");
    print_element(out, "td class=\"n\"", text);
}

static void print_gain_cells(FILE *out, const struct standing *s) {
    char text[FIGURE_SIZE] = "–", interval[FIGURE_SIZE] = "";
    if (s != NULL && s->gain.median > 0) {
        snprintf(text, sizeof text, "%.2f ×", s->gain.median);
        if (s->gain.low < s->gain.high)
            snprintf(interval, sizeof interval, "%.2f – %.2f", s->gain.low, s->gain.high);
    }
    print_element(out, "td class=\"n\"", text);
    print_element(out, "td class=\"none i\"", interval);
}

/* ---- All entries ---- */

static void print_summary_row(FILE *out, const struct report_entry *entry, size_t i) {
    char words[NAME_SIZE];
    const struct standing *winner = report_winner(entry);
    const struct standing compared = report_compared(entry, winner);
    bool tuned = entry->ranking.winner > 0;
    report_name(entry, words);
    fprintf(out, "<tr><td class=\"n\">%zu</td><td><a href=\"#work%zu\" class=\"mark\">", i + 1,
            i + 1);
    print_escaped(out, words);
    fputs("</a></td>", out);
    print_seconds_cell(out, &compared);
    print_seconds_cell(out, winner);
    print_share_cell(out, &compared);
    print_share_cell(out, winner);
    print_gain_cells(out, winner);
    fputs("<td><code>", out);
    print_escaped(out, tuned            ? winner->result->candidate
                       : winner != NULL ? "default"
                                        : "no default");
    fputs("</code></td></tr>\n", out);
}

static void print_summary(FILE *out, const struct report *report) {
    fputs("<div class=\"wide\"><table><thead><tr><th></th><th>Work</th><th "
          "class=\"n\">Default</th><th "
          "class=\"n\">Winner</th>"
          "<th class=\"n\">Limit</th><th class=\"n\">→</th><th class=\"n\">Speed</th>"
          "<th>95 % interval</th><th>Winner</th></tr></thead><tbody>\n",
          out);
    for (size_t i = 0; i < report->count; i++)
        print_summary_row(out, &report->entries[i], i);
    fputs("</tbody></table></div>\n", out);
}

static void print_facts(FILE *out, const struct report *report) {
    char text[FIGURE_SIZE];
    int tuned = 0, candidates = 0;
    for (size_t i = 0; i < report->count; i++) {
        tuned += report->entries[i].ranking.winner > 0;
        candidates += (int)report->entries[i].ranking.count;
    }
    fputs("<div class=\"facts\">\n", out);
    snprintf(text, sizeof text, "%.2f ×", report_mean_gain(report));
    print_fact(out, text, "speed of the winners over the defaults, geometric mean");
    snprintf(text, sizeof text, "%d of %zu", tuned, report->count);
    print_fact(out, text, "works where a candidate beats the default");
    snprintf(text, sizeof text, "%d", candidates);
    print_fact(out, text, "candidates");
    fputs("</div>\n", out);
}

static void print_roofline(FILE *out, const struct report *report) {
    fputs("<h3>Roofline</h3>\n<figure>\n", out);
    chart_roofline(report, out);
    fputs("<figcaption>Each column is a work, numbered as above, each dot a candidate: blue the "
          "winner, "
          "hollow the default. Memory bounds what is below the slope, arithmetic what is below the "
          "level: the highest limits that were measured, with however many "
          "threads.</figcaption></figure>\n",
          out);
}

static void print_overview(FILE *out, const struct report *report) {
    fputs("<section>\n<h2>Default against winner</h2>\n", out);
    print_facts(out, report);
    fputs("<figure>\n", out);
    chart_overview(report, out);
    fputs("<figcaption>Share of what the machine can do in the same run: hollow the default, "
          "filled the "
          "winner; at the right the winner's speed over the default's. Where there is one dot the "
          "default stays.</figcaption></figure>\n",
          out);
    print_summary(out, report);
    if (report_has_roofline(report))
        print_roofline(out, report);
    fputs("</section>\n", out);
}

/* ---- One entry ---- */

static void print_standing(FILE *out, const struct report_entry *entry, size_t i) {
    const struct standing *s = &entry->ranking.items[i], compared = report_compared(entry, s);
    bool wins = (int)i == entry->ranking.winner;
    fprintf(out, "<tr%s><td><code>", wins ? " class=\"win\"" : "");
    print_escaped(out, s->result->candidate);
    fprintf(out, "</code>%s%s</td>", wins ? " <span class=\"mark\">winner</span>" : "",
            s->result->is_default ? " <span class=\"none\">default</span>" : "");
    print_seconds_cell(out, s);
    print_seconds_cell(out, &compared);
    print_share_cell(out, s);
    print_gain_cells(out, s);
    fprintf(out, "<td class=\"n\">%lld</td></tr>\n", (long long)s->result->code_bytes);
}

static void print_standings(FILE *out, const struct report_entry *entry) {
    fputs("<table><thead><tr><th>Candidate</th><th class=\"n\">Time</th><th "
          "class=\"n\">Default</th><th class=\"n\">Limit</th>"
          "<th class=\"n\">Speed</th><th>95 % interval</th><th class=\"n\">Code "
          "bytes</th></tr></thead>"
          "<tbody>\n",
          out);
    for (size_t i = 0; i < entry->ranking.count; i++)
        if ((i < SHOWN || (int)i == entry->ranking.winner) &&
            entry->ranking.items[i].time.count > 0)
            print_standing(out, entry, i);
    fputs("</tbody></table>\n", out);
}

static void print_failed(FILE *out, const struct report_entry *entry) {
    enum { MOST = 8 };
    char words[FAILURES_SIZE];
    size_t first = (size_t)entry->measured, shown = 0;
    print_failures(entry, words);
    if (first == entry->ranking.count)
        return;
    fputs("<h3>Failures: ", out);
    print_escaped(out, words);
    fputs("</h3>\n<table><tbody>\n", out);
    for (size_t i = 0; i < entry->ranking.count && shown < MOST; i++) {
        const struct sweep_result *result = entry->ranking.items[i].result;
        if (result->outcome == OUTCOME_MEASURED)
            continue;
        shown++;
        fputs("<tr><td><code>", out);
        print_escaped(out, result->candidate);
        fprintf(out, "</code></td><td>%s</td>", outcome_word(result->outcome));
        print_element(out, "td class=\"none\"", result->message);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table>\n", out);
    if (entry->ranking.count - first > MOST)
        fprintf(out, "<p class=\"soft\">and %zu more</p>\n", entry->ranking.count - first - MOST);
}

static void print_maps(FILE *out, const struct report_entry *entry) {
    if (entry->pair_count == 0)
        return;
    fputs("<h3>Pairs of parameters</h3>\n<figure><div class=\"maps\">\n", out);
    for (int i = 0; i < entry->pair_count; i++)
        chart_map(entry, entry->pairs[i], out);
    fputs("</div><figcaption>The best speed over the default's for each two values, whatever the "
          "others are; the darker or brighter, the faster. Empty: none was "
          "measured.</figcaption></figure>\n",
          out);
}

static void print_history(FILE *out, const struct report_entry *entry) {
    if (entry->past_count < 2)
        return;
    fputs("<h3>History</h3>\n<figure>\n", out);
    chart_history(entry, out);
    fputs("<figcaption>Sweeps about the same work on the same CPU: dashed the default, solid the "
          "winner.</figcaption></figure>\n",
          out);
}

static void print_key(FILE *out, const struct report_entry *entry) {
    const struct sweep_key *key = &entry->sweep->key;
    char day[FIGURE_SIZE];
    print_day(sweep_time(entry->sweep), day);
    fputs("<dl>\n", out);
    print_term(out, "spec", key->spec);
    print_term(out, "cpu", key->cpu);
    print_term(out, "compiler", key->compiler);
    print_term(out, "flags", key->flags);
    print_term(out, "templates", key->templates);
    print_term(out, "environment", entry->ranking.items[0].result->environment);
    print_term(out, "measured", day);
    fputs("</dl>\n", out);
}

static void print_choice(FILE *out, const struct report_entry *entry) {
    char reason[REASON_SIZE];
    const struct standing *winner = report_winner(entry);
    ranking_reason(&entry->ranking, reason);
    fputs("<p>", out);
    if (winner != NULL) {
        fputs("Chosen: <code>", out);
        print_escaped(out, winner->result->candidate);
        fputs("</code> ", out);
    }
    fprintf(out, "<span class=\"soft\">(%s).</span></p>\n", reason);
}

static void print_work(FILE *out, const struct report_entry *entry, size_t i) {
    char words[NAME_SIZE];
    report_name(entry, words);
    fprintf(out, "<section class=\"work\" id=\"work%zu\">\n", i + 1);
    print_element(out, "h2", words);
    print_choice(out, entry);
    print_key(out, entry);
    if (entry->measured > 0) {
        fputs("<h3>Candidates</h3>\n<figure>\n", out);
        chart_candidates(entry, out);
        fputs("<figcaption>Whiskers are 95 % intervals of the medians. Filled blue: the winner; "
              "ringed "
              "blue: what cannot be told from the fastest; hollow: the "
              "default.</figcaption></figure>\n",
              out);
        print_standings(out, entry);
        print_maps(out, entry);
    }
    print_history(out, entry);
    print_failed(out, entry);
    fputs("</section>\n", out);
}

/* ---- The page ---- */

static void print_head(FILE *out, const struct report *report) {
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<title>kvmill tuning report</title>\n<style>\n",
          out);
    fputs(report_style, out);
    fputs("</style>\n</head>\n<body>\n<header>\n<h1>kvmill tuning report</h1>\n<p class=\"soft\">",
          out);
    print_escaped(out, report->name);
    if (report->count > 0) {
        fputs(" · ", out);
        print_escaped(out, report->entries[0].sweep->key.cpu);
    }
    fputs("</p>\n</header>\n", out);
}

void report_print_html(const struct report *report, FILE *out) {
    print_head(out, report);
    if (report->count == 0)
        fputs("<section><p>There are no results in it.</p></section>\n", out);
    else
        print_overview(out, report);
    for (size_t i = 0; i < report->count; i++)
        print_work(out, &report->entries[i], i);
    fputs("</body>\n</html>\n", out);
}
