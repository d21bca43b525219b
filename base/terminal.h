/* What is said on terminals only: colours, what is being done, and what to do next.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_TERMINAL_H
#define KVMILL_BASE_TERMINAL_H

#include <stdio.h>

/* As put_shown, in that colour if the stream is a terminal that has colours and NO_COLOR is not
   set. */
enum colour { PLAIN, BOLD, RED, YELLOW };
void put_coloured(const char *text, enum colour colour, FILE *stream);

/* "next: BEFORE PATH AFTER", what a user may want to type now, on standard error if that and
   standard output are a terminal: a program that reads the output needs no advice.  The path is
   quoted where a shell wants it to be. */
void say_next(const char *before, const char *path, const char *after);

/* "DOING WHAT ... " on standard error if that is a terminal, for what takes a while; say_done
   removes it. */
void say_doing(const char *doing, const char *what);
void say_done(void);

#endif
