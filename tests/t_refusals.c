/* Refusals of calls, with their status and words; a refusal must change no byte of any tensor.  The
   rows are in tests/tables/refusals/, the calls are those of t_described.

   A row that names a call has columns: its name, "call", an op or the name of a call that it
   varies, settings.  Other rows have: calls, when the call is refused, the status, the change, the
   message, in which "..." stands for any text.  Settings and changes are words:

     num_heads=6            an attribute
     B=2                    a dim of the call, in capital letters
     cache:is=C,L,KV        the tensor's shape, in such dims;  :given  :none  :first=S  :step=4
     cache:type=int8        its type;  :shape=2,3  :.2=5 (a dim)  :[3]=7 (a number)
     cache:null             no tensor;  :surplus, and the words of tests/settings.h
     cache:at=query+16      its data is another tensor's, 16 bytes further
     batch=2                a limit of a flow's step; also pages and cache_pages
     kernels=store,plain    options.least_isa is scalar, and the only pack is scalar: kernels with
                            these words in their symbols

   When: "plan": the plan is refused, for the tensors themselves.  "run": the run is refused, of a
   plan for the unchanged call; "open": of a plan with open dims; "rows": of a plan with the first
   dim and the last but one open; "bare": of a plan without outputs that a run must have.  "fine":
   not refused.

   SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE
#include "common.h"
#include "described.h"
#include "packs.h"

#include <sys/mman.h>

enum { MOST_CALLS = 64, MOST_ROWS = 40 };

/* ---- Calls ---- */

struct call {
    char name[32], settings[1024];
    const struct op *op;
};

static struct call calls[MOST_CALLS];

static const struct call *find_call(const char *name) {
    for (int i = 0; i < MOST_CALLS && calls[i].op != NULL; i++)
        if (strcmp(calls[i].name, name) == 0)
            return &calls[i];
    return NULL;
}

static const struct op *op_named(const char *name) {
    for (const struct described_case *by = described_cases; by->name != NULL; by++)
        if (strcmp(by->name, name) == 0)
            return described_op(by);
    return NULL;
}

static void define_call(const char *name, const char *of, const char *settings) {
    const struct call *varied = find_call(of);
    struct call *call = calls;
    while (call->op != NULL)
        call++;
    must(call != &calls[MOST_CALLS - 1], "too many calls");
    call->op = varied ? varied->op : op_named(of);
    must(call->op != NULL, of);
    snprintf(call->name, sizeof call->name, "%s", name);
    must(snprintf(call->settings, sizeof call->settings, "%s %s", varied ? varied->settings : "",
                  settings) < (int)sizeof call->settings,
         "a call says too much");
}

/* ---- A changed scene ---- */

struct bend {
    struct scene scene;
    struct described_case by;
    struct described_tensor rows[MOST_ROWS];
    char words[MOST_ROWS][32];
    int word_count;
    struct bent changed[MOST_TENSORS];
};

static const char *keep(struct bend *bend, const char *word) {
    char *kept = bend->words[bend->word_count++];
    if (bend->word_count == MOST_ROWS || strlen(word) >= sizeof *bend->words)
        bail_out("too many words, or too long: %s", word);
    strcpy(kept, word);
    for (char *c = kept; *c != '\0'; c++)
        *c = *c == ',' ? ' ' : *c;
    return kept;
}

static struct described_tensor *row_of(struct bend *bend, const char *name) {
    struct described_tensor *row = bend->rows;
    while (row->name != NULL && strcmp(row->name, name) != 0)
        row++;
    if (row->name == NULL)
        row->name = keep(bend, name);
    return row;
}

/* Whether the word describes a tensor before it is made. */
static bool is_foreseen(const char *what) {
    char word[40];
    snprintf(word, sizeof word, " %s ", what);
    return strstr(" is first step given none ", word) != NULL;
}

static void foresee(struct described_tensor *row, const char *what, const char *value) {
    if (strcmp(what, "is") == 0)
        row->shape = value;
    else if (strcmp(what, "first") == 0)
        row->first = value;
    else if (strcmp(what, "step") == 0)
        row->step = value;
    else if (strcmp(what, "given") == 0)
        row->given = true;
    else
        row->shape = "?";
}

static const struct op_tensor *tensor_of(const struct scene *scene, const char *name) {
    for (int i = 0; i < scene->op->tensor_count; i++)
        if (strcmp(scene->op->tensors[i].name, name) == 0 &&
            scene->op->tensors[i].index < scene->by->count)
            return &scene->op->tensors[i];
    bail_out("%s has no tensor %s", scene->op->name, name);
}

