/* SPDX-License-Identifier: Apache-2.0 */
#include "spec_keys.h"

#include <inttypes.h>
#include <string.h>

#include "../defs/dtype.h"
#include "stablehlo.h"

/* ---- Members of a spec's op ---- */

/* A member, and where the spec keeps it. */
struct entry {
    const struct op_struct *part;
    const struct op_member *member;
    void *base;
    struct axes *axes; /* of a list */
};

enum { MOST_KEYS = 64 };

/* Lists the members that specs of this op may have; returns their number. */
static int list_entries(const struct spec *spec, struct entry entries[MOST_KEYS]) {
    struct spec *own = (struct spec *)(uintptr_t)spec;
    const struct spec_family *family = spec->family;
    struct axes *axes = family->axes ? family->axes(own) : NULL;
    int count = 0;
    for (int p = 0; p < OP_PARTS && spec->op->parts[p] != NULL; p++) {
        const struct op_struct *part = spec->op->parts[p];
        for (int m = 0; m < part->member_count; m++) {
            const struct op_member *member = &part->members[m];
            if (member->ops & kvmill_op_bit(spec->op))
                entries[count++] = (struct entry){part, member, family->part(own, p), axes};
            if (member->kind == OP_DIMS)
                axes++;
        }
    }
    return count;
}

/* Returns the tensor that the spec has a shape for, or NULL if it has none. */
static DLTensor *shape_of(const struct spec *spec, const struct op_tensor *tensor) {
    const struct spec_family *family = spec->family;
    bool has = ((tensor->in | tensor->out) & kvmill_op_bit(spec->op)) != 0;
    return family->tensor && has ? family->tensor((struct spec *)(uintptr_t)spec, tensor->index)
                                 : NULL;
}

/* ---- Reading ---- */

static bool check_keys(const struct json_place *place, const struct spec *spec,
                       struct error *error) {
    const struct spec_family *family = spec->family;
    const char *known[MOST_KEYS] = {"op"};
    struct entry entries[MOST_KEYS];
    int members = list_entries(spec, entries), count = 1;
    for (int i = 0; i < members; i++) {
        known[count++] = entries[i].member->name;
        if (entries[i].member->was != NULL)
            known[count++] = entries[i].member->was;
    }
    for (int i = 0; i < spec->op->tensor_count; i++)
        if (family->read_tensors != NULL || shape_of(spec, &spec->op->tensors[i]) != NULL)
            known[count++] = spec->op->tensors[i].name;
    known[count++] = "purpose";
    if (spec->op->named)
        known[count++] = "name";
    if (family->specialises)
        known[count++] = "specialise";
    if (family->more_key != NULL)
        known[count++] = family->more_key;
    return json_only_keys(place, known, error);
}

static bool read_axes(const struct json_place *place, struct axes *axes, struct error *error) {
    axes->count = 0;
    if (!json_get_array(place, error))
        return false;
    size_t count = json_array_size(place->value);
    if (count > KVMILL_MOST_RANK)
        return json_fail(error, place, "has %zu elements; accepted: at most %d", count,
                         (int)KVMILL_MOST_RANK);
    for (size_t i = 0; i < count; i++) {
        struct json_place element = json_element(place, i);
        if (!json_get_integer(&element, INT64_MIN, INT64_MAX, &axes->items[i], error))
            return false;
    }
    axes->count = (int)count;
    return true;
}

static bool read_type(const struct json_place *place, const struct op_member *member,
                      DLDataType *type, struct error *error) {
    const char *names[KVMILL_MOST_FORMATS + 1];
    kvmill_row_types(names);
    return spec_read_type(place, member->of_rows ? names : member->words, type, error);
}

static bool read_member(const struct json_place *place, const struct entry *entry,
                        struct error *error) {
    void *at = kvmill_member_at(entry->member, entry->base);
    switch (entry->member->kind) {
    case OP_AXIS:
        return json_get_integer(place, INT32_MIN, INT32_MAX, at, error);
    case OP_COUNT: /* the op's ranges follow */
    case OP_INTEGER:
        return json_get_integer(place, INT64_MIN, INT64_MAX, at, error);
    case OP_FLAG:
        return spec_read_flag(place, at, error);
    case OP_REAL:
        return spec_read_real(place, at, error);
    case OP_TYPE:
        return read_type(place, entry->member, at, error);
    case OP_WORD:
        return spec_read_word(place, entry->member->words, at, error);
    case OP_DIMS:
        return read_axes(place, entry->axes, error);
    default:
        return true;
    }
}

