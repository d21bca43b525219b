/* Measures of a selection's accuracy (examples/flow_accuracy.h), compared with numbers computed by
   hand and with properties of all masses.  Also tests that the keys for measuring
   (examples/flow_keys.h) make selection worthwhile.

   SPDX-License-Identifier: Apache-2.0 */
#include "../examples/flow_accuracy.h"
#include "../examples/flow_keys.h"
#include "program.h"

static bool is_near(double a, double b) {
    return fabs(a - b) <= 1e-9;
}

static struct page_list list_of(const int32_t *pages, int64_t count) {
    return (struct page_list){pages, count};
}

/* ---- Small examples ---- */

/* Two heads, and five tokens in three pages; the last page is half full. */
static double mass[] = {0.1, 0.2, 0.3, 0.1, 0.3, 0.05, 0.05, 0.1, 0.1, 0.7};
static const struct masses three = {5, 2, 2, mass};

TEST(masses) {
    const float query[] = {1, 0, 0, 2}, key[] = {0, 0, (float)log(2), 0};
    double own[4];
    const struct masses masses = {2, 1, 2, own};
    masses_fill(&masses, query, key, 2, 1);
    ok(fabs(own[0] - 1.0 / 3) < 1e-7 && fabs(own[1] - 2.0 / 3) < 1e-7, "a softmax over tokens");
    ok(is_near(own[2], 0.5) && is_near(own[3], 0.5), "  of each head");
    masses_fill(&masses, query, key, 2, 2);
    ok(fabs(own[1] - 0.8) < 1e-7, "  of scores with their scale");
}

TEST(lists) {
    static const int32_t first[] = {0}, last[] = {2}, both[] = {0, 2}, all[] = {0, 1, 2};
    ok(is_near(mass_coverage(&three, 0, list_of(both, 2)), 0.6) &&
           is_near(mass_coverage(&three, 1, list_of(both, 2)), 0.8),
       "coverage is the mass of the pages");
    ok(is_near(mass_coverage(&three, 1, list_of(all, 3)), 1) &&
           is_near(mass_coverage(&three, 1, list_of(all, 0)), 0),
       "  of all 1, of none 0");
    ok(is_near(mass_recall(&three, 0, list_of(last, 1), 2), 0.5) &&
           is_near(mass_recall(&three, 0, list_of(first, 1), 3), 1.0 / 3),
       "recall is the share of the heaviest");
    ok(is_near(mass_recall(&three, 1, list_of(first, 1), 4), 0.25), "  of equal ones the first");
    ok(is_near(mass_recall(&three, 1, list_of(all, 3), MOST_HEAVIEST), 1), "  at most of all");
    ok(is_near(list_overlap(list_of(both, 2), list_of(all, 3)), 2.0 / 3) &&
           is_near(list_overlap(list_of(first, 1), list_of(last, 1)), 0),
       "overlap is what both have of what one has");
}

TEST(oracle) {
    int32_t list[3];
    oracle_list(&three, 0, 0, list, 2);
    ok(list[0] == 1 && list[1] == 2, "the heaviest pages of both heads, in order");
    oracle_list(&three, 1, 1, list, 2);
    ok(list[0] == 0 && list[1] == 2, "  after the first and before the last");
    oracle_list(&three, 1, 0, list, 2);
    ok(list[0] == 0 && list[1] == 2, "  or after the first alone");
}

TEST(numbers) {
    const float a[] = {3, 4}, b[] = {0, 5};
    struct difference difference = vector_difference(a, b, 2);
    ok(is_near(difference.relative, sqrt(10) / 5) && is_near(difference.cosine, 0.8),
       "how far apart, and in which direction");
    double values[100];
    for (int i = 0; i < 100; i++)
        values[i] = 100 - i;
    struct spread spread = spread_of(values, 100);
    ok(is_near(spread.mean, 50.5) && is_near(spread.low, 6) && is_near(spread.least, 1),
       "mean, 5th percentile, least");
}

/* ---- Any masses ---- */

enum { PAGES = 40, PAGE = 3, TOKENS = PAGES * PAGE - 1, GROUP = 3, BOS = 1, EOS = 2 };

static void fill(struct dice *dice, const struct masses *masses) {
    for (int h = 0; h < masses->group; h++) {
        double sum = 0, *own = masses->mass + h * masses->tokens;
        for (int64_t t = 0; t < masses->tokens; t++)
            sum += own[t] = exp((double)dice_range(dice, 0, 600) / 100);
        for (int64_t t = 0; t < masses->tokens; t++)
            own[t] /= sum;
    }
}

