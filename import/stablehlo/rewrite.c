/* Rewrites gathers and scatters without batching dims, which older StableHLO lacks, by replacing
   pieces of the text.

   SPDX-License-Identifier: Apache-2.0 */
#include "rewrite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../defs/dtype.h"
#include "stablehlo_import.h"

/* A replacement for a piece of the file. */
struct edit {
    struct mlir_span place;
    struct text text;
};

struct rewriter {
    const struct mlir_file *file;
    const struct mlir_function *function;
    struct error *error;
    struct text stem; /* a prefix such as "%batched" that no name in the file has */
    int ops;
    struct edit *edits;
    size_t edit_count;
};

/* An op with batching dims; its words, by enum kvmill_number_word, up to the map. */
struct batched_op {
    const struct mlir_op *op;
    const char *attribute, *words[KVMILL_WORD_MAP + 1];
    int indices; /* the operand */
    struct axes axes[KVMILL_WORD_MAP + 1];
    int64_t vector_dim;
    struct tensor_shape shape; /* of the indices, so far */
    const char *value;  /* part of write_value that has the indices; NULL: the file's operand */
    struct text before; /* new ops that make the indices */
};

/* ---- Reading ---- */

static const struct batched_op kinds[2] = {
    {.attribute = "dimension_numbers",
     .words = {"offset_dims", "collapsed_slice_dims", "operand_batching_dims",
               "start_indices_batching_dims", "start_index_map"}},
    {.attribute = "scatter_dimension_numbers",
     .words = {"update_window_dims", "inserted_window_dims", "input_batching_dims",
               "scatter_indices_batching_dims", "scatter_dims_to_operand_dims"}},
};

static bool is_empty_list(const struct mlir_attr *attr) {
    return attr == NULL || (attr->kind == MLIR_LIST && attr->count == 0);
}

/* Whether an op has no batching dims; then it stays, regardless of its other attributes. */
static bool has_no_batching(const struct mlir_op *op, const struct batched_op *kind) {
    const struct mlir_attr *numbers = mlir_attr_of(&op->attrs, kind->attribute);
    return numbers != NULL && numbers->kind == MLIR_DICT &&
           is_empty_list(mlir_attr_of(numbers, kind->words[KVMILL_WORD_BATCHING])) &&
           is_empty_list(mlir_attr_of(numbers, kind->words[KVMILL_WORD_INDICES_BATCHING]));
}

static bool read_gather(struct rewriter *rewriter, struct batched_op *batched) {
    struct gather_problem problem;
    if (!gather_of_mlir(rewriter->file, rewriter->function, batched->op, &problem, rewriter->error))
        return false;
    memcpy(batched->axes, problem.axes, sizeof batched->axes);
    batched->vector_dim = problem.op.index_vector_dim;
    batched->shape = problem.start_indices;
    batched->indices = 1;
    return true;
}

static bool read_scatter(struct rewriter *rewriter, struct batched_op *batched) {
    struct scatter_problem *problem = calloc(1, sizeof *problem);
    bool done = problem != NULL || out_of_memory(rewriter->error);
    done = done && scatter_of_mlir(rewriter->file, rewriter->function, batched->op, problem,
                                   rewriter->error);
    if (done) {
        memcpy(batched->axes, problem->axes, sizeof batched->axes);
        batched->vector_dim = problem->op.index_vector_dim;
        batched->shape = problem->scatter_indices;
        batched->indices = problem->count;
    }
    free(problem);
    return done;
}

static bool check_index_type(struct rewriter *rewriter, const struct batched_op *batched) {
    const struct mlir_type *type = batched->op->operand_types[batched->indices];
    return !type->is_index ||
           mlir_fail(rewriter->error, rewriter->file, type->at,
                     "%s: indices of type %.*s and batching dims, and StableHLO has no iota of "
                     "that type; accepted: integers",
                     batched->op->name, mlir_word_length(type->word), type->word.text);
}

/* ---- Edits ---- */

/* Adds an edit, which takes the text over. */
static bool add_edit(struct rewriter *rewriter, struct mlir_span place, struct text *text) {
    size_t count = rewriter->edit_count;
    struct edit *edits = realloc(rewriter->edits, (count + 1) * sizeof *edits);
    if (edits == NULL)
        return out_of_memory(rewriter->error);
    rewriter->edits = edits;
    edits[count] = (struct edit){place, *text};
    *text = (struct text){0};
    rewriter->edit_count++;
    return true;
}

/* Does the same, and frees the text.  written: false if memory ran out while the text was
   written. */
