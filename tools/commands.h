/* The sub-commands.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_COMMANDS_H
#define KVMILL_TOOLS_COMMANDS_H

#include "options.h"

extern const struct command generate_command, plan_command, list_command, explain_command,
    isas_command, run_command, bench_command, db_command, report_command, rewrite_command,
    tune_command;

#endif
