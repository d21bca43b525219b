/* Options of a sub-command, declared once for getopt and for --help.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_OPTIONS_H
#define KVMILL_TOOLS_OPTIONS_H

#include "values.h"

struct option_help {
    const char *name;     /* long name; "o" alone means -o */
    const char *argument; /* the argument's word in the help; NULL: takes no argument */
    const char *help;
    const struct values *values; /* the values it takes, if they can be listed; else NULL */
};

/* The option of commands that can print JSON for other programs. */
#define JSON_OPTION                                                                                \
    { "json", NULL, "print JSON, with the keys that kvmill(1) lists", NULL }

struct options;

struct command {
    const char *name;
    const char *synopsis;
    const char *summary;
    const struct option_help *options; /* ends with a NULL name; NULL: no options */
    const struct values *arguments;    /* values of other arguments; NULL: not listed */
    bool runs_others;                  /* options after another argument are not its own */
    bool (*run)(const struct options *options, struct error *error);
};

/* Parses the options, runs the command and reports errors.  Returns the exit code.  all: ends with
   NULL. */
int command_run(const struct command *command, const struct command *const *all, int argc,
                char **argv);

enum { MOST_OPTIONS = 1024 };

/* The options in the order given, then the other arguments. */
struct options {
    struct {
        const char *name, *value;
    } given[MOST_OPTIONS];
    int count;
    char **rest;
    int rest_count;
    bool help;                        /* --help was printed, so the command must not run */
    const struct command *const *all; /* commands, for the one that lists them */
};

/* Returns the last value given, or NULL.  It is "" for an option without argument. */
const char *option_value(const struct options *options, const char *name);

/* Returns the i-th value of an option that may be given several times, or NULL. */
const char *option_at(const struct options *options, const char *name, int i);

/* Reads an integer option in [least, most].  *value is unchanged if the option was not given. */
bool option_integer(const struct options *options, const char *name, long least, long most,
                    long *value, struct error *error);

/* Reads a time: 90, 90s, 10m, 2h.  *seconds is unchanged if the option was not given. */
bool option_seconds(const struct options *options, const char *name, double *seconds,
                    struct error *error);

/* Flushes standard output.  Returns the exit code. */
int finish_output(void);

#endif
