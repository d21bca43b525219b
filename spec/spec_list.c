/* SPDX-License-Identifier: Apache-2.0 */
#include "spec.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "../defs/arithmetic.h"
#include "flow_spec.h"
#include "spec_keys.h"

int spec_math(const struct spec *spec) {
    const char *math = spec_is(spec, OP_CACHE_ATTENTION) ? spec->attention.op.math
                       : spec_is(spec, OP_CACHE_ATTEND)  ? spec->cache_attend.math
                                                         : NULL;
    if (spec_is(spec, OP_FLOW))
        return spec_math(&spec->flow->attention);
    return kvmill_math_of(math);
}

const char *const specialise_words[] = {"heads", "layout", "heads,layout", NULL};

bool spec_begin(struct spec *spec, const struct op *op, struct error *error) {
    return spec_begin_with(spec, spec_family_for(op), op, error);
}

/* ---- Lists ---- */

struct spec *spec_list_append(struct spec_list *list, struct error *error) {
    struct spec *items = realloc(list->items, (list->count + 1) * sizeof *items);
    if (items == NULL) {
        out_of_memory(error);
        return NULL;
    }
    list->items = items;
    memset(&items[list->count], 0, sizeof *items);
    return &items[list->count++];
}

/* A spec owns nothing while it has no family. */
static void free_spec(struct spec *spec) {
    if (spec->family != NULL && spec->family->free != NULL)
        spec->family->free(spec);
}

void spec_list_drop(struct spec_list *list) {
    free_spec(&list->items[--list->count]);
}

void spec_list_free(struct spec_list *list) {
    for (size_t i = 0; i < list->count; i++)
        free_spec(&list->items[i]);
    free(list->items);
    text_free(&list->notes);
    text_free(&list->left_alone);
    *list = (struct spec_list){0};
}

/* ---- Reading ---- */

enum { MOST_OPS = 63 };

static bool refuse_op(const struct json_place *place, const char *name, struct error *error) {
    const char *names[MOST_OPS + 1] = {NULL};
    char accepted[512] = "";
    for (int i = 0; i < MOST_OPS && kvmill_ops[i] != NULL; i++) {
        names[i] = kvmill_ops[i]->name;
        snprintf(accepted + strlen(accepted), sizeof accepted - strlen(accepted), "%s%s",
                 i ? ", " : "", names[i]);
    }
    const char *nearest = nearest_word(name, names);
    if (nearest != NULL)
        return json_fail(error, place, "is \"%.64s\"; did you mean \"%s\"?", name, nearest);
    return json_fail(error, place, "is \"%.64s\"; accepted: %s", name, accepted);
}

static bool read_op(const struct json_place *place, const struct op **op, struct error *error) {
    const char *name;
    struct json_place member = json_member(place, "op");
    if (!json_get_string(&member, &name, error))
        return false;
    *op = kvmill_op_by_name(name);
    return *op != NULL || refuse_op(&member, name, error);
}

static bool read_purpose(const struct json_place *place, char purpose[64], struct error *error) {
    const char *text = "";
    struct json_place member = json_member(place, "purpose");
    if (member.value != NULL && !json_get_string(&member, &text, error))
        return false;
    if (snprintf(purpose, 64, "%s", text) >= 64)
        return json_fail(error, &member, "is %zu bytes long; accepted: at most 63", strlen(text));
    return true;
}

static bool is_name(const char *text) {
    return islower((unsigned char)*text) &&
           text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0' &&
           strncmp(text, "km_", 3) != 0 && strncmp(text, "m4_", 3) != 0;
}

static bool read_name(const struct json_place *place, struct spec *spec, struct error *error) {
    return spec_read_label(place, "name", is_name,
                           "small letters, digits and underscores, a letter first (not km_ or m4_)",
                           spec->name, sizeof spec->name, error);
}

static bool read_specialise(const struct json_place *place, unsigned *what, struct error *error) {
    const struct json_place member = json_member(place, "specialise");
    const char *word;
    if (member.value == NULL)
        return true;
    if (!spec_read_word(&member, specialise_words, &word, error))
        return false;
    for (*what = 1; specialise_words[*what - 1] != word;)
        ++*what;
    return true;
}

bool spec_read(const struct json_place *place, struct spec_list *list, struct error *error) {
    struct spec *spec = spec_list_append(list, error);
    if (spec != NULL)
        snprintf(spec->where, sizeof spec->where, "%.120s: %s", place->file,
                 place->path[0] ? place->path : "/");
    const struct op *op;
    bool done = spec != NULL && json_get_object(place, error) && read_op(place, &op, error) &&
                read_purpose(place, spec->purpose, error) && read_name(place, spec, error) &&
                read_specialise(place, &spec->specialise, error) &&
                spec_read_with(place, spec, spec_family_for(op), op, error);
    /* Members may be missing that an importer has set. */
    return json_lacked() ? out_of_memory(error) : done;
}

/* ---- Writing ---- */

json_t *spec_write(const struct spec *spec) {
    json_t *object = json_object();
    json_object_set_new(object, "op", json_string(spec->op->name));
    if (spec->purpose[0])
        json_object_set_new(object, "purpose", json_string(spec->purpose));
    if (spec->specialise)
        json_object_set_new(object, "specialise",
                            json_string(specialise_words[spec->specialise - 1]));
    spec_write_op(spec, object);
    return object;
}

json_t *specs_write(const struct spec_list *list) {
    json_t *kernels = json_array();
    for (size_t i = 0; i < list->count; i++)
        json_array_append_new(kernels, spec_write(&list->items[i]));
    return json_pack("{s:o}", "kernels", kernels);
}