static bool replace(struct rewriter *rewriter, struct mlir_span place, bool written,
                    struct text *text) {
    bool done = (written || out_of_memory(rewriter->error)) && add_edit(rewriter, place, text);
    text_free(text);
    return done;
}

static int by_place(const void *a, const void *b) {
    size_t x = ((const struct edit *)a)->place.begin, y = ((const struct edit *)b)->place.begin;
    return (x > y) - (x < y);
}

static bool apply_edits(struct rewriter *rewriter, struct text *text) {
    const struct mlir_file *file = rewriter->file;
    size_t at = 0;
    bool done = true;
    if (rewriter->edit_count > 0)
        qsort(rewriter->edits, rewriter->edit_count, sizeof *rewriter->edits, by_place);
    for (size_t i = 0; done && i < rewriter->edit_count; i++) {
        const struct edit *edit = &rewriter->edits[i];
        done = text_append(text, file->text + at, edit->place.begin - at) &&
               text_append(text, edit->text.data, edit->text.length);
        at = edit->place.end;
    }
    return (done && text_append(text, file->text + at, file->length - at)) ||
           out_of_memory(rewriter->error);
}

/* ---- Names ---- */

static bool choose_stem(struct rewriter *rewriter) {
    static const char stem[] = "%batched";
    size_t most = 0;
    for (const char *at = rewriter->file->text; (at = strstr(at, stem)) != NULL;) {
        at += sizeof stem - 1;
        size_t needed = strspn(at, "_") + 1;
        most = needed > most ? needed : most;
    }
    bool done = text_append(&rewriter->stem, stem, sizeof stem - 1);
    for (; done && most > 0; most--)
        done = text_append(&rewriter->stem, "_", 1);
    return done || out_of_memory(rewriter->error);
}

/* Writes a name such as "%batched3_iota0", with the op's number.  part NULL: the file's operand;
   "": the new indices. */
static bool write_value(const struct rewriter *rewriter, const struct batched_op *batched,
                        const char *part, struct text *text) {
    struct mlir_span use = batched->op->uses[batched->indices];
    if (part == NULL)
        return text_append(text, rewriter->file->text + use.begin, use.end - use.begin);
    return text_print(text, "%s%d%s%s", rewriter->stem.data, rewriter->ops, part[0] ? "_" : "",
                      part);
}

static bool write_iota_value(const struct rewriter *rewriter, const struct batched_op *batched,
                             int pair, struct text *text) {
    char part[24];
    snprintf(part, sizeof part, "iota%d", pair);
    return write_value(rewriter, batched, part, text);
}

/* Writes a line end and the indentation of the old op. */
static bool write_line_end(const struct rewriter *rewriter, const struct mlir_op *op,
                           struct text *text) {
    const char *begin = rewriter->file->text + op->begin, *line = begin;
    while (line > rewriter->file->text && (line[-1] == ' ' || line[-1] == '\t'))
        line--;
    bool alone = line == rewriter->file->text || line[-1] == '\n';
    return text_append(text, "\n", 1) &&
           text_append(text, alone ? line : "  ", alone ? (size_t)(begin - line) : 2);
}

/* ---- The indices ---- */

/* Writes %new = stablehlo.NAME %old : (old type) -> new type. */
static bool write_step(struct rewriter *rewriter, struct batched_op *batched, const char *name,
                       const char *part, const struct tensor_shape *shape) {
    struct text *text = &batched->before;
    bool done = write_value(rewriter, batched, part, text) &&
                text_print(text, " = stablehlo.%s ", name) &&
                write_value(rewriter, batched, batched->value, text) && text_print(text, " : (") &&
                shape_write(&batched->shape, text) && text_print(text, ") -> ") &&
                shape_write(shape, text) && write_line_end(rewriter, batched->op, text);
    batched->value = part;
    batched->shape = *shape;
    return done || out_of_memory(rewriter->error);
}

/* Gives index vectors an axis of their own, the last. */
static bool make_explicit(struct rewriter *rewriter, struct batched_op *batched) {
    struct tensor_shape shape = batched->shape;
    if (batched->vector_dim < shape.rank)
        return true;
    if (shape.rank == KVMILL_MOST_RANK)
        return mlir_fail(rewriter->error, rewriter->file, batched->op->at,
                         "%s: indices of rank %d with batching dims and an implicit index vector; "
                         "accepted: less, as the vector gets an axis",
                         batched->op->name, shape.rank);
    shape.dims[shape.rank++] = 1;
    return write_step(rewriter, batched, "reshape", "vector", &shape);
}

static bool fits(DLDataType type, int64_t value) {
    int digits = type.code == kDLInt ? type.bits - 1 : type.bits;
    return digits >= 63 || value < (int64_t)1 << digits;
}

