/* For choice.test: runs pack `small` at a size, compares with the oracle, and prints which kernels
   attended.  Arguments: sequences, new tokens of each, positions of each.

   SPDX-License-Identifier: Apache-2.0 */

#include "attention_scenes.h"

extern const kvmill_pack kvmill_pack_small;

/* ---- The pack's kernels, which record their calls ---- */

enum { MOST_KERNELS = 8, MOST_RECORDS = 16 };

static struct kvmill_kernel kernels[MOST_KERNELS];
static const struct kvmill_kernel *list[MOST_KERNELS];
static struct kvmill_measured measured[MOST_RECORDS];
static bool called[MOST_KERNELS];

#define WATCH(i)                                                                                   \
    static void run_##i(const void *problem, int64_t first, int64_t last) {                        \
        called[i] = true;                                                                          \
        kvmill_pack_small.kernels[i]->run(problem, first, last);                                   \
    }
WATCH(0)
WATCH(1)
WATCH(2)
WATCH(3)
WATCH(4)
WATCH(5)
WATCH(6)
WATCH(7)
static void (*const runs[])(const void *, int64_t, int64_t) = {run_0, run_1, run_2, run_3,
                                                               run_4, run_5, run_6, run_7};

static const struct kvmill_kernel *copy_of(const struct kvmill_kernel *kernel) {
    for (uint32_t i = 0; i < kvmill_pack_small.count; i++)
        if (kvmill_pack_small.kernels[i] == kernel)
            return &kernels[i];
    bail_out("a record of a kernel that the pack has not");
}

static kvmill_pack watched(void) {
    kvmill_pack pack = kvmill_pack_small;
    if (pack.count > MOST_KERNELS || pack.measured_count > MOST_RECORDS)
        bail_out("%u kernels, %u records", pack.count, pack.measured_count);
    for (uint32_t i = 0; i < pack.count; i++) {
        kernels[i] = *pack.kernels[i];
        kernels[i].run = runs[i];
        list[i] = &kernels[i];
    }
    for (uint32_t i = 0; i < pack.measured_count; i++) {
        measured[i] = pack.measured[i];
        measured[i].kernel = copy_of(measured[i].kernel);
    }
    pack.kernels = list;
    pack.measured = measured;
    return pack;
}

/* ---- A run ---- */

static bool is_right(struct attention *a, const kvmill_pack *pack, struct dice *dice) {
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = &pack, .pack_count = 1, .threads = 2};
    bool right = true;
    attention_open(a, dice);
    attention_expect(a, dice);
    for (int threads = 0; right && threads <= 2; threads += 2) {
        tensors_restore(a->tensor, a->before, TENSORS);
        right = attention_runs_right(a, &options, threads, dice);
    }
    attention_close(a);
    return right;
}

int main(int count, char **arguments) {
    char settings[128];
    struct dice dice = dice_for("choice");
    const kvmill_pack pack = watched();
    must(count == 4, "accepted: SEQUENCES TOKENS POSITIONS");
    snprintf(settings, sizeof settings,
             "num_heads=2 num_kv_heads=1 head_dim=16 cache_layout=1 query_size=1 batch=%d "
             "tokens=%d start=%d",
             atoi(arguments[1]), atoi(arguments[2]), atoi(arguments[3]) - atoi(arguments[2]));
    struct attention a = attention_scene(S, settings);
    bool right = is_right(&a, &pack, &dice);
    printf("%s:", right ? "right" : "wrong");
    for (uint32_t i = 0; i < pack.count; i++)
        if (called[i] && kernels[i].family == KVMILL_ATTEND)
            printf(" %s", strstr(kernels[i].symbol, "__"));
    printf("\n");
    return !right;
}