/* Returns a changeable copy of the call's tensor. */
static struct bent *changed_of(struct bend *bend, const char *name) {
    int i = tensor_of(&bend->scene, name)->index;
    struct bent *changed = &bend->changed[i];
    const DLTensor *given = bend->scene.tensors[i];
    if (given == &changed->dl)
        return changed;
    if (given == NULL)
        bail_out("%s is not given", name);
    bent_from(changed, given);
    bend->scene.tensors[i] = &changed->dl;
    return changed;
}

static void put_number(struct bent *changed, const char *index, const char *value) {
    const int64_t number = setting_integer(value);
    int bytes = changed->dl.dtype.bits / 8;
    memcpy((char *)changed->dl.data + changed->dl.byte_offset + atoi(index + 1) * bytes, &number,
           (size_t)bytes);
}

static void move_data(struct bend *bend, struct bent *changed, const char *value) {
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(value, "+-"), value);
    const DLTensor *other = bend->scene.tensors[tensor_of(&bend->scene, name)->index];
    changed->dl.data = (char *)other->data + atoi(value + strlen(name));
    changed->dl.byte_offset = other->byte_offset;
}

/* Moves the data to memory that may not be accessed: other strides could reach another tensor's
   memory. */
static void set_apart(struct bent *changed) {
    enum { FAR = 1 << 20 };
    static char *apart;
    if (apart == NULL)
        apart = mmap(NULL, FAR, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(apart != MAP_FAILED, "mmap");
    changed->dl.data = apart;
    changed->dl.byte_offset = 0;
}

/* Gives a tensor that the call does not have. */
static void give_surplus(struct bend *bend, const struct op_tensor *tensor) {
    static double data[2];
    struct bent *changed = &bend->changed[tensor->index];
    changed->shape[0] = 2;
    changed->dl = dense_tensor(scene_type(&bend->scene, tensor), 1, changed->shape, data);
    bend->scene.tensors[tensor->index] = &changed->dl;
}

static void bend_tensor(struct bend *bend, const char *tensor, const char *what,
                        const char *value) {
    const struct op_tensor *described = tensor_of(&bend->scene, tensor);
    if (strcmp(what, "surplus") == 0)
        give_surplus(bend, described);
    struct bent *changed = changed_of(bend, tensor);
    if (strcmp(what, "null") == 0)
        bend->scene.tensors[described->index] = NULL;
    else if (strcmp(what, "at") == 0)
        move_data(bend, changed, value);
    else if (what[0] == '[')
        put_number(changed, what, value);
    else if (strcmp(what, "surplus") != 0 && !bent_by(changed, what, value))
        bail_out("%s:%s says nothing", tensor, what);
    if (strcmp(what, "strides") == 0)
        set_apart(changed);
}

static bool is_dim(const char *name) {
    return name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")] == '\0';
}

static void set_dim(struct bend *bend, const struct setting *setting) {
    struct op_dim *dim = bend->scene.words;
    int64_t value = setting_integer(setting->value);
    scene_bind(&bend->scene, keep(bend, setting->name), value);
    while (strcmp(dim->word, setting->name) != 0)
        dim++;
    dim->value = value;
}

/* Splits "cache:type" into "cache" and "type", "cache.2" into "cache" and ".2"; returns false if it
   is not about a tensor. */
static bool split(struct setting *setting, char what[32]) {
    char *at = strpbrk(setting->name, ":.[");
    if (at == NULL)
        return false;
    snprintf(what, 32, "%s", at + (*at == ':'));
    *at = '\0';
    return true;
}

/* Applies settings before tensors are made; of a change, only words that describe new tensors. */
static void apply_before(struct bend *bend, const char *text, bool attributes) {
    char what[32];
    for (struct setting setting; setting_next(&text, &setting);)
        if (split(&setting, what)) {
            if (is_foreseen(what))
                foresee(row_of(bend, setting.name), what, keep(bend, setting.value));
            else if (attributes)
                bail_out("%s:%s comes too early", setting.name, what);
        } else if (!(attributes && scene_apply(&bend->scene, &setting)) && is_dim(setting.name)) {
            set_dim(bend, &setting);
        }
}

static void apply_after(struct bend *bend, const char *text) {
    char what[32];
    for (struct setting setting; setting_next(&text, &setting);)
        if (!split(&setting, what)) {
            if (!scene_apply(&bend->scene, &setting) && !is_dim(setting.name) &&
                strcmp(setting.name, "kernels") != 0)
                bail_out("%s has no %s", bend->scene.op->name, setting.name);
        } else if (!is_foreseen(what)) {
            bend_tensor(bend, setting.name, what, setting.value);
        }
}

/* Opens the call with everything that the change says about new tensors. */
static void bend_open(struct bend *bend, const struct call *call, const char *change,
                      struct dice *dice) {
    const struct described_case *by = described_case_of(call->op);
    memset(bend, 0, sizeof *bend);
    for (int i = 0; by->tensors[i].name != NULL; i++)
        bend->rows[i] = by->tensors[i];
    bend->by = *by;
    bend->by.tensors = bend->rows;
    bend->by.settings = "";
    scene_start(&bend->scene, call->op, &bend->by, dice);
    apply_before(bend, call->settings, true);
    apply_before(bend, change, false);
    described_open(&bend->scene, 0);
}

/* ---- Outcomes ---- */

struct outcome {
    kvmill_status status;
    kvmill_error error;
};

static kvmill_plan *plan(struct scene *scene, const kvmill_plan_options *options,
                         struct outcome *outcome) {
    kvmill_plan *plan = (kvmill_plan *)(void *)outcome;
    scene_set_prototypes(scene);
    outcome->status = scene->by->plan(scene, options, &plan, &outcome->error);
    if (outcome->status != KVMILL_OK && plan != NULL)
        bail_out("a plan that was refused is not NULL");
    return plan;
}

/* Returns the prototype that a plan gets for a tensor, or NULL. */
static const DLTensor *told_of(const struct scene *scene, int i, const char *when,
                               struct bent *told) {
    const DLTensor *given = scene->tensors[i];
    const struct op_tensor *tensor = given != NULL ? kvmill_op_tensor(scene->op, i) : NULL;
    bool rows = strcmp(when, "rows") == 0, open = rows || strcmp(when, "open") == 0;
    if (given == NULL)
        return NULL;
    if (strcmp(when, "bare") == 0 &&
        (tensor->out & ~tensor->optional & kvmill_op_bit(scene->op)) != 0)
        return NULL;
    for (int d = 0; d < given->ndim; d++)
        told->shape[d] =
            open && (!rows || d == 0 || d == given->ndim - 2) ? KVMILL_DYNAMIC : given->shape[d];
    told->dl = (DLTensor){.ndim = given->ndim, .dtype = given->dtype, .shape = told->shape};
    return &told->dl;
}

/* Plans with prototypes that have less than the tensors. */
static kvmill_plan *plan_told(struct scene *scene, const char *when,
                              const kvmill_plan_options *options, struct outcome *outcome) {
    static struct bent told[MOST_TENSORS];
    const DLTensor *given[MOST_TENSORS];
    memcpy(given, scene->tensors, sizeof given);
    for (int i = 0; i < MOST_TENSORS; i++)
        scene->tensors[i] = told_of(scene, i, when, &told[i]);
    kvmill_plan *made = plan(scene, options, outcome);
    memcpy(scene->tensors, given, sizeof given);
    return made;
}

static void run_part(void *data, int64_t parts, void (*part)(void *context, int64_t index),
                     void *context) {
    (void)data;
    while (parts-- > 0)
        part(context, parts);
}

/* Runs by function `way`: kvmill_run, kvmill_begin or kvmill_run_parallel. */
static kvmill_status run(const struct scene *scene, const kvmill_plan *plan, int way,
                         kvmill_error *error) {
    size_t size = (kvmill_plan_workspace_size(plan) + 63) / 64 * 64;
    FREED void *workspace = size > 0 ? aligned_alloc(64, size) : NULL;
    size_t count = kvmill_plan_tensor_count(plan);
    kvmill_call call;
    kvmill_status status =
        way == 0 ? kvmill_run(plan, scene->tensors, count, workspace, error)
        : way == 1
            ? kvmill_begin(&call, plan, scene->tensors, count, workspace, error)
            : kvmill_run_parallel(plan, scene->tensors, count, workspace, run_part, NULL, error);
    return status;
}

/* ---- Rows ---- */

struct row {
    const struct call *call;
    const char *when, *change, *message;
    kvmill_status status;
};

/* Whether the text has the pieces of `wanted` in this order; without "...", it must be the whole
   text. */
static bool matches(const char *text, const char *wanted) {
    const char *gap = strstr(wanted, "...");
    size_t length = gap ? (size_t)(gap - wanted) : strlen(wanted);
    if (strncmp(text, wanted, length) != 0)
        return false;
    if (gap == NULL)
        return text[length] == '\0';
    for (const char *rest = text + length; *rest != '\0'; rest++)
        if (matches(rest, gap + 3))
            return true;
    return gap[3] == '\0';
}

static bool is_as_said(const struct row *row, const struct outcome *outcome) {
    const char *message = outcome->status == KVMILL_OK ? "" : outcome->error.message;
    if (outcome->status == row->status && matches(message, row->message))
        return true;
    diag("%s: %s", kvmill_status_name(outcome->status), message);
    return false;
}

static bool is_run_as_said(const struct row *row, struct bend *bend, const kvmill_plan *plan) {
    struct outcome outcome;
    uint64_t sum = scene_hash(&bend->scene);
    bool good = scene_is_intact(&bend->scene);
    for (int way = 0; good && way < 3; way++) {
        outcome.status = run(&bend->scene, plan, way, &outcome.error);
        good = is_as_said(row, &outcome) && run(&bend->scene, plan, way, NULL) == outcome.status;
    }
    if (good && row->status != KVMILL_OK &&
        (scene_hash(&bend->scene) != sum || !scene_is_intact(&bend->scene))) {
        diag("a byte was changed");
        good = false;
    }
    return good;
}

static bool is_so(const struct row *row, const kvmill_plan_options *options, struct dice dice) {
    static struct bend bend;
    struct outcome outcome = {KVMILL_OK, {""}};
    bool at_plan = strcmp(row->when, "plan") == 0, as_it_was = strcmp(row->when, "run") == 0;
    OWN_PLAN kvmill_plan *made = NULL;
    bend_open(&bend, row->call, row->change, &dice);
    if (as_it_was)
        made = plan(&bend.scene, options, &outcome);
    else if (!at_plan && strcmp(row->when, "fine") != 0)
        made = plan_told(&bend.scene, row->when, options, &outcome);
    apply_after(&bend, row->change);
    uint64_t sum = scene_hash(&bend.scene);
    if (made == NULL)
        made = plan(&bend.scene, options, &outcome);
    bool good = at_plan ? is_as_said(row, &outcome) && scene_hash(&bend.scene) == sum
                        : made != NULL && is_run_as_said(row, &bend, made);
    if (!at_plan && made == NULL)
        diag("no plan: %s", outcome.error.message);
    described_close(&bend.scene);
    return good;
}

/* Whether the symbol contains one of the words, which are separated by commas. */
static bool has_word(const char *symbol, struct setting setting) {
    for (char *rest = setting.value, *word; (word = strsep(&rest, ",")) != NULL;)
        if (strstr(symbol, word) != NULL)
            return true;
    return false;
}

/* Returns options with a pack of only the kernels that the change names, without portable ones;
   NULL if it names none. */
static const kvmill_plan_options *options_said(const char *change) {
    static const struct kvmill_kernel *kernels[4096];
    static kvmill_pack chosen = {.abi = KVMILL_KERNEL_ABI, .name = "chosen", .kernels = kernels};
    static const kvmill_pack *const list[] = {&chosen};
    static const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = list, .pack_count = 1, .least_isa = "scalar"};
    struct setting setting = {"", ""};
    while (strcmp(setting.name, "kernels") != 0)
        if (!setting_next(&change, &setting))
            return NULL;
    chosen.count = 0;
    for (int p = 0; p < 2; p++)
        for (uint32_t i = 0; i < packs[p]->count && chosen.count < 4096; i++)
            if (has_word(packs[p]->kernels[i]->symbol, setting))
                kernels[chosen.count++] = packs[p]->kernels[i];
    return &options;
}

