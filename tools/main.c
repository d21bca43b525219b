/* The kvmill command.

   SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <kvmill.h>

#include "../base/json.h"
#include "../base/text.h"
#include "commands.h"

static int print_usage(void) {
    print_shown(stdout, "Usage: kvmill COMMAND [options]\n\n"
                        "Generates CPU kernels for the key/value cache of language models, for the "
                        "shapes you have.\n\n"
                        "Commands (`kvmill help COMMAND` lists their options):\n");
    for (int i = 0; commands[i] != NULL; i++)
        print_shown(stdout, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    print_shown(stdout, "\nDocumentation: kvmill(1), kvmill-specs(5), kvmill(3).\n");
    return finish_output();
}

static int print_version(void) {
    print_shown(stdout, "kvmill %s\nLicence: Apache-2.0\n", KVMILL_VERSION);
    return finish_output();
}

static int refuse(const char *word) {
    const char *names[MOST_COMMANDS + 1] = {NULL};
    for (int i = 0; commands[i] != NULL; i++)
        names[i] = commands[i]->name;
    char suggestion[SUGGESTION_SIZE];
    suggest_word(word, names, suggestion);
    print_shown(stderr, "kvmill: unknown command \"%.100s\"; %s`kvmill --help` lists them\n", word,
                suggestion);
    return EXIT_USER;
}

/* Runs `kvmill help COMMAND`. */
static int help(const char *name) {
    char option[] = "--help", *arguments[] = {option, option, NULL};
    const struct command *command = command_named(name);
    return command != NULL ? command_run(command, commands, 2, arguments) : refuse(name);
}

/* Opens standard streams that are closed; otherwise a file could get the descriptor, and the
   output.  The substitutes fail: standard input cannot be read, and the other streams cannot be
   written. */
static void fill_standard_streams(void) {
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++)
        if (fcntl(stream, F_GETFD) < 0)
            open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv) {
    fill_standard_streams();
    if (!isatty(STDERR_FILENO)) /* write whole lines: other ranks write there, too */
        setvbuf(stderr, NULL, _IOLBF, BUFSIZ);
    json_watch_memory();
    signal(SIGXFSZ, SIG_IGN); /* so that a write fails, with a message that names the file */
    if (argc < 2) {
        print_shown(stderr, "kvmill: no command; `kvmill --help` lists them\n");
        return EXIT_USER;
    }
    bool is_help = strcmp(argv[1], "help") == 0;
    if (is_help && argc > 2)
        return help(argv[2]);
    if (is_help || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return print_usage();
    if (strcmp(argv[1], "--version") == 0)
        return print_version();
    const struct command *command = command_named(argv[1]);
    return command != NULL ? command_run(command, commands, argc - 1, argv + 1) : refuse(argv[1]);
}
