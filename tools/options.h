/* Options of a sub-command: declared once, for getopt and for --help.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_OPTIONS_H
#define KVMILL_TOOLS_OPTIONS_H

#include "values.h"

struct option_help {
    const char *name;     /* long name; "o" alone means -o */
    const char *argument; /* its word in the help, NULL when it takes none */
    const char *help;
    const struct values *values; /* what it takes, where that can be listed; else NULL */
};

/* An option of commands that also print what other programs read. */
#define JSON_OPTION                                                                                \
    { "json", NULL, "print JSON, with the keys that kvmill(1) lists", NULL }

struct options;

struct command {
    const char *name;
    const char *synopsis;
    const char *summary;
    const struct option_help *options; /* ends with a NULL name; NULL = none */
    const struct values *arguments;    /* what is no option; NULL: nothing */
    bool (*run)(const struct options *options, struct error *error);
};

/* Parse, run, report: the exit code. */
int command_run(const struct command *command, int argc, char **argv);

enum { MOST_OPTIONS = 1024 };

/* What was given, in order; then the other arguments. */
struct options {
    struct {
        const char *name, *value;
    } given[MOST_OPTIONS];
    int count;
    char **rest;
    int rest_count;
    bool help; /* --help was printed: the command is done */
};

bool options_parse(const struct command *command, int argc, char **argv, struct options *options,
                   struct error *error);

/* The last value given, or NULL; "" for an option without argument. */
const char *option_value(const struct options *options, const char *name);

/* The i-th value given of an option that may be given several times, or NULL. */
const char *option_at(const struct options *options, const char *name, int i);

/* An integer option in [least, most]; *value stays when it was not given. */
bool option_integer(const struct options *options, const char *name, long least, long most,
                    long *value, struct error *error);

/* A time: 90, 90s, 10m, 2h; *seconds stays when it was not given. */
bool option_seconds(const struct options *options, const char *name, double *seconds,
                    struct error *error);

/* Flush standard output; returns the exit code. */
int finish_output(void);

#endif