/* Converts indices to a type that can hold all coordinates of batching dims; i1 has no iota. */
static bool widen(struct rewriter *rewriter, struct batched_op *batched) {
    struct tensor_shape shape = batched->shape;
    const struct axes *axes = &batched->axes[KVMILL_WORD_INDICES_BATCHING];
    DLDataType *type = &shape.element.dtype;
    if (type->code == KVMILL_DL_BOOL)
        *type = kvmill_uint8;
    for (int i = 0; i < axes->count; i++)
        while (!fits(*type, shape.dims[axes->items[i]] - 1))
            type->bits = type->bits < 8 ? 8 : (uint8_t)(2 * type->bits);
    return kvmill_dtype_equal(*type, batched->shape.element.dtype) ||
           write_step(rewriter, batched, "convert", "wide", &shape);
}

static bool write_iotas(struct rewriter *rewriter, struct batched_op *batched,
                        const struct tensor_shape *shape) {
    const struct axes *axes = &batched->axes[KVMILL_WORD_INDICES_BATCHING];
    struct text *text = &batched->before;
    bool done = true;
    for (int i = 0; done && i < axes->count; i++)
        done = write_iota_value(rewriter, batched, i, text) &&
               text_print(text, " = stablehlo.iota dim = %" PRId64 " : ", axes->items[i]) &&
               shape_write(shape, text) && write_line_end(rewriter, batched->op, text);
    return done;
}

static bool write_concatenation(struct rewriter *rewriter, struct batched_op *batched,
                                const struct tensor_shape *iota, const struct tensor_shape *whole) {
    int pairs = batched->axes[KVMILL_WORD_BATCHING].count;
    struct text *text = &batched->before;
    bool done =
        write_value(rewriter, batched, "", text) && text_print(text, " = stablehlo.concatenate ");
    for (int i = 0; done && i < pairs; i++)
        done = write_iota_value(rewriter, batched, i, text) && text_print(text, ", ");
    done = done && write_value(rewriter, batched, batched->value, text) &&
           text_print(text, ", dim = %" PRId64 " : (", batched->vector_dim);
    for (int i = 0; done && i < pairs; i++)
        done = shape_write(iota, text) && text_print(text, ", ");
    done = done && shape_write(&batched->shape, text) && text_print(text, ") -> ") &&
           shape_write(whole, text) && write_line_end(rewriter, batched->op, text);
    batched->value = "";
    batched->shape = *whole;
    return done;
}

static bool put_coordinates_first(struct rewriter *rewriter, struct batched_op *batched) {
    struct tensor_shape iota = batched->shape, whole = batched->shape;
    int pairs = batched->axes[KVMILL_WORD_BATCHING].count;
    iota.dims[batched->vector_dim] = 1;
    whole.dims[batched->vector_dim] = pairs + batched->axes[KVMILL_WORD_MAP].count;
    return (write_iotas(rewriter, batched, &iota) &&
            write_concatenation(rewriter, batched, &iota, &whole)) ||
           out_of_memory(rewriter->error);
}

/* ---- The dimension numbers ---- */

/* Adds batching dims to the dropped dims, and to the front of the map. */
static void drop_batching(struct batched_op *batched) {
    struct axes *dropped = &batched->axes[KVMILL_WORD_DROPPED];
    struct axes *batching = &batched->axes[KVMILL_WORD_BATCHING];
    struct axes *map = &batched->axes[KVMILL_WORD_MAP];
    memmove(map->items + batching->count, map->items, (size_t)map->count * sizeof *map->items);
    memcpy(map->items, batching->items, (size_t)batching->count * sizeof *map->items);
    map->count += batching->count;
    for (int i = 0; i < batching->count; i++) {
        int at = dropped->count++;
        for (; at > 0 && dropped->items[at - 1] > batching->items[i]; at--)
            dropped->items[at] = dropped->items[at - 1];
        dropped->items[at] = batching->items[i];
    }
    batching->count = batched->axes[KVMILL_WORD_INDICES_BATCHING].count = 0;
}

static bool write_axes(const char *word, const struct axes *axes, struct text *text) {
    bool done = axes->count == 0 || text_print(text, "%s = [", word);
    for (int i = 0; done && i < axes->count; i++)
        done = text_print(text, "%s%" PRId64, i ? ", " : "", axes->items[i]);
    return done && (axes->count == 0 || text_print(text, "], "));
}