/* Selects the first pages, the last ones, and random ones between them. */
static void draw(struct dice *dice, int32_t *list, int64_t count) {
    int64_t order[PAGES - BOS - EOS], used = 0;
    bool chosen[PAGES] = {false};
    dice_order(dice, order, PAGES - BOS - EOS);
    for (int64_t i = 0; i < count; i++)
        chosen[i < BOS ? i : i >= count - EOS ? PAGES - (count - i) : order[i - BOS] + BOS] = true;
    for (int32_t p = 0; p < PAGES; p++)
        if (chosen[p])
            list[used++] = p;
}

static double group_coverage(const struct masses *masses, struct page_list list) {
    double sum = 0;
    for (int h = 0; h < masses->group; h++)
        sum += mass_coverage(masses, h, list);
    return sum / masses->group;
}

TEST(any) {
    static double own[GROUP * TOKENS];
    struct dice dice = dice_for("masses");
    struct masses masses = {TOKENS, PAGE, GROUP, own};
    int32_t list[PAGES], best[PAGES];
    bool most = true, grows = true;
    for (int i = 0; i < 200; i++) {
        fill(&dice, &masses);
        int64_t count = dice_range(&dice, BOS + EOS, PAGES - 1);
        draw(&dice, list, count);
        oracle_list(&masses, BOS, EOS, best, count);
        double covered = group_coverage(&masses, list_of(best, count));
        most = most && covered >= group_coverage(&masses, list_of(list, count)) - 1e-12;
        oracle_list(&masses, BOS, EOS, best, count + 1);
        grows = grows && group_coverage(&masses, list_of(best, count + 1)) >= covered - 1e-12;
    }
    ok(most, "no list covers more than the oracle's");
    ok(grows, "  and a longer one covers more");
}

TEST(tokens) {
    static double own[TOKENS];
    struct dice dice = dice_for("tokens");
    struct masses masses = {TOKENS, 1, 1, own};
    int32_t best[MOST_HEAVIEST];
    fill(&dice, &masses);
    oracle_list(&masses, 0, 0, best, MOST_HEAVIEST);
    double found = mass_recall(&masses, 0, list_of(best, MOST_HEAVIEST), MOST_HEAVIEST);
    ok(is_near(found, 1), "in pages of one token the oracle finds the heaviest");
}

/* ---- Keys ---- */

enum {
    DIM = 64,
    KEYS = 4000,
    HEADS = 2,
    KEY_PAGE = 16,
    KEY_PAGES = KEYS / KEY_PAGE,
    SELECTED = 40
};

static struct masses masses_of(const struct flow_keys *keys, int kv_head, int64_t number) {
    float *key = malloc(sizeof *key * KEYS * DIM), query[GROUP * DIM];
    struct masses masses = {KEYS, KEY_PAGE, GROUP, malloc(sizeof(double) * GROUP * KEYS)};
    must(key != NULL && masses.mass != NULL, "out of memory");
    for (int64_t t = 0; t < KEYS; t++)
        flow_key(keys, kv_head, t, key + t * DIM);
    for (int h = 0; h < GROUP; h++)
        flow_query(keys, kv_head * GROUP + h, number, query + h * DIM);
    masses_fill(&masses, query, key, DIM, 1 / sqrt(DIM));
    free(key);
    return masses;
}

/* The best pages have on average twice the mass of the last pages. */
TEST(keys) {
    OWN(flow_keys_free) struct flow_keys keys;
    int32_t best[SELECTED], last[SELECTED];
    double found = 0, recent = 0;
    must(flow_keys_make(&keys, KEYS, HEADS, GROUP, DIM), "out of memory");
    for (int32_t i = 0; i < SELECTED; i++)
        last[i] = i == 0 ? 0 : KEY_PAGES - SELECTED + i;
    for (int n = 0; n < 8; n++) {
        struct masses masses = masses_of(&keys, n % HEADS, n);
        oracle_list(&masses, 1, 2, best, SELECTED);
        found += group_coverage(&masses, list_of(best, SELECTED)) / 8;
        recent += group_coverage(&masses, list_of(last, SELECTED)) / 8;
        free(masses.mass);
    }
    ok(found > 0.5 && found < 0.999 && found > 2 * recent,
       "pages differ: the best have %.2f of the mass, the last %.2f", found, recent);
    float a[DIM], b[DIM];
    flow_key(&keys, 1, 77, a);
    flow_key(&keys, 1, 77, b);
    ok(memcmp(a, b, sizeof a) == 0, "a key is the same again");
    flow_key(&keys, 0, 77, b);
    ok(memcmp(a, b, sizeof a) != 0, "  and another one of another head");
}
