/* SPDX-License-Identifier: Apache-2.0 */
#include "settings.h"

#include "../defs/dtype.h"
#include "tap.h"

bool setting_next(const char **text, struct setting *setting) {
    *text += strspn(*text, " ");
    size_t length = strcspn(*text, " "), name = strcspn(*text, " =");
    size_t value = length - name - (name < length);
    if (length == 0)
        return false;
    if (name >= sizeof setting->name || value >= sizeof setting->value)
        bail_out("too long: %s", *text);
    snprintf(setting->name, sizeof setting->name, "%.*s", (int)name, *text);
    snprintf(setting->value, sizeof setting->value, "%.*s", (int)value, *text + length - value);
    *text += length;
    return true;
}

int64_t setting_integer(const char *value) {
    char *end;
    int64_t integer = strtoll(value, &end, 10);
    if (strcmp(value, "max") == 0 || strcmp(value, "min") == 0)
        return value[1] == 'a' ? INT64_MAX : INT64_MIN;
    if (end == value || *end != '\0')
        bail_out("\"%s\" is no integer", value);
    return integer;
}

int setting_integers(const char *value, int64_t *integers, int most) {
    int count = 0;
    for (char word[32]; *value != '\0'; value += *value == ',') {
        size_t length = strcspn(value, ",");
        if (count == most)
            bail_out("too many integers: %s", value);
        snprintf(word, sizeof word, "%.*s", (int)length, value);
        integers[count++] = setting_integer(word);
        value += length;
    }
    return count;
}

DLDataType setting_type(const char *value) {
    const struct kvmill_dtype *known = kvmill_dtype_by_name(value);
    int code = 0, bits = 0, lanes = 0;
    if (known != NULL)
        return known->dl;
    if (sscanf(value, "%d.%d.%d", &code, &bits, &lanes) != 3 && strcmp(value, "none") != 0)
        bail_out("\"%s\" is no type", value);
    return (DLDataType){(uint8_t)code, (uint8_t)bits, (uint16_t)lanes};
}

/* Returns a copy of a word: attributes keep a pointer to it.  The last 64 copies are valid. */
static const char *keep(const char *word) {
    static char kept[64][16];
    static int last;
    if (strcmp(word, "-") == 0)
        return NULL;
    last = (last + 1) % 64;
    snprintf(kept[last], sizeof *kept, "%.15s", word);
    return kept[last];
}

bool setting_apply(const struct setting *setting, const struct op_struct *part, void *base) {
    const struct op_member *member = kvmill_op_member(part, setting->name);
    void *at = member != NULL ? kvmill_member_at(member, base) : NULL;
    const char *value = setting->value;
    if (member == NULL)
        return false;
    if (member->kind == OP_REAL)
        *(double *)at = strtod(value, NULL);
    else if (member->kind == OP_TYPE)
        *(DLDataType *)at = setting_type(value);
    else if (member->kind == OP_WORD)
        *(const char **)at = keep(value);
    else if (member->kind == OP_FLAG)
        *(int32_t *)at = (int32_t)setting_integer(value);
    else if (member->kind == OP_COUNT || member->kind == OP_INTEGER || member->kind == OP_AXIS)
        *(int64_t *)at = setting_integer(value);
    else
        return false;
    return true;
}

void setting_tensors(const struct op *op, void *base, const DLTensor *const *tensors, int count) {
    const struct op_struct *part = op->parts[0];
    for (int i = 0; i < part->member_count; i++)
        for (int t = 0; t < op->tensor_count; t++)
            if (part->members[i].kind == OP_TENSOR && op->tensors[t].index < count &&
                strcmp(op->tensors[t].name, part->members[i].name) == 0)
                *(const DLTensor **)kvmill_member_at(&part->members[i], base) =
                    tensors[op->tensors[t].index];
}

enum { MOST = 16 }; /* integers of a list */

static int put(const struct setting *setting, int kind, void *at) {
    if (kind == SETTING_LIST)
        return setting_integers(setting->value, at, MOST);
    if (kind == SETTING_TYPE)
        *(DLDataType *)at = setting_type(setting->value);
    else if (kind == SETTING_WORD)
        *(const char **)at = keep(setting->value);
    else
        *(int64_t *)at = setting_integer(setting->value);
    return 1;
}

int setting_want(const struct setting *setting, const struct wanted_setting *wanted, void *base) {
    for (; wanted->name != NULL; wanted++)
        if (strcmp(wanted->name, setting->name) == 0)
            return put(setting, wanted->kind, (char *)base + wanted->offset);
    return -1;
}

int setting_spread(const char *value, int64_t *integers, int64_t count) {
    int given = setting_integers(value, integers, MOST);
    for (int64_t i = 1; i < count && given == 1; i++)
        integers[i] = integers[0];
    return given;
}

