/* kvmill doctor: describes the machine and the tools on it, and suggests improvements.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <kvmill.h>

#include "../base/find_program.h"
#include "../base/json.h"
#include "../base/terminal.h"
#include "../defs/dtype.h"
#include "../defs/format.h"
#include "../gen/m4.h"
#include "../gen/places.h"
#include "../runtime/core/calibration.h"
#include "../tune/environment.h"
#include "../tune/machine.h"
#include "../tune/sweep_file.h"
#include "built_pack.h"
#include "commands.h"
#include "make.h"

/* The document.  The text is printed from it, too. */
struct findings {
    json_t *machine, *found, *steps, *advice;
};

static void advise(struct findings *findings, const char *grade, const char *words) {
    json_array_append_new(findings->advice,
                          json_pack("{s:s, s:s}", "grade", grade, "words", words));
}

static void set_text(json_t *object, const char *key, const char *text) {
    json_object_set_new(object, key, json_string(text));
}

/* ---- The machine ---- */

static void set_isas(struct findings *findings) {
    const char *name, *cap = getenv("KVMILL_ISA");
    json_t *isas = json_array();
    for (size_t i = 0; (name = kvmill_isa_name(i)) != NULL; i++)
        if (kvmill_isa_usable(name))
            json_array_append_new(isas, json_string(name));
    json_object_set_new(findings->machine, "instruction_sets", isas);
    if (cap == NULL || *cap == '\0')
        return;
    set_text(findings->machine, "capped_at", cap);
    advise(findings, "warning",
           "KVMILL_ISA is set, which rules out better instruction sets; unset it for full speed");
}

static void examine_machine(struct findings *findings) {
    static const char *const caches[MOST_CACHES] = {"level_1_data_cache_kib", "level_2_cache_kib",
                                                    "level_3_cache_kib"};
    struct environment environment;
    struct remark remarks[MOST_REMARKS];
    environment_read("", &environment);
    set_text(findings->machine, "processor", environment.cpu);
    json_object_set_new(findings->machine, "processors", json_integer(environment.processors));
    for (int i = 0; i < MOST_CACHES; i++)
        if (environment.cache_kib[i] > 0)
            json_object_set_new(findings->machine, caches[i],
                                json_integer(environment.cache_kib[i]));
    set_isas(findings);
    set_text(findings->machine, "governor", environment.governor);
    set_text(findings->machine, "turbo", environment.turbo);
    set_text(findings->machine, "virtual_machine", environment.virtual);
    int count = environment_remarks(&environment, environment.processors, remarks);
    for (int i = 0; i < count; i++)
        advise(findings, grade_word(remarks[i].grade), remarks[i].text);
}

/* ---- Programs and files ---- */

/* Records a program's first line of output, or null if it is not found. */
static bool find_program(const char *command, const char *key, struct findings *findings,
                         bool *found, struct error *error) {
    char words[PROGRAM_SIZE];
    if (!program_words(command, words, error))
        return false;
    *found = strcmp(words, "unknown") != 0;
    json_object_set_new(findings->found, key, *found ? json_string(words) : json_null());
    return true;
}

static bool find_tool(const char *program, const char *key, const char *advice,
                      struct findings *findings, struct error *error) {
    struct text command = {0};
    bool found = true;
    bool done = (text_print(&command, "%s --version", program) || out_of_memory(error)) &&
                find_program(command.data, key, findings, &found, error);
    text_free(&command);
    if (done && !found)
        advise(findings, "unfit", advice);
    return done;
}

/* Records Python's version, and the path of the kvmill package if it is installed. */
static bool find_python(struct findings *findings, struct error *error) {
    static const char *const asked[][2] = {
        {"python", "--version"},
        {"python_module", "-c 'import kvmill; print(kvmill.__file__)'"},
    };
    bool done = true, found = true;
    for (int i = 0; done && found && i < 2; i++) {
        struct text command = {0};
        done = (text_print(&command, "%s %s 2>/dev/null", python_program(), asked[i][1]) ||
                out_of_memory(error)) &&
               find_program(command.data, asked[i][0], findings, &found, error);
        text_free(&command);
    }
    return done;
}

static bool find_programs(struct findings *findings, struct error *error) {
    return find_tool(m4_program(), "m4",
                     "no GNU m4: nothing can be generated; install it, or name it with KVMILL_M4",
                     findings, error) &&
           find_tool(make_program(), "make",
                     "no make: packs cannot be built; install GNU make, or name it with "
                     "KVMILL_MAKE",
                     findings, error) &&
           find_tool(program_named("CC", "cc"), "compiler",
                     "no C compiler: packs cannot be built; install gcc or clang, or name one "
                     "with CC",
                     findings, error) &&
           find_python(findings, error);
}

