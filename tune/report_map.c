/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "report_charts.h"
#include "report_svg.h"

struct map {
    const struct parameter *across, *down;
    double best[MOST_VALUES][MOST_VALUES]; /* gain, or 0 */
    const char *candidate[MOST_VALUES][MOST_VALUES];
    double least, most;
};

static void note_best(struct map *map, int row, int column, const struct standing *s) {
    if (s->gain.median <= map->best[row][column])
        return;
    map->best[row][column] = s->gain.median;
    map->candidate[row][column] = s->result->candidate;
}

static void fill_map(const struct report_entry *entry, const int pair[2], struct map *map) {
    const struct parameter *parameters = sweep_space_of(entry->space)->parameters;
    map->across = &parameters[pair[1]];
    map->down = &parameters[pair[0]];
    for (size_t i = 0; i < entry->ranking.count; i++) {
        const struct point *point = sweep_space_point(entry->space, i);
        note_best(map, point->at[pair[0]], point->at[pair[1]], &entry->ranking.items[i]);
    }
    map->least = HUGE_VAL;
    for (int row = 0; row < map->down->count; row++)
        for (int column = 0; column < map->across->count; column++) {
            double best = map->best[row][column];
            map->most = fmax(map->most, best);
            map->least = best > 0 ? fmin(map->least, best) : map->least;
        }
}

static void value_words(const struct parameter *p, int i, char words[FIGURE_SIZE]) {
    if (p->words != NULL)
        snprintf(words, FIGURE_SIZE, "%.38s", p->words[i]);
    else
        snprintf(words, FIGURE_SIZE, "%lld", (long long)p->values[i]);
}

enum { MAP_LEFT = 72, MAP_TOP = 40, CELL_HEIGHT = 26 };

static void draw_cell(const struct map *map, int row, int column, double width, FILE *out) {
    char text[FIGURE_SIZE], title[TITLE_SIZE];
    double x = MAP_LEFT + column * width, y = MAP_TOP + row * CELL_HEIGHT;
    double best = map->best[row][column];
    if (best == 0) {
        svg_rect(out, x + 1, y + 1, width - 2, CELL_HEIGHT - 2, "empty", 1, "none was measured");
        return;
    }
    double heat = map->most > map->least ? (best - map->least) / (map->most - map->least) : 1;
    snprintf(title, sizeof title, "%.2f × the default: %.200s", best, map->candidate[row][column]);
    svg_rect(out, x + 1, y + 1, width - 2, CELL_HEIGHT - 2, "heat", 0.08 + 0.92 * heat, title);
    snprintf(text, sizeof text, "%.2f", best);
    if (width >= 34)
        svg_text(out, x + width / 2, y + CELL_HEIGHT / 2 + 4, heat > 0.62 ? "hot" : "cold",
                 "middle", text);
}

static void draw_rows(const struct map *map, double width, FILE *out) {
    char words[FIGURE_SIZE];
    for (int row = 0; row < map->down->count; row++) {
        value_words(map->down, row, words);
        svg_text(out, MAP_LEFT - 8, MAP_TOP + row * CELL_HEIGHT + CELL_HEIGHT / 2 + 4, "tick",
                 "end", words);
        for (int column = 0; column < map->across->count; column++)
            draw_cell(map, row, column, width, out);
    }
}

void chart_map(const struct report_entry *entry, const int pair[2], FILE *out) {
    enum { WIDEST = 58, NARROWEST = 14, ROOM = 380 };
    struct map map = {0};
    char words[FIGURE_SIZE], label[160];
    fill_map(entry, pair, &map);
    double width = fmax(NARROWEST, fmin(WIDEST, ROOM / map.across->count));
    snprintf(label, sizeof label, "best speed over the default by %.60s and %.60s", map.down->name,
             map.across->name);
    svg_begin(out, fmax(MAP_LEFT + width * map.across->count + 8, 200),
              MAP_TOP + CELL_HEIGHT * map.down->count + 8, label);
    svg_text(out, MAP_LEFT - 8, MAP_TOP - 8, "axisname", "end", map.down->name);
    svg_text(out, MAP_LEFT + width * map.across->count / 2, 12, "axisname", "middle",
             map.across->name);
    for (int column = 0; column < map.across->count; column++) {
        value_words(map.across, column, words);
        svg_text(out, MAP_LEFT + width * (column + 0.5), MAP_TOP - 8, "tick", "middle", words);
    }
    draw_rows(&map, width, out);
    svg_end(out);
}