static bool refuse_missing(const struct json_place *place, const struct op_member *member,
                           struct error *error) {
    return json_fail(error, place, "is missing; accepted: %s",
                     member->kind == OP_TYPE ? "an element type" : "a count");
}

static bool is_own(const struct op_member *member) {
    return member->kind == OP_OWN || member->kind == OP_POINTER || member->kind == OP_STRUCT;
}

/* Reads a member under its name of version 0.1. */
static bool read_former(const struct json_place *place, const struct entry *entry, bool given,
                        struct error *error) {
    const struct op_member *member = entry->member;
    struct json_place at = json_member(place, member->was);
    int64_t least = member->initial + member->was_more;
    int64_t *value = kvmill_member_at(member, entry->base);
    if (at.value == NULL)
        return true;
    if (given)
        return json_fail(error, &at, "is given together with %s; accepted: one of the two",
                         member->name);
    if (!json_get_integer(&at, least, INT64_MAX, value, error))
        return false;
    *value -= member->was_more;
    return true;
}

static bool read_entry(const struct json_place *place, struct spec *spec, const struct entry *entry,
                       struct error *error) {
    const struct spec_family *family = spec->family;
    const struct op_member *member = entry->member;
    struct json_place at = json_member(place, member->name);
    bool given = family->null_is_absent ? json_given(&at) : at.value != NULL;
    bool needed = (member->needed & kvmill_op_bit(spec->op)) != 0;
    if (member->was != NULL && !read_former(place, entry, given, error))
        return false;
    if (is_own(member))
        return family->read_own == NULL || !(given || needed) ||
               family->read_own(&at, spec, member, error);
    if (!given)
        return !needed || refuse_missing(&at, member, error);
    if (member->with != NULL)
        *(int32_t *)kvmill_member_at(kvmill_op_member(entry->part, member->with), entry->base) = 1;
    return read_member(&at, entry, error);
}

static bool read_shapes(const struct json_place *place, struct spec *spec, struct error *error) {
    for (int i = 0; i < spec->op->tensor_count; i++) {
        const struct op_tensor *tensor = &spec->op->tensors[i];
        DLTensor *shape = shape_of(spec, tensor);
        struct json_place member = json_member(place, tensor->name);
        if (shape != NULL && !spec_read_shape(&member, shape, error))
            return false;
    }
    return true;
}

/* Reads everything in the op's description: refuses unknown and missing keys, stores attributes in
   the spec's parts, and shapes in its tensors. */
static bool read_keys(const struct json_place *place, struct spec *spec, struct error *error) {
    const struct spec_family *family = spec->family;
    struct entry entries[MOST_KEYS];
    if (!check_keys(place, spec, error) ||
        (family->read_tensors != NULL && !family->read_tensors(place, spec, error)))
        return false;
    int count = list_entries(spec, entries);
    for (int i = 0; i < count; i++)
        if (!read_entry(place, spec, &entries[i], error))
            return false;
    return read_shapes(place, spec, error);
}

/* ---- Writing ---- */

static json_t *type_as_json(const DLDataType *type) {
    return type->bits != 0 ? json_string(kvmill_dtype_name(*type)) : NULL;
}

static json_t *word_as_json(const struct op_member *member, const char *word) {
    if (word == NULL && member->always)
        word = member->words[0];
    return word != NULL ? json_string(word) : NULL;
}

static json_t *axes_as_json(const struct axes *axes) {
    json_t *list = json_array();
    for (int i = 0; i < axes->count; i++)
        json_array_append_new(list, json_integer(axes->items[i]));
    return list;
}

/* Returns NULL if the member is not set. */
static json_t *as_json(const struct spec *spec, const struct entry *entry) {
    const struct op_member *member = entry->member;
    const void *at = kvmill_member_of(member, entry->base);
    switch (member->kind) {
    case OP_COUNT:
    case OP_AXIS:
    case OP_INTEGER:
        return json_integer(*(const int64_t *)at);
    case OP_FLAG:
        return json_boolean(*(const int32_t *)at);
    case OP_REAL:
        return json_real(*(const double *)at);
    case OP_TYPE:
        return type_as_json(at);
    case OP_WORD:
        return word_as_json(member, *(const char *const *)at);
    case OP_DIMS:
        return axes_as_json(entry->axes);
    default:
        return spec->family->write_own(spec, member);
    }
}