/* Records the calibration: its file and the value of each number. */
static void find_calibration(struct findings *findings) {
    const char *file = kvmill_calibration_file();
    struct calibration used = *kvmill_calibration();
    char numbers[256] = "";
    for (int i = 0; i < CALIBRATION_NUMBERS; i++) {
        const struct calibration_number *number = &kvmill_calibration_numbers[i];
        size_t length = strlen(numbers);
        snprintf(numbers + length, sizeof numbers - length, "%s%s %" PRId64, i > 0 ? ", " : "",
                 number->name, *kvmill_calibration_at(&used, number));
    }
    set_text(findings->found, "calibration",
             file != NULL ? file : "presets of this maker's processors");
    set_text(findings->found, "calibrated_numbers", numbers);
    if (file == NULL)
        advise(findings, "note",
               "this processor has not been measured; kvmill calibrate does that, once");
}

/* Counts the tuning results in tuned/ that are valid for this processor, compiler and templates. */
static bool find_tuned(struct findings *findings, struct error *error) {
    struct text path = {0};
    struct sweeps sweeps = {0};
    struct machine machine;
    struct error ignored;
    size_t misfits[MISFITS] = {0}, fitting = 0;
    if (!text_print(&path, "%s/tuned", data_directory()))
        return out_of_memory(error);
    bool readable =
        machine_read(&machine, &ignored) && sweeps_read_files(path.data, &sweeps, &ignored);
    if (readable)
        machine_filter(&machine, REFUSE_ALL, &sweeps, misfits);
    for (size_t i = 0; i < sweeps.count; i++)
        fitting += sweeps.items[i].count;
    json_object_set_new(findings->found, "tuning_results", json_integer((json_int_t)fitting));
    if (fitting == 0)
        advise(findings, "note",
               "no tuning results apply to this processor and compiler: kvmill tune --model "
               "CONFIG --db tuning.sqlite measures, and generate --tuned tuning.sqlite uses them");
    sweeps_free(&sweeps);
    text_free(&path);
    return true;
}

static void find_templates(struct findings *findings) {
    char file[4200];
    snprintf(file, sizeof file, "%s/templates/lib/words.m4", data_directory());
    bool found = access(file, R_OK) == 0;
    json_object_set_new(findings->found, "templates",
                        found ? json_string(data_directory()) : json_null());
    if (!found)
        advise(findings, "unfit",
               "no templates: nothing can be generated; KVMILL_DATADIR names the directory that "
               "has templates/");
}

/* ---- Steps of decoding ---- */

/* Describes the plan of a decoding step with the heads of Llama 3.1 8B, Mistral 7B, Qwen3 8B and
   many other models. */
static void describe_step(const kvmill_pack *pack, DLDataType type, char *text, size_t size) {
    kvmill_cache_attention op;
    kvmill_plan *plan;
    kvmill_error reason;
    kvmill_cache_attention_init(&op, sizeof op);
    op.num_heads = 32;
    op.num_kv_heads = 8;
    op.head_dim = 128;
    op.cache_layout = 1;
    op.T1 = op.T2 = type;
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = &pack, .pack_count = pack != NULL};
    if (kvmill_plan_multi_head_cache_attention(&op, &options, &plan, &reason) != KVMILL_OK) {
        snprintf(text, size, "%s", reason.message);
        return;
    }
    kvmill_plan_describe(plan, text, size);
    kvmill_plan_destroy(plan);
}

/* Converts "ATTENTION; write K with KERNEL; ..." to an object: the words before the first "; ", and
   the kernels. */
static json_t *json_of_step(const char *text) {
    json_t *kernels = json_array();
    const char *end = strstr(text, "; ");
    json_t *words = json_stringn(text, end != NULL ? (size_t)(end - text) : strlen(text));
    while (end != NULL) {
        const char *from = end + 2;
        end = strstr(from, "; ");
        json_array_append_new(kernels,
                              json_stringn(from, end ? (size_t)(end - from) : strlen(from)));
    }
    return json_pack("{s:o, s:o}", "words", words, "kernels", kernels);
}

/* Whether a step runs portable kernels.  Kernels for masks, which few steps have, do not count. */
static bool runs_portable(const char *text) {
    const char *portable = strstr(text, "__portable"), *mask = strstr(text, "; with a mask");
    return portable != NULL && (mask == NULL || portable < mask);
}

/* Examines a step for each type of activations, with a cache of the same type. */
static void examine_steps(const kvmill_pack *pack, struct findings *findings) {
    const char *words[KVMILL_MOST_FORMATS + 1];
    bool portable = false;
    kvmill_activation_words(words);
    for (int i = 0; words[i] != NULL; i++) {
        char text[2048];
        describe_step(pack, kvmill_dtype_by_name(words[i])->dl, text, sizeof text);
        json_array_append_new(findings->steps, json_of_step(text));
        portable |= runs_portable(text);
    }
    if (portable)
        advise(findings, "warning",
               "some of these steps run portable kernels: kvmill generate --model CONFIG -o DIR "
               "--build makes the kernels of your model");
}

