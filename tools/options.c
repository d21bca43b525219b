/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/terminal.h"
#include "../base/text.h"

static int option_count(const struct option_help *options) {
    int count = 0;
    while (options && options[count].name)
        count++;
    return count;
}

/* ---- Help ---- */

static void print_option(const struct option_help *option) {
    char words[64];
    snprintf(words, sizeof words, "%s%s%s%s", option->name[1] ? "--" : "-", option->name,
             option->argument ? " " : "", option->argument ? option->argument : "");
    print_shown(stdout, "  %-26s %s\n", words, option->help);
}

static void print_help(const struct command *command) {
    print_shown(stdout, "Usage: kvmill %s%s%s\n\n%s\n", command->name,
                *command->synopsis ? " " : "", command->synopsis, command->summary);
    int count = option_count(command->options);
    if (count > 0)
        print_shown(stdout, "\nOptions:\n");
    for (int i = 0; i < count; i++)
        print_option(&command->options[i]);
}

/* ---- Parsing ---- */

struct table {
    struct option options[32];
    char letters[72];
};

/* Fills getopt's tables.  Options of one letter are short, others long. */
static void fill_table(struct table *table, const struct command *command) {
    const struct option_help *help = command->options;
    char *letter = table->letters;
    if (command->runs_others)
        *letter++ = '+'; /* end at the first argument */
    *letter++ = ':';     /* distinguish a missing argument from an unknown option */
    int count = option_count(help);
    for (int i = 0; i < count; i++) {
        table->options[i] = (struct option){help[i].name, help[i].argument != NULL, NULL, 256 + i};
        if (help[i].name[1] == '\0') {
            *letter++ = help[i].name[0];
            if (help[i].argument)
                *letter++ = ':';
        }
    }
    table->options[count] = (struct option){"help", 0, NULL, 'h'};
    *letter++ = 'h';
}

static const char *name_of(const struct option_help *help, int code) {
    if (code >= 256)
        return help[code - 256].name;
    int count = option_count(help);
    for (int i = 0; i < count; i++)
        if (help[i].name[0] == code && help[i].name[1] == '\0')
            return help[i].name;
    return "";
}

static bool refuse_option(const struct command *command, char *const *argv, int code,
                          struct error *error) {
    const char *names[40] = {NULL};
    int count = option_count(command->options);
    const char *word = argv[optind - 1];
    if (code == ':')
        return fail(error, EXIT_USER, "kvmill %s: option %s needs an argument", command->name,
                    word);
    for (int i = 0; i < count; i++)
        names[i] = command->options[i].name;
    const char *nearest = nearest_word(word + strspn(word, "-"), names);
    return fail(error, EXIT_USER,
                "kvmill %s: unknown option %s; %s%s%s`kvmill %s --help` lists them", command->name,
                word, nearest ? "did you mean --" : "", nearest ? nearest : "", nearest ? "? " : "",
                command->name);
}

static bool options_parse(const struct command *command, int argc, char **argv,
                          struct options *options, struct error *error) {
    struct table table = {0};
    int code;
    *options = (struct options){0};
    fill_table(&table, command);
    optind = 1;
    opterr = 0;
    while ((code = getopt_long(argc, argv, table.letters, table.options, NULL)) != -1) {
        if (code == '?' || code == ':')
            return refuse_option(command, argv, code, error);
        if (code == 'h') {
            print_help(command);
            options->help = true;
            return true;
        }
        if (options->count == MOST_OPTIONS)
            return fail(error, EXIT_USER, "kvmill %s: more than %d options", command->name,
                        MOST_OPTIONS);
        options->given[options->count].name = name_of(command->options, code);
        options->given[options->count++].value = optarg ? optarg : "";
    }
    options->rest = argv + optind;
    options->rest_count = argc - optind;
    return true;
}

const char *option_value(const struct options *options, const char *name) {
    for (int i = options->count - 1; i >= 0; i--)
        if (strcmp(options->given[i].name, name) == 0)
            return options->given[i].value;
    return NULL;
}

const char *option_at(const struct options *options, const char *name, int i) {
    for (int at = 0; at < options->count; at++)
        if (strcmp(options->given[at].name, name) == 0 && i-- == 0)
            return options->given[at].value;
    return NULL;
}

bool option_integer(const struct options *options, const char *name, long least, long most,
                    long *value, struct error *error) {
    const char *text = option_value(options, name);
    char *end;
    if (text == NULL)
        return true;
    errno = 0;
    *value = strtol(text, &end, 10);
    if (end != text && *end == '\0' && errno == 0 && *value >= least && *value <= most)
        return true;
    return fail(error, EXIT_USER, "--%s: \"%.40s\"; accepted: %ld to %ld", name, text, least, most);
}

bool option_seconds(const struct options *options, const char *name, double *seconds,
                    struct error *error) {
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}};
    const char *text = option_value(options, name);
    char *end;
    if (text == NULL)
        return true;
    double number = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (end != text && strcmp(end, units[i].unit) == 0 && number > 0 && number < 1e6) {
            *seconds = number * units[i].seconds;
            return true;
        }
    return fail(error, EXIT_USER, "--%s is \"%s\"; accepted: 90, 90s, 10m, 2h", name, text);
}

/* ---- Ending ---- */

/* Whether the message begins with "file:", perhaps with line and column, which editors can open. */
static bool names_file(const char *text) {
    size_t length = strcspn(text, ": ");
    return text[0] != '-' && text[0] != '"' && length > 0 && text[length] == ':';
}

/* Prints a message, with the program's name first unless it names a file.  Control characters are
   escaped, because names may come from files. */
static int report(const struct error *error) {
    bool has_name = strncmp(error->text, "kvmill ", 7) == 0 || names_file(error->text);
    if (!has_name)
        put_coloured("kvmill:", RED, stderr);
    print_shown(stderr, "%s%s\n", has_name ? "" : " ", error->text);
    return error->exit_code;
}

/* Flushes standard output.  If an earlier write failed, errno has changed since, so the reason is
   guessed. */
int finish_output(void) {
    struct error error;
    bool failed_before = ferror(stdout) != 0;
    if (fflush(stdout) == 0 && !failed_before)
        return 0;
    if (failed_before)
        errno = fcntl(STDOUT_FILENO, F_GETFL) < 0 ? EBADF : ENOSPC;
    fail_errno(&error, "write", "standard output");
    return report(&error);
}

int command_run(const struct command *command, const struct command *const *all, int argc,
                char **argv) {
    struct options options;
    struct error error;
    if (!options_parse(command, argc, argv, &options, &error))
        return report(&error);
    options.all = all;
    if (!options.help && !command->run(&options, &error)) {
        fflush(stdout);
        return report(&error);
    }
    return finish_output();
}