/* ---- Alternatives ---- */

/* Returns the end of an alternative: a bar or brace that is not inside another brace. */
static const char *end_of(const char *at) {
    for (int depth = 0; depth > 0 || (*at != '|' && *at != '}'); at++) {
        must(*at != '\0', "a brace is missing");
        depth += (*at == '{') - (*at == '}');
    }
    return at;
}

struct chooser {
    int64_t (*pick)(void *context, int64_t alternatives);
    void *context;
    char *to, *limit;
};

static void choose(struct chooser *chooser, const char *at, const char *end) {
    while (at < end) {
        if (*at != '{') {
            must(chooser->to != chooser->limit, "too many settings");
            *chooser->to++ = *at++;
            continue;
        }
        const char *close = end_of(at + 1), *first = at + 1;
        int64_t count = 1;
        for (; *close == '|'; close = end_of(close + 1))
            count++;
        for (int64_t skip = chooser->pick(chooser->context, count); skip > 0; skip--)
            first = end_of(first) + 1;
        choose(chooser, first, end_of(first));
        at = close + 1;
    }
}

void setting_choose(const char *settings, int64_t (*pick)(void *context, int64_t alternatives),
                    void *context, char *chosen, size_t size) {
    struct chooser chooser = {pick, context, chosen, chosen + size - 1};
    choose(&chooser, settings, settings + strlen(settings));
    *chooser.to = '\0';
}

int64_t setting_roll(void *dice, int64_t alternatives) {
    return dice_range(dice, 0, alternatives - 1);
}

void setting_say(const char *settings, struct dice *dice, void *to,
                 bool (*say)(void *to, const struct setting *setting)) {
    char chosen[1024];
    const char *text = chosen;
    setting_choose(settings, setting_roll, dice, chosen, sizeof chosen);
    for (struct setting setting; setting_next(&text, &setting);)
        if (!say(to, &setting))
            bail_out("nothing has a %s", setting.name);
}

struct filled {
    const struct op_struct *part;
    void *base;
};

static bool fill_one(void *to, const struct setting *setting) {
    const struct filled *filled = to;
    return setting_apply(setting, filled->part, filled->base);
}

void setting_fill(const struct op_struct *part, void *base, const char *settings,
                  struct dice *dice) {
    kvmill_op_init(part, base);
    setting_say(settings, dice, &(struct filled){part, base}, fill_one);
}

/* ---- Changed tensors ---- */

void bent_from(struct bent *bent, const DLTensor *good) {
    bent->dl = *good;
    for (int d = 0; d <= MOST_DIMS; d++)
        bent->shape[d] = d < good->ndim ? good->shape[d] : 1;
    bent->dl.shape = bent->shape;
}

static void fill(int64_t *list, const char *value) {
    for (int d = 0; d <= MOST_DIMS; d++)
        list[d] = setting_integer(value);
}

/* Applies a change without a value. */
static bool bent_so(struct bent *bent, const char *word) {
    if (strcmp(word, "more") == 0)
        bent->dl.ndim++;
    else if (strcmp(word, "empty") == 0)
        bent->dl.ndim = 1, bent->shape[0] = 0;
    else if (strcmp(word, "no-data") == 0)
        bent->dl.data = NULL, bent->dl.byte_offset = 0;
    else if (strcmp(word, "no-shape") == 0)
        bent->dl.shape = NULL;
    else if (strcmp(word, "device") == 0)
        bent->dl.device.device_type = kDLCUDA;
    else
        return false;
    return true;
}

bool bent_by(struct bent *bent, const char *word, const char *value) {
    if (strcmp(word, "type") == 0)
        bent->dl.dtype = setting_type(value);
    else if (strcmp(word, "rank") == 0)
        bent->dl.ndim = (int32_t)setting_integer(value);
    else if (strcmp(word, "offset") == 0)
        bent->dl.byte_offset = (uint64_t)setting_integer(value);
    else if (strcmp(word, "shape") == 0)
        bent->dl.ndim = setting_integers(value, bent->shape, MOST_DIMS);
    else if (strcmp(word, "dims") == 0)
        fill(bent->shape, value);
    else if (word[0] == '.')
        bent->shape[atoi(word + 1)] = setting_integer(value);
    else if (strcmp(word, "strides") == 0) {
        setting_integers(value, bent->strides, MOST_DIMS);
        bent->dl.strides = bent->strides;
    } else if (strcmp(word, "stride") == 0) {
        fill(bent->strides, value);
        bent->dl.strides = bent->strides;
    } else
        return bent_so(bent, word);
    return true;
}