static void examine_pack(struct findings *findings) {
    struct built_pack built = {.file = -1};
    struct error why;
    bool loaded =
        access(default_pack(), R_OK) == 0 && built_pack_load(default_pack(), &built, &why);
    json_object_set_new(findings->found, "default_pack",
                        loaded ? json_string(default_pack()) : json_null());
    if (!loaded)
        advise(findings, "warning",
               "no default pack: plans run portable kernels unless you pass a pack; make install "
               "installs the default pack");
    examine_steps(built.pack, findings);
    built_pack_free(&built);
}

/* ---- The command ---- */

/* Prints the value of a member. */
static void print_value(const json_t *value) {
    size_t i;
    json_t *item;
    if (json_is_string(value))
        put_shown(json_string_value(value), stdout);
    else if (json_is_integer(value))
        print_shown(stdout, "%lld", (long long)json_integer_value(value));
    else if (json_is_null(value))
        print_shown(stdout, "not found");
    json_array_foreach(value, i, item)
        print_shown(stdout, "%s%s", i ? ", " : "", json_string_value(item));
    print_shown(stdout, "\n");
}

/* Prints an object's members; keys are printed with spaces for underscores. */
static void print_members(const char *title, json_t *object) {
    const char *key;
    json_t *value;
    print_shown(stdout, "%s\n", title);
    json_object_foreach(object, key, value) {
        char words[40];
        snprintf(words, sizeof words, "%s", key);
        for (char *c = words; (c = strchr(c, '_')) != NULL;)
            *c = ' ';
        print_shown(stdout, "  %-23s ", words);
        print_value(value);
    }
}

static void print_step(const json_t *step) {
    size_t i;
    json_t *kernel;
    print_shown(stdout, "\nA step of decoding: %s\n",
                json_string_value(json_object_get(step, "words")));
    json_array_foreach(json_object_get(step, "kernels"), i, kernel)
        print_shown(stdout, "  %s\n", json_string_value(kernel));
}

static void print_advice(const json_t *advice) {
    const char *grade = json_string_value(json_object_get(advice, "grade"));
    bool unfit = strcmp(grade, grade_word(GRADE_UNFIT)) == 0;
    bool warning = strcmp(grade, grade_word(GRADE_WARNING)) == 0;
    print_shown(stdout, "  ");
    put_coloured(grade, unfit ? RED : warning ? YELLOW : PLAIN, stdout);
    print_shown(stdout, "%*s %s\n", (int)(8 - strlen(grade)), "",
                json_string_value(json_object_get(advice, "words")));
}

static void print_findings(const struct findings *findings) {
    size_t i;
    json_t *item;
    print_members("Machine", findings->machine);
    print_members("\nFound", findings->found);
    json_array_foreach(findings->steps, i, item) print_step(item);
    print_shown(stdout, "\nWhat to do better\n");
    json_array_foreach(findings->advice, i, item) print_advice(item);
    if (json_array_size(findings->advice) == 0)
        print_shown(stdout, "  nothing\n");
}

static bool print_document(struct findings *findings, bool json, struct error *error) {
    json_t *document =
        json_pack("{s:O, s:O, s:O, s:O}", "machine", findings->machine, "found", findings->found,
                  "steps", findings->steps, "advice", findings->advice);
    if (json)
        return json_print(document, error);
    json_decref(document);
    if (json_lacked())
        return out_of_memory(error);
    print_findings(findings);
    return true;
}

static bool doctor(const struct options *given, struct error *error) {
    if (given->rest_count > 0)
        return fail(error, EXIT_USER, "kvmill doctor: \"%.200s\"; accepted: options only",
                    given->rest[0]);
    json_watch();
    struct findings findings = {json_object(), json_object(), json_array(), json_array()};
    set_text(findings.found, "version", KVMILL_VERSION);
    examine_machine(&findings);
    find_templates(&findings);
    bool done = find_programs(&findings, error) && find_tuned(&findings, error);
    if (done) {
        find_calibration(&findings);
        examine_pack(&findings);
        done = print_document(&findings, option_value(given, "json") != NULL, error);
    }
    json_decref(findings.machine);
    json_decref(findings.found);
    json_decref(findings.steps);
    json_decref(findings.advice);
    return done;
}

static const struct option_help options[] = {JSON_OPTION, {NULL, NULL, NULL, NULL}};

const struct command doctor_command = {
    .name = "doctor",
    .synopsis = "[--json]",
    .summary = "Describe this machine and what was found on it, and say what to improve.",
    .options = options,
    .run = doctor,
};
