/* Output for terminals only: colours, progress, and what to do next.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_TERMINAL_H
#define KVMILL_BASE_TERMINAL_H

#include <stdio.h>

/* put_shown in a colour, if the stream is a terminal with colours and NO_COLOR is not set. */
enum colour { PLAIN, BOLD, RED, YELLOW };
void put_coloured(const char *text, enum colour colour, FILE *stream);

/* Prints "next: BEFORE PATH AFTER", a command that the user may want to type next, to standard
   error.  Only if standard output is a terminal, too: a program that reads the output needs no
   advice.  The path is quoted for the shell if necessary. */
void say_next(const char *before, const char *path, const char *after);

/* Prints "DOING WHAT ... " to standard error if that is a terminal, before a step that takes long;
   say_done removes it. */
void say_doing(const char *doing, const char *what);
void say_done(void);

#endif
