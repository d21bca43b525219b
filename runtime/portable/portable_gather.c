/* GATHER for every shape.  It runs if no pack has a kernel that fits, or if the strides are not
   those of a kernel.

   SPDX-License-Identifier: Apache-2.0 */
#include "../../ops/element.h"
#include "../../ops/extent.h"
#include "../core/loops_walk.h"
#include "../core/tensor.h"
#include "portable.h"

/* The place of a window; in indices, that of its vector. */
struct place {
    const unsigned char *indices, *operand;
    unsigned char *result;
};

static void move(struct place *place, const struct kvmill_gather_axis *axis, int64_t turns) {
    place->indices += turns * axis->index;
    place->operand += turns * axis->from;
    place->result += turns * axis->to;
}

static struct place place_of(const struct kvmill_gather_windows *problem, int64_t window) {
    const struct kvmill_gather_geometry *geometry = problem->geometry;
    struct place place = {problem->indices, problem->operand, problem->result};
    for (int64_t a = geometry->axes - 1; a >= 0; a--) {
        move(&place, &geometry->axis[a], window % geometry->axis[a].extent);
        window /= geometry->axis[a].extent;
    }
    return place;
}

/* ---- Where a window lies ---- */

static int64_t clamp(int64_t start, int64_t most) {
    return start < 0 ? 0 : start > most ? most : start;
}

/* Whether a window is outside, that is, whether a start had to be clamped. */
static bool move_to_window(const struct kvmill_gather_geometry *geometry, struct place *place) {
    const struct kvmill_gather_shape *shape = &geometry->shape;
    DLDataType type = {shape->index_signed ? kDLInt : kDLUInt, (uint8_t)shape->index_bits, 1};
    bool outside = false;
    for (int c = 0; c < shape->components; c++) {
        const struct kvmill_gather_component *component = &geometry->component[c];
        int64_t start = kvmill_load_index(type, place->indices + component->index);
        int64_t at = clamp(start, component->most);
        outside |= at != start;
        place->operand += at * component->from;
    }
    return outside;
}

/* ---- Copying and filling ---- */

/* Bodies: context is the bytes side by side, or the geometry. */
static void fill_bytes(const void *context, unsigned char *const *at, int64_t count,
                       const int64_t *step) {
    const struct kvmill_gather_geometry *geometry = context;
    const int64_t whole = (int64_t)sizeof geometry->fill;
    for (int64_t i = 0; i < count; i++)
        for (int64_t begin = 0; begin < geometry->bytes; begin += whole) {
            int64_t left = geometry->bytes - begin;
            memcpy(at[1] + i * step[1] + begin, geometry->fill,
                   (size_t)(left < whole ? left : whole));
        }
}

static void set_loops(const struct kvmill_gather_geometry *geometry, struct loops *loops) {
    *loops = (struct loops){.sides = 2};
    for (int i = 0; i < KVMILL_MOST_WINDOW_LOOPS; i++) {
        const struct kvmill_window_loop *loop = &geometry->shape.loop[i];
        if (loop->extent == 0)
            continue;
        int64_t *step = kvmill_loops_add(loops, loop->extent);
        step[0] = loop->from;
        step[1] = loop->to;
    }
}

/* Units of work are pieces of windows; all pieces of a window except the last have the same length.
 */
static void run_gather(const void *pointer, int64_t first, int64_t last) {
    const struct kvmill_gather_windows *problem = pointer;
    struct kvmill_gather_geometry piece = *problem->geometry;
    struct loops loops;
    set_loops(&piece, &loops);
    for (int64_t u = first; u < last; u++) {
        struct place place = place_of(problem, u / piece.pieces);
        int64_t begin = u % piece.pieces * piece.piece;
        bool outside = move_to_window(&piece, &place);
        unsigned char *const base[] = {(unsigned char *)(uintptr_t)place.operand + begin,
                                       place.result + begin};
        piece.bytes = kvmill_min(piece.piece, problem->geometry->bytes - begin);
        if (outside && piece.shape.fill)
            kvmill_loops_walk(&loops, base, fill_bytes, &piece);
        else
            kvmill_loops_walk(&loops, base, kvmill_copy_elements, &piece.bytes);
    }
}

const struct kvmill_kernel kvmill_portable_gather = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_GATHER,
    .symbol = "kvmill_gather__portable",
    .isa = "portable",
    .run = run_gather,
};
