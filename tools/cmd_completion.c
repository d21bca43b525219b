/* kvmill completion: prints scripts for shells that complete its commands, from the tables of
   options.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "../base/text.h"
#include "commands.h"

static const struct values *const all_values[] = {&file_values,
                                                  &directory_values,
                                                  &model_values,
                                                  &isa_values,
                                                  &cache_values,
                                                  &activation_values,
                                                  &ggml_values,
                                                  &math_values,
                                                  &specialise_values,
                                                  &layout_values,
                                                  &strategy_values,
                                                  &progress_values,
                                                  &step_values,
                                                  &bounds_values,
                                                  &action_values,
                                                  &shell_values,
                                                  NULL};

/* Returns the dashes before an option's name: "-" or "--". */
static const char *dashes(const struct option_help *option) {
    return option->name[1] == '\0' ? "-" : "--";
}

/* ---- bash ---- */

static void print_names_of_commands(const struct command *const *all) {
    for (int i = 0; all[i] != NULL; i++)
        print_shown(stdout, "%s ", all[i]->name);
}

/* Prints "COMMAND OPTION", or "COMMAND " for the arguments, as a pattern of a case. */
static void print_alternative(const char *command, const char *before, const char *option,
                              bool *any) {
    print_shown(stdout, "%s'%s %s%s'", *any ? " | " : "    ", command, before, option);
    *any = true;
}

/* Prints a pattern of all options and arguments that take these values.  Returns false if there are
   none. */
static bool print_pattern(const struct command *const *all, const struct values *values) {
    bool any = false;
    for (int i = 0; all[i] != NULL; i++) {
        const struct option_help *option = all[i]->options;
        if (all[i]->arguments == values)
            print_alternative(all[i]->name, "", "", &any);
        for (; option != NULL && option->name != NULL; option++)
            if (option->values == values)
                print_alternative(all[i]->name, dashes(option), option->name, &any);
    }
    return any;
}

static const char *const bash_places[] = {
    [NO_PLACES] = "", [DIRECTORIES] = "; places=directory", [FILES] = "; places=file"};

static bool print_bash_values(const struct command *const *all, struct error *error) {
    print_shown(stdout, "# _kvmill_values \"COMMAND OPTION\" -- sets words and places.\n"
                        "_kvmill_values() {\n    case $1 in\n");
    for (int i = 0; all_values[i] != NULL; i++) {
        if (!print_pattern(all, all_values[i]))
            continue;
        print_shown(stdout, ") words='");
        if (!values_print(all_values[i], stdout, error))
            return false;
        print_shown(stdout, "'%s ;;\n", bash_places[all_values[i]->places]);
    }
    print_shown(stdout, "    'help ') words='");
    print_names_of_commands(all);
    print_shown(stdout, "' ;;\n    esac\n}\n\n");
    return true;
}

static void print_bash_options(const struct command *const *all) {
    print_shown(stdout, "# _kvmill_options COMMAND -- sets options, and those of them that take "
                        "something.\n_kvmill_options() {\n    case $1 in\n");
    for (int i = 0; all[i] != NULL; i++) {
        const struct option_help *option = all[i]->options;
        print_shown(stdout, "    %s) options='", all[i]->name);
        for (; option != NULL && option->name != NULL; option++)
            print_shown(stdout, "%s%s ", dashes(option), option->name);
        print_shown(stdout, "--help'; with_value=' ");
        for (option = all[i]->options; option != NULL && option->name != NULL; option++)
            if (option->argument != NULL)
                print_shown(stdout, "%s%s ", dashes(option), option->name);
        print_shown(stdout, "' ;;\n");
    }
    print_shown(stdout, "    esac\n}\n\n");
}

/* bash makes "=" a word of its own, and so splits --in NAME=FILE into four words.  In a list, the
   last item is completed. */
static const char bash_function[] =
    "_kvmill() {\n"
    "    local words= places= options= with_value= word=${COMP_WORDS[COMP_CWORD]}\n"
    "    local command=${COMP_WORDS[1]} option=${COMP_WORDS[COMP_CWORD - 1]} line\n"
    "    COMPREPLY=()\n"
    "    [[ $word == = ]] && { word=; option==; }\n"
    "    if [[ $option == = ]]; then\n"
    "        option=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "        [[ $option == -* || COMP_CWORD -lt 4 ]] || option=${COMP_WORDS[COMP_CWORD - 3]}\n"
    "    fi\n"
    "    _kvmill_options \"$command\"\n"
    "    if ((COMP_CWORD == 1)); then\n"
    "        _kvmill_values 'help '\n"
    "        words+=' help --help --version'\n"
    "    elif [[ $with_value == *\" $option \"* ]]; then\n"
    "        _kvmill_values \"$command $option\"\n"
    "    elif [[ $word == -* ]]; then\n"
    "        words=$options\n"
    "    else\n"
    "        _kvmill_values \"$command \"\n"
    "    fi\n"
    "    while IFS= read -r line; do\n"
    "        [[ -z $line ]] || COMPREPLY+=(\"$line\")\n"
    "    done < <(\n"
    "        compgen -P \"${word%\"${word##*,}\"}\" -W \"$words\" -- \"${word##*,}\"\n"
    "        [[ -z $places ]] || compgen -A \"$places\" -- \"$word\"\n"
    "    )\n"
    "    [[ -z $places ]] || compopt -o filenames 2>/dev/null\n"
    "    return 0\n"
    "}\n"
    "complete -F _kvmill kvmill\n";