static bool replace_numbers(struct rewriter *rewriter, const struct batched_op *batched) {
    const struct mlir_attr *numbers = mlir_attr_of(&batched->op->attrs, batched->attribute);
    struct text text = {0};
    bool done = text_print(&text, "#%.*s<", (int)numbers->word.length, numbers->word.text);
    for (int i = 0; done && i <= KVMILL_WORD_MAP; i++)
        done = write_axes(batched->words[i], &batched->axes[i], &text);
    done = done && text_print(&text, "index_vector_dim = %" PRId64 ">", batched->vector_dim);
    return replace(rewriter, (struct mlir_span){numbers->at, numbers->end}, done, &text);
}

/* Sets indices_are_sorted to false: with coordinates in front, sorted starts may no longer be
   sorted. */
static bool withdraw_promise(struct rewriter *rewriter, const struct batched_op *batched) {
    const struct mlir_attr *sorted = mlir_attr_of(&batched->op->attrs, "indices_are_sorted");
    struct text text = {0};
    if (sorted == NULL || (sorted->kind == MLIR_BOOL && !sorted->integer))
        return true;
    bool is_name_alone = sorted->at == sorted->end;
    bool done = text_print(&text, "%s", is_name_alone ? " = false" : "false");
    return replace(rewriter, (struct mlir_span){sorted->at, sorted->end}, done, &text);
}

/* ---- Ops ---- */

static bool replace_indices(struct rewriter *rewriter, struct batched_op *batched) {
    const struct mlir_op *op = batched->op;
    const struct mlir_type *type = op->operand_types[batched->indices];
    struct text use = {0}, written = {0};
    bool done = write_value(rewriter, batched, batched->value, &use);
    done = replace(rewriter, op->uses[batched->indices], done, &use) &&
           replace(rewriter, (struct mlir_span){type->at, type->at + type->word.length},
                   shape_write(&batched->shape, &written), &written);
    text_free(&written);
    return done && add_edit(rewriter, (struct mlir_span){op->begin, op->begin}, &batched->before);
}

static bool rewrite_read(struct rewriter *rewriter, struct batched_op *batched) {
    bool done = check_index_type(rewriter, batched) && make_explicit(rewriter, batched) &&
                widen(rewriter, batched) && put_coordinates_first(rewriter, batched);
    if (!done)
        return false;
    drop_batching(batched);
    done = replace_indices(rewriter, batched) && replace_numbers(rewriter, batched) &&
           withdraw_promise(rewriter, batched);
    rewriter->ops++;
    return done;
}

static bool rewrite_op(struct rewriter *rewriter, const struct mlir_op *op) {
    struct batched_op batched = kinds[is_mlir_scatter(op)];
    if (has_no_batching(op, &batched))
        return true;
    batched.op = op;
    bool done =
        is_mlir_scatter(op) ? read_scatter(rewriter, &batched) : read_gather(rewriter, &batched);
    if (done && batched.axes[KVMILL_WORD_BATCHING].count > 0)
        done = rewrite_read(rewriter, &batched);
    text_free(&batched.before);
    return done;
}

static bool rewrite_block(struct rewriter *rewriter, const struct mlir_block *block) {
    bool done = true;
    for (const struct mlir_op *op = block->first; done && op != NULL; op = op->next) {
        bool ours = is_mlir_gather(op) || is_mlir_scatter(op);
        done = !ours || rewrite_op(rewriter, op);
        for (int i = 0; done && !ours && i < op->region_count; i++)
            done = rewrite_block(rewriter, &op->regions[i]);
    }
    return done;
}

/* ---- Files ---- */

static bool check_text(const struct rewriter *rewriter, const struct text *text) {
    struct mlir_file again;
    char name[sizeof rewriter->file->name + 16];
    snprintf(name, sizeof name, "%s, rewritten", rewriter->file->name);
    bool done = mlir_read_text(name, text->data, text->length, &again, rewriter->error);
    mlir_free(&again);
    return done;
}

bool mlir_without_batching_dims(const struct mlir_file *file, struct text *text, int *rewritten,
                                struct error *error) {
    struct rewriter rewriter = {.file = file, .error = error};
    bool done = choose_stem(&rewriter);
    for (const struct mlir_chunk *c = file->chunks; done && c != NULL; c = c->next)
        for (const struct mlir_function *f = c->functions; done && f != NULL; f = f->next) {
            rewriter.function = f;
            done = rewrite_block(&rewriter, &f->body);
        }
    done = done && apply_edits(&rewriter, text) && check_text(&rewriter, text);
    *rewritten = rewriter.ops;
    for (size_t i = 0; i < rewriter.edit_count; i++)
        text_free(&rewriter.edits[i].text);
    free(rewriter.edits);
    text_free(&rewriter.stem);
    return done;
}
