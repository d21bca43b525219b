/* kvmill report: shows tuning results as a page and as tables.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/output.h"
#include "../base/terminal.h"
#include "../base/text.h"
#include "../tune/report.h"
#include "../tune/sweep_file.h"
#include "commands.h"

static const struct option_help options[] = {
    {"db", "DB", "the database, or an export of it", &file_values},
    {"history", "DB", "an older database; may be repeated", &file_values},
    {"o", "DIR", "write the page to DIR/index.html", &directory_values},
    JSON_OPTION,
    {NULL, NULL, NULL, NULL},
};

/* ---- The page ---- */

static bool print_page(const struct report *report, struct text *text, struct error *error) {
    FILE *stream = text_stream(text);
    if (stream == NULL)
        return out_of_memory(error);
    report_print_html(report, stream);
    bool done = !ferror(stream);
    return (fclose(stream) == 0 && done) || out_of_memory(error);
}

static bool write_page(const struct report *report, const char *directory, struct error *error) {
    struct output output = {0};
    int written;
    bool made;
    struct output_file *file = output_add(&output, "index.html", error);
    bool done = file != NULL && print_page(report, &file->text, error) &&
                output_make_directory(directory, &made, error) &&
                output_write(&output, directory, &written, error);
    output_free(&output);
    return done;
}

/* ---- The command ---- */

static bool print_tables(const struct report *report, struct error *error) {
    (void)error;
    report_print_text(report, stdout);
    return true;
}

static bool print_json(const struct report *report, struct error *error) {
    json_watch();
    return json_print(report_json(report), error);
}

static bool show(const struct report_source *sources, int count, const struct options *given,
                 struct error *error) {
    struct report report;
    const char *directory = option_value(given, "o");
    bool json = option_value(given, "json") != NULL;
    bool done = report_open(sources, count, &report, error) &&
                (json ? print_json : print_tables)(&report, error) &&
                (directory == NULL || write_page(&report, directory, error));
    if (done && directory != NULL && !json)
        print_shown(stdout, "%s/index.html\n", directory);
    if (done && report.count > 0)
        say_next("kvmill generate --model CONFIG --tuned", sources[0].name, " -o DIR --build");
    report_free(&report);
    return done;
}

static bool read_source(const char *path, struct report_source *sources, int *count,
                        struct error *error) {
    sources[*count].name = path;
    return sweeps_read_file(path, &sources[(*count)++].sweeps, error);
}

static bool read_sources(const struct options *given, struct report_source *sources, int *count,
                         struct error *error) {
    if (!read_source(option_value(given, "db"), sources, count, error))
        return false;
    for (int i = 0; i < given->count; i++)
        if (strcmp(given->given[i].name, "history") == 0 &&
            !read_source(given->given[i].value, sources, count, error))
            return false;
    return true;
}

static bool check(const struct options *given, struct error *error) {
    const char *db = option_value(given, "db"), *directory = option_value(given, "o");
    if (given->rest_count > 0)
        return fail(error, EXIT_USER, "kvmill report: \"%.200s\"; accepted: options only",
                    given->rest[0]);
    if (db == NULL || *db == '\0')
        return fail(error, EXIT_USER, "kvmill report: no --db; accepted: --db DB");
    return directory == NULL || *directory != '\0' ||
           fail(error, EXIT_USER, "-o: \"\"; accepted: a directory");
}

static bool report(const struct options *given, struct error *error) {
    struct report_source *sources = calloc(MOST_OPTIONS, sizeof *sources);
    int count = 0;
    if (sources == NULL)
        return out_of_memory(error);
    bool done = check(given, error) && read_sources(given, sources, &count, error) &&
                show(sources, count, given, error);
    while (count > 0)
        sweeps_free(&sources[--count].sweeps);
    free(sources);
    return done;
}

const struct command report_command = {
    .name = "report",
    .synopsis = "--db DB [--history DB]... [-o DIR] [--json]",
    .summary = "Show tuning results: tables, and a page with charts.",
    .options = options,
    .run = report,
};
