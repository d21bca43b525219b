/* The sub-commands.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_COMMANDS_H
#define KVMILL_TOOLS_COMMANDS_H

#include "options.h"

extern const struct command generate_command, plan_command, list_command, explain_command,
    isas_command, run_command, bench_command, db_command, report_command, rewrite_command,
    tune_command, calibrate_command, doctor_command, completion_command, llama_command;

/* All commands, in the order of the help; ends with NULL. */
enum { MOST_COMMANDS = 32 };
extern const struct command *const commands[];

/* Returns the command of that name, or NULL. */
const struct command *command_named(const char *name);

#endif
