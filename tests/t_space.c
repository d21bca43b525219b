/* Search spaces: legal points, neighbours, their text; and problems as text.

   SPDX-License-Identifier: Apache-2.0 */
#include "../tune/problem.h"
#include "../tune/random.h"
#include "../tune/space.h"
#include "common.h"

static struct error error; /* of the last failure */

static const int64_t tiles[] = {1, 2, 4, 8}, strips[] = {1, 2, 3};
static const char *const paths[] = {"float", "half", "codes"};
static const struct parameter parameters[] = {
    {.name = "tile", .values = tiles, .count = 4, .preset = 1},
    {.name = "strip", .values = strips, .count = 3, .preset = 2},
    {.name = "path", .words = paths, .count = 3},
};

/* Codes fit all tiles except 4; the context is the most that tile times strip may be. */
static bool fits(const struct space *space, const struct point *point) {
    int64_t tile = tiles[point->at[0]], strip = strips[point->at[1]];
    if (strcmp(paths[point->at[2]], "codes") == 0 && tile == 4)
        return false;
    return tile * strip <= *(const int64_t *)space->context;
}

static const int64_t most = 8;
static const struct space space = {parameters, 3, fits, &most};

TEST(counts) {
    static const struct space free_space = {parameters, 3, NULL, NULL};
    struct point point;
    int seen = 0, illegal = 0;
    for (bool more = space_first(&space, &point); more; more = space_next(&space, &point)) {
        seen++;
        illegal += !fits(&space, &point);
    }
    /* Nine of twelve pairs of tile and strip are small enough; two with tile 4 are not for
       codes. */
    ok(seen == 25 && illegal == 0, "25 legal points, seen %d", seen);
    ok(space_count(&space, 1000) == 25 && space_count(&space, 7) == 7, "counting stops at a bound");
    ok(space_count(&free_space, 1000) == 36, "without a constraint all combinations are legal");
}

TEST(random) {
    uint64_t random = 1, again = 1;
    int counts[4][3][3] = {{{0}}}, missing = 0, differences = 0;
    struct point point;
    for (int i = 0; i < 2500; i++) {
        struct point drawn = space_random(&space, &random), same = space_random(&space, &again);
        differences += !points_equal(&drawn, &same) || !fits(&space, &drawn);
        counts[drawn.at[0]][drawn.at[1]][drawn.at[2]]++;
    }
    for (bool more = space_first(&space, &point); more; more = space_next(&space, &point)) {
        int count = counts[point.at[0]][point.at[1]][point.at[2]];
        missing += count < 50 || count > 200;
    }
    ok(differences == 0, "random points are legal, the same from the same seed");
    ok(missing == 0, "and about equally likely");
}

static bool needs_one(const struct space *given, const struct point *point) {
    for (int i = 0; i < given->count; i++)
        if (point->at[i] != 3)
            return false;
    return true;
}

TEST(sparse) {
    static const int64_t values[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    struct parameter five[5];
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    struct space sparse = {five, 5, needs_one, NULL};
    uint64_t random = 3;
    for (int i = 0; i < 5; i++)
        five[i] = (struct parameter){names[i], values, NULL, 10, 3};
    struct point point = space_random(&sparse, &random);
    ok(needs_one(&sparse, &point), "the one legal point of 100000 is found");
    ok(space_neighbours(&sparse, &point, (struct point[MOST_NEIGHBOURS]){{{0}}}) == 0,
       "and has no neighbours");
}

/* POINT NEIGHBOURS. */
ROWS(neighbours, 2) {
    struct point point, neighbours[MOST_NEIGHBOURS];
    OWN(text_free) struct text text = {0};
    must(space_parse(&space, cells[0], &point, &error), error.text);
    int count = space_neighbours(&space, &point, neighbours);
    for (int i = 0; i < count; i++)
        must(text_print(&text, i > 0 ? ", " : "") && space_print(&space, &neighbours[i], &text),
             "out of memory");
    ok_text(text.data, cells[1], "neighbours of %s", cells[0]);
}

TEST(text) {
    struct point point, back;
    int wrong = 0;
    for (bool more = space_first(&space, &point); more; more = space_next(&space, &point)) {
        OWN(text_free) struct text text = {0};
        wrong += !space_print(&space, &point, &text) ||
                 !space_parse(&space, text.data, &back, &error) || !points_equal(&point, &back);
    }
    ok(wrong == 0, "every point's text gives the point");
    struct point preset = space_default(&space);
    ok(space_parse(&space, " ", &point, &error) && points_equal(&point, &preset),
       "no text is the default");
    ok(space_parse(&space, "path=half  tile=1", &point, &error) && point.at[0] == 0 &&
           point.at[1] == 2 && point.at[2] == 1,
       "any order; what is left out has its default");
}

ROWS(refused, 2) {
    struct point point;
    ok_failed(space_parse(&space, cells[0], &point, &error), &error, EXIT_USER, NULL, cells[1],
              "\"%s\" is refused", cells[0]);
}

TEST(bad_spaces) {
    static const int64_t falling[] = {2, 1};
    static const int64_t none = 0;
    struct parameter p[2] = {parameters[0], parameters[1]};
    struct space given = {p, 2, NULL, NULL};
    ok(space_check(&space, &error) && space_check(&given, &error), "good spaces are accepted");
    p[1].name = "tile";
    ok(!space_check(&given, &error) && error.exit_code == EXIT_BUG, "two of one name");
    p[1] = (struct parameter){.name = "strip", .values = falling, .count = 2};
    ok(!space_check(&given, &error), "values that fall");
    p[1] = (struct parameter){.name = "strip", .values = strips, .count = 3, .preset = 3};
    ok(!space_check(&given, &error), "a default that is no value");
    p[1] = (struct parameter){.name = "a strip", .values = strips, .count = 3};
    ok(!space_check(&given, &error), "a name that is no word");
    ok(!space_check(&(struct space){parameters, 3, fits, &none}, &error),
       "a default that is not legal");
    ok(!space_check(&(struct space){parameters, 0, NULL, NULL}, &error), "no parameter");
}

/* ---- Problems as text, and their sizes ---- */

ROWS(problem, 4) {
    struct kvmill_call_size size = {-1, -1, -1};
    ok(problem_parse(cells[0], &size) && size.batch == atoi(cells[1]) &&
           size.tokens == atoi(cells[2]) && size.positions == atoi(cells[3]),
       "%s", cells[0]);
}

ROWS(no_problem, 1) {
    struct kvmill_call_size size;
    ok(!problem_parse(cells[0], &size), "of no form: \"%s\"", cells[0]);
}

TABLE(spaces);
