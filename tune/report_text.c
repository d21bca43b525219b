/* The report for a terminal.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "../base/text.h"
#include "report.h"
#include "sweep_file.h"

enum { SHOWN = 8 }; /* candidates shown of a sweep */

/* ---- All entries ---- */

static bool is_beyond(const struct standing *standing) {
    return standing->share > BEYOND_LIMIT;
}

static void print_time(const struct standing *standing, FILE *stream) {
    char text[FIGURE_SIZE] = "-";
    if (standing != NULL && standing->time.count > 0)
        print_seconds(standing->time.median, "u", text);
    fprintf(stream, " %11s", text);
}

static void print_share(const struct standing *standing, FILE *stream) {
    if (standing != NULL && standing->share > 0)
        fprintf(stream, " %6.2f%s", standing->share, is_beyond(standing) ? "?" : " ");
    else
        fprintf(stream, " %6s ", "-");
}

static void print_gain(const struct summary *gain, FILE *stream) {
    char text[FIGURE_SIZE] = "-";
    if (gain->median > 0)
        snprintf(text, sizeof text, "%.2f (%.2f to %.2f)", gain->median, gain->low, gain->high);
    fprintf(stream, "  %-20s", text);
}

static int find_width(const struct report *report) {
    char words[NAME_SIZE];
    int width = (int)strlen("WORK");
    for (size_t i = 0; i < report->count; i++) {
        report_name(&report->entries[i], words);
        width = (int)strlen(words) > width ? (int)strlen(words) : width;
    }
    return width;
}

static void print_entry(const struct report_entry *entry, int width, FILE *stream) {
    static const struct summary none;
    char words[NAME_SIZE];
    const struct standing *winner = report_winner(entry);
    const struct standing compared = report_compared(entry, winner);
    report_name(entry, words);
    fprintf(stream, "%-*s", width, words);
    print_time(&compared, stream);
    print_time(winner, stream);
    print_share(&compared, stream);
    print_share(winner, stream);
    print_gain(winner != NULL ? &winner->gain : &none, stream);
    fprintf(stream, " %s\n",
            winner == NULL               ? "(no default)"
            : entry->ranking.winner == 0 ? "(default)"
                                         : winner->result->candidate);
}

/* ---- One entry ---- */

static const char *mark_of(const struct report_entry *entry, size_t i) {
    return (int)i == entry->ranking.winner              ? "*"
           : entry->ranking.items[i].result->is_default ? "d"
                                                        : "";
}

static void print_standing(const struct report_entry *entry, size_t i, FILE *stream) {
    const struct standing *s = &entry->ranking.items[i];
    const struct standing compared = report_compared(entry, s);
    fprintf(stream, "  %1s", mark_of(entry, i));
    print_time(s, stream);
    print_time(&compared, stream);
    print_share(s, stream);
    print_gain(&s->gain, stream);
    fprintf(stream, " %9lld  %s\n", (long long)s->result->code_bytes, s->result->candidate);
}

/* Prints the default, the fastest candidates, and the winner even if it is not among these. */
static void print_standings(const struct report_entry *entry, FILE *stream) {
    fprintf(stream, "  %1s %11s %11s %6s   %-20s %9s  %s\n", "", "TIME", "DEFAULT", "LIMIT",
            "SPEED", "CODE", "CANDIDATE");
    for (size_t i = 0; i < entry->ranking.count; i++)
        if ((i < SHOWN || (int)i == entry->ranking.winner) &&
            entry->ranking.items[i].time.count > 0)
            print_standing(entry, i, stream);
}

static bool any_beyond(const struct report *report) {
    for (size_t i = 0; i < report->count; i++)
        for (size_t j = 0; j < report->entries[i].ranking.count; j++)
            if (is_beyond(&report->entries[i].ranking.items[j]))
                return true;
    return false;
}

static void print_past(const struct report_entry *entry, FILE *stream) {
    char day[FIGURE_SIZE], preset[FIGURE_SIZE], winner[FIGURE_SIZE];
    for (int i = 0; entry->past_count > 1 && i < entry->past_count; i++) {
        const struct report_past *past = &entry->past[i];
        print_day(past->measured, day);
        print_seconds(past->preset, "u", preset);
        print_seconds(past->winner, "u", winner);
        print_shown(stream, "  %s  default %s, winner %s  %s\n", day, preset, winner, past->source);
    }
}

static void print_details(const struct report_entry *entry, FILE *stream) {
    char words[NAME_SIZE], reason[REASON_SIZE], failures[FAILURES_SIZE];
    const struct sweep_key *key = &entry->sweep->key;
    report_name(entry, words);
    ranking_reason(&entry->ranking, reason);
    print_failures(entry, failures);
    fprintf(stream, "\n%s\n  %s\n  %d candidates measured, failures: %s\n  choice (*): %s\n", words,
            key->spec, entry->measured, failures, reason);
    print_standings(entry, stream);
    print_past(entry, stream);
}

void report_print_text(const struct report *report, FILE *stream) {
    if (report->count == 0) {
        fprintf(stream, "no results; kvmill tune adds them\n");
        return;
    }
    int width = find_width(report);
    fprintf(stream, "%-*s %11s %11s %6s  %6s   %-20s %s\n", width, "WORK", "DEFAULT", "WINNER",
            "LIMIT", "", "SPEED", "CANDIDATE");
    for (size_t i = 0; i < report->count; i++)
        print_entry(&report->entries[i], width, stream);
    fprintf(
        stream,
        "\nDEFAULT: in the same races as what it is compared with.  LIMIT: share of what the "
        "machine can do, of the default\nand of the winner%s.\nSPEED: the winner's over the "
        "default's, median of the rounds, with its 95 %% interval; the geometric mean of all is "
        "%.2f.\n",
        any_beyond(report) ? "; ?: beyond a limit that was measured while something else ran" : "",
        report_mean_gain(report));
    for (size_t i = 0; i < report->count; i++)
        print_details(&report->entries[i], stream);
}
