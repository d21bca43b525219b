/* SPDX-License-Identifier: Apache-2.0 */
#include "sweeps.h"

#include "../tune/random.h"
#include "../tune/sweep_text.h"
#include "tap.h"

static const char *const paths[MADE_PATHS] = {"float", "half"};

struct sweep_key made_key(int which) {
    static const char *const problems[] = {"decode 4096 tokens", "prefill 512 tokens",
                                           "decode 32768 tokens"};
    return (struct sweep_key){.cpu = "MadeUp 6-1-1 Test CPU",
                              .compiler = "cc 1.0",
                              .flags = "-O3",
                              .templates = "0123456789abcdef",
                              .isa = "avx2",
                              .spec = "kvmill_attend_f16_f16_f16_d128_e128_none_g0_none_j0_"
                                      "r4_plain_f32__avx2_columns",
                              .problem = (char *)problems[which % 3],
                              .threads = 1 + which / 3,
                              .bytes = which % 3 == 1 ? 2e6 : 16e6,
                              .flops = which % 3 == 1 ? 4e9 : 0};
}

/* Returns the time relative to the default's: valleys in the logarithm of the tile and in the
   strip. */
static double slowness(int tile, int strip, int path) {
    double t = log2(tile) - 3, s = strip - 4;
    return (1 + 0.05 * t * t + 0.03 * s * s + 0.1 * (1 - path)) / 1.42 / 1.0563380281690140;
}

static void fill_samples(double *samples, double *baseline, double seconds, double noise,
                         uint64_t *random) {
    for (int i = 0; i < MADE_SAMPLES; i++) {
        double drift = 1 + noise * i / MADE_SAMPLES;
        double a = (double)random_below(random, 1000) / 500 - 1,
               b = (double)random_below(random, 1000) / 500 - 1;
        samples[i] = seconds * drift * (1 + noise * a);
        baseline[i] = 1e-3 * drift * (1 + noise * b);
    }
}

struct sweep_result made_result(int tile, int strip, int path, double noise) {
    static char candidate[64];
    static double samples[MADE_SAMPLES], baseline[MADE_SAMPLES];
    uint64_t random = (uint64_t)(tile * 100 + strip * 10 + path);
    bool is_default = tile == 2 && strip == 2 && path == 0;
    bool fails = !is_default && (tile + 3 * strip + path) % 7 == 6;
    snprintf(candidate, sizeof candidate, "tile=%d strip=%d path=%s", tile, strip, paths[path]);
    fill_samples(samples, baseline, 1e-3 * slowness(tile, strip, path), noise, &random);
    return (struct sweep_result){
        .candidate = candidate,
        .is_default = is_default,
        .outcome = fails ? OUTCOME_COMPILE : OUTCOME_MEASURED,
        .message = fails ? "error: too many registers" : "",
        .samples = fails ? NULL : samples,
        .baseline = fails || is_default ? NULL : baseline,
        .sample_count = fails ? 0 : MADE_SAMPLES,
        .limit = LIMIT_BYTES,
        .limit_rate = 30000000123.456,
        .code_bytes = 1000 + 64 * tile * strip,
        .measured = 1700000000000000 + tile * 10000 + strip * 100 + path,
        .environment = "governor=performance turbo=off smt=off virtual=none load=0.00 quota=all "
                       "processors=2",
    };
}

void make_sweep(struct sweeps *sweeps, int which, double noise) {
    struct sweep_key key = made_key(which);
    struct error error;
    for (int tile = 1; tile < 1 << MADE_TILES; tile *= 2)
        for (int strip = 1; strip <= MADE_STRIPS; strip++)
            for (int path = 0; path < MADE_PATHS; path++) {
                struct sweep_result result = made_result(tile, strip, path, noise);
                if ((tile < 32 || strip < 5) && !sweeps_add(sweeps, &key, &result, &error))
                    bail_out("%s", error.text);
            }
    sweeps_sort(sweeps);
}

struct sweeps make_sweeps(int count) {
    struct sweeps sweeps = {0};
    for (int i = 0; i < count; i++)
        make_sweep(&sweeps, i, 0.01);
    return sweeps;
}

char *sweeps_text(const struct sweeps *sweeps) {
    struct text text = {0};
    struct error error;
    must(sweeps_print(sweeps, &text, &error), error.text);
    return text.data;
}