/* Whether to write a member.  Members that belong to a flag are all written if the flag is set. */
static bool is_written(const struct spec *spec, const struct entry *entry) {
    const struct spec_family *family = spec->family;
    const struct op_member *member = entry->member;
    const struct op_condition with = {{member->with}};
    if (family->is_left_out != NULL && family->is_left_out(spec, member))
        return false;
    if (member->with != NULL)
        return kvmill_op_holds(entry->part, entry->base, &with);
    return member->always || is_own(member) || !kvmill_member_is_default(member, entry->base);
}

void spec_write_attributes(const struct spec *spec, json_t *object) {
    struct entry entries[MOST_KEYS];
    int count = list_entries(spec, entries);
    for (int i = 0; i < count; i++) {
        json_t *value = is_written(spec, &entries[i]) ? as_json(spec, &entries[i]) : NULL;
        if (value != NULL)
            json_object_set_new(object, entries[i].member->name, value);
    }
}

static void write_shapes(const struct spec *spec, json_t *object) {
    for (int i = 0; i < spec->op->tensor_count; i++) {
        const DLTensor *shape = shape_of(spec, &spec->op->tensors[i]);
        if (shape != NULL && shape->shape != NULL)
            json_object_set_new(object, spec->op->tensors[i].name, spec_write_shape(shape));
    }
}

void spec_write_name(const struct spec *spec, json_t *object) {
    if (spec->name[0])
        json_object_set_new(object, "name", json_string(spec->name));
}

/* ---- Members that are set ---- */

/* Calls `each` for flags that are no keys of a spec, but that other keys or the op's name imply. */
static bool each_implied(const struct op_struct *part, const void *base, spec_member_hook *each,
                         void *more) {
    bool done = true;
    for (int i = 0; done && i < part->member_count; i++) {
        const struct op_member *member = &part->members[i];
        if (member->kind == OP_FLAG && member->ops == 0 && !kvmill_member_is_zero(member, base))
            done = each(member, kvmill_member_of(member, base), more);
    }
    return done;
}

static bool is_set(const struct spec *spec, const struct entry *entry) {
    return !is_own(entry->member) && is_written(spec, entry) &&
           !kvmill_member_is_default(entry->member, entry->base);
}

bool spec_each_set_member(const struct spec *spec, spec_member_hook *each, void *more) {
    struct entry entries[MOST_KEYS];
    int count = list_entries(spec, entries);
    bool done = count == 0 || each_implied(entries[0].part, entries[0].base, each, more);
    for (int i = 0; done && i < count; i++)
        if (is_set(spec, &entries[i]))
            done =
                each(entries[i].member, kvmill_member_of(entries[i].member, entries[i].base), more);
    return done;
}

/* ---- A spec as a whole ---- */

void spec_init_parts(struct spec *spec) {
    for (int i = 0; i < OP_PARTS && spec->op->parts[i] != NULL; i++)
        kvmill_op_init(spec->op->parts[i], spec->family->part(spec, i));
}

bool spec_begin_with(struct spec *spec, const struct spec_family *family, const struct op *op,
                     struct error *error) {
    spec->family = family;
    spec->op = op;
    if (family->begin != NULL)
        return family->begin(spec, error);
    spec_init_parts(spec);
    return true;
}

bool spec_read_with(const struct json_place *place, struct spec *spec,
                    const struct spec_family *family, const struct op *op, struct error *error) {
    return spec_begin_with(spec, family, op, error) && read_keys(place, spec, error) &&
           (family->complete != NULL ? family->complete(place, spec, error)
                                     : family->check(spec, error));
}

void spec_write_op(const struct spec *spec, json_t *object) {
    if (spec->family->write != NULL) {
        spec->family->write(spec, object);
        return;
    }
    spec_write_attributes(spec, object);
    write_shapes(spec, object);
    spec_write_name(spec, object);
}

bool spec_check(const struct spec *spec, struct error *error) {
    return spec->family->check(spec, error);
}