static bool print_bash(const struct command *const *all, struct error *error) {
    print_shown(stdout, "# Completion of kvmill(1) in bash, as `kvmill completion bash` prints "
                        "it.\n\n");
    if (!print_bash_values(all, error))
        return false;
    print_bash_options(all);
    put_shown(bash_function, stdout);
    return true;
}

/* ---- zsh ---- */

/* Prints words inside single quotes, where zsh gives brackets and colons a meaning. */
static void print_zsh_words(const char *words) {
    for (; *words != '\0'; words++) {
        if (*words == '\'')
            print_shown(stdout, "'\\'");
        else if (strchr("[]:\\", *words) != NULL)
            print_shown(stdout, "\\");
        print_shown(stdout, "%c", *words);
    }
}

static const char *const zsh_places[] = {
    [NO_PLACES] = ";", [DIRECTORIES] = "; _files -/;", [FILES] = "; _files;"};

static bool print_zsh_values(struct error *error) {
    for (int i = 0; all_values[i] != NULL; i++) {
        print_shown(stdout, "_kvmill_%s() { compset -P '*[,=]'; compadd -- ", all_values[i]->name);
        if (!values_print(all_values[i], stdout, error))
            return false;
        print_shown(stdout, "%s }\n", zsh_places[all_values[i]->places]);
    }
    return true;
}

static void print_zsh_option(const struct option_help *option) {
    print_shown(stdout, " \\\n        '*%s%s[", dashes(option), option->name);
    print_zsh_words(option->help);
    print_shown(stdout, "]");
    if (option->argument != NULL) {
        print_shown(stdout, ":");
        print_zsh_words(option->argument);
        print_shown(stdout, ":%s%s", option->values ? "_kvmill_" : "",
                    option->values ? option->values->name : "");
    }
    print_shown(stdout, "'");
}

static void print_zsh_command(const struct command *command) {
    const struct option_help *option = command->options;
    print_shown(stdout, "    %s) _arguments", command->name);
    for (; option != NULL && option->name != NULL; option++)
        print_zsh_option(option);
    print_shown(stdout, " \\\n        '--help[say what the command takes]'");
    if (command->arguments != NULL)
        print_shown(stdout, " \\\n        '*:argument:_kvmill_%s'", command->arguments->name);
    print_shown(stdout, " ;;\n");
}

static void print_zsh_commands(const struct command *const *all) {
    print_shown(stdout, "\n_kvmill_commands() {\n    local -a commands=(");
    for (int i = 0; all[i] != NULL; i++) {
        print_shown(stdout, "\n        '%s:", all[i]->name);
        print_zsh_words(all[i]->summary);
        print_shown(stdout, "'");
    }
    print_shown(stdout, ")\n    _describe command commands\n}\n\n");
}

static bool print_zsh(const struct command *const *all, struct error *error) {
    print_shown(stdout, "#compdef kvmill\n# Completion of kvmill(1) in zsh, as `kvmill completion "
                        "zsh` prints it.\n\n");
    if (!print_zsh_values(error))
        return false;
    print_zsh_commands(all);
    print_shown(stdout, "_kvmill() {\n    if ((CURRENT == 2)); then\n"
                        "        _kvmill_commands\n        return\n    fi\n"
                        "    shift words\n    ((CURRENT--))\n    case $words[1] in\n"
                        "    help) _kvmill_commands ;;\n");
    for (int i = 0; all[i] != NULL; i++)
        print_zsh_command(all[i]);
    print_shown(stdout, "    esac\n}\n\n_kvmill \"$@\"\n");
    return true;
}

/* ---- The command ---- */

static bool completion(const struct options *given, struct error *error) {
    if (given->rest_count != 1)
        return fail(error, EXIT_USER, "kvmill completion: %d arguments; accepted: bash, zsh",
                    given->rest_count);
    const char *shell = given->rest[0];
    if (strcmp(shell, "bash") == 0)
        return print_bash(given->all, error);
    if (strcmp(shell, "zsh") == 0)
        return print_zsh(given->all, error);
    return fail(error, EXIT_USER, "kvmill completion: \"%.40s\"; accepted: bash, zsh", shell);
}

const struct command completion_command = {
    .name = "completion",
    .synopsis = "bash|zsh",
    .summary = "Print a script with which bash or zsh completes commands and options.",
    .arguments = &shell_values,
    .run = completion,
};