static void test_row(const struct row *row, char *all, struct dice dice) {
    const kvmill_plan_options *said = options_said(row->change);
    for (char *when; (when = strsep(&all, ",")) != NULL;) {
        struct row one = *row;
        one.when = when;
        ok(said ? is_so(&one, said, dice)
                : is_so(&one, &two_threads[0], dice) && is_so(&one, &two_threads[1], dice),
           "%s, %s: %s: %s%s%s", row->call->name, when, row->change,
           kvmill_status_name(row->status), row->message[0] ? ": " : "", row->message);
    }
}

static void test_line(char *const *cells) {
    if (strcmp(cells[1], "call") == 0) {
        define_call(cells[0], cells[2], cells[3]);
        return;
    }
    const char *message = cells[4] != NULL ? cells[4] : "";
    for (char *rest = cells[0], *name; (name = strsep(&rest, ",")) != NULL;) {
        const struct row one = {find_call(name), NULL, cells[3], message, status_named(cells[2])};
        char when[64];
        snprintf(when, sizeof when, "%s", cells[1]);
        must(one.call != NULL, name);
        test_row(&one, when, dice_for(cells[3]));
    }
}

TEST(refusals) {
    static const char *const names[] = {"refusals/cache_attention", "refusals/cache_attend",
                                        "refusals/attention",       "refusals/tensor_scatter",
                                        "refusals/write_rows",      "refusals/flow",
                                        "refusals/least_isa"};
    for (size_t i = 0; i < COUNT(names); i++) {
        memset(calls, 0, sizeof calls);
        each_row(names[i], 4, test_line);
    }
}
