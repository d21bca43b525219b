/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

#include <string.h>

const struct command *const commands[] = {
    &generate_command, &plan_command,    &list_command,       &explain_command,
    &isas_command,     &run_command,     &bench_command,      &db_command,
    &report_command,   &rewrite_command, &tune_command,       &calibrate_command,
    &llama_command,    &doctor_command,  &completion_command, NULL};
_Static_assert(sizeof commands / sizeof *commands <= MOST_COMMANDS + 1, "they fit");

const struct command *command_named(const char *name) {
    for (int i = 0; commands[i] != NULL; i++)
        if (strcmp(name, commands[i]->name) == 0)
            return commands[i];
    return NULL;
}
