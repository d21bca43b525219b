/* words -- compares every version of a word that an instruction set has with its meaning, on random
   and on difficult arguments.  tests/words_calls.awk makes the functions that this program calls.
   Prints a line of TAP for each version, or for those of the named word.

   SPDX-License-Identifier: Apache-2.0 */
#include "words_cases.h"

#include "../runtime/core/numbers.h"
#include "fence.h"
#include "tap.h"

enum {
    ROUNDS = 4000,
    WRITTEN_ROUNDS = 1000,
    MOST_VALUES = 6, /* a result and five arguments */
    READ = 1024,
    WRITTEN = 2048,
};

/* ---- Random and awkward numbers ---- */

static struct dice dice;
static int round_number;

int below(int n) {
    return (int)dice_range(&dice, 0, n - 1);
}

static float edge_float(void) {
    static const uint32_t edges[] = {
        0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x7f800001,
        1,          0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x3f800000,
        0xbf800000, 0x3f000000, 0x3effffff, 0x3f000001, 0x477fe000, 0x477fefff, 0x477ff000,
        0x33800000, 0x33000000, 0x33000001, 0x38800000, 0x387fffff, 0x3f808000, 0x3f818000,
        0x7f7f8000, 0x4b000000, 0xcb000001};
    return kvmill_float_of_bits(edges[below(sizeof edges / sizeof *edges)]);
}

/* Returns a number halfway between two numbers of `bits` bits less, or next to that. */
static float tie(int bits) {
    uint32_t u = (uint32_t)dice_bits(&dice) & 0xbfffffff, half = 1u << (bits - 1);
    u = (u & ~(2 * half - 1)) | half;
    return kvmill_float_of_bits(u + (uint32_t)below(3) - 1);
}

static float some_float(void) {
    int kind = below(6);
    return kind == 0   ? edge_float()
           : kind == 1 ? kvmill_float_of_bits((uint32_t)dice_bits(&dice))
           : kind == 2 ? tie(13)
           : kind == 3 ? tie(16)
           : kind == 4 ? ldexpf((float)(below(2000001) - 1000000), -14 - below(14))
                       : (float)(below(513) - 256) / 2;
}

int32_t some_word(void) {
    static const int32_t edges[] = {0,    1,    -1,   INT32_MAX, INT32_MIN, 127, 128,
                                    -127, -128, -129, 7,         8,         -7,  -8,
                                    -9,   255,  256,  65535,     0x7f800000};
    int kind = below(4);
    return kind == 0   ? edges[below(sizeof edges / sizeof *edges)]
           : kind == 1 ? below(513) - 256
           : kind == 2 ? below(17) - 8
                       : (int32_t)dice_bits(&dice);
}

/* Returns all halves, one after the other. */
static uint16_t some_half(int i, int lanes) {
    return (uint16_t)(round_number * lanes + i);
}

/* ---- Arguments with conditions ---- */

float moderate_float(void) {
    return ldexpf((float)(below(2000001) - 1000000), -20);
}

static float exponent(void) {
    return below(50) == 0 ? NAN : (float)(below(240001) - 120000) / 1000;
}

/* Returns an exponent, also exponents with result 0. */
float any_exponent(void) {
    static const float least[] = {-127, -200, -INFINITY};
    return below(10) == 0 ? least[below(3)] : exponent();
}

/* Returns a number that does not round to zero: rounded zeros may have either sign. */
float beyond_half(void) {
    float x = exponent();
    return fabsf(x) <= 0.5f ? 1 : x;
}

float near_integer(void) {
    float x = (float)(below(2) ? below(300) - 150 : below(1 << 23) - (1 << 22)) / 2;
    return below(2) ? x : nextafterf(x, below(2) ? INFINITY : -INFINITY);
}

/* Returns x in a type with `bits` bits less. */
static float shortened(float x, int bits) {
    return kvmill_float_of_bits(kvmill_bits_of_float(x) & ~((1u << bits) - 1));
}

void make_quotient(union value *v, int i, int bits) {
    float scale = shortened(ldexpf(1 + (float)below(1 << 23) / (1 << 23), below(16) - 12), bits);
    float codes = (float)(below(254001) - 127000) / 1000;
    v[1].floats[i] = shortened(scale * codes, bits);
    v[2].floats[i] = scale;
    v[3].floats[i] = 1 / scale;
}

/* ---- A case ---- */

/* Arrays that are read end at a page that traps; arrays that are written have guards on both
   sides. */
struct scene {
    struct fence read[4];
    unsigned char written[2][WRITTEN] __attribute__((aligned(64)));
};

static void make_vector(union value *v, char kind, int lanes) {
    for (int i = 0; i < lanes; i++)
        if (kind == 'v')
            v->floats[i] = some_float();
        else
            v->words[i] = kind == 'k' ? some_half(i, lanes) : some_word();
    for (int i = 0; (kind == 'h' && i < lanes) || (kind == 'x' && i < 2 * lanes); i++)
        v->halves[i] = some_half(i, lanes);
}

static void make_number(union value *v, char kind, int lanes) {
    if (kind == 'f')
        v->floats[0] = some_float();
    else if (kind == 'i' || kind == 'u')
        v->words[0] = some_word();
    else if (kind == 'b')
        v->wide = (int64_t)dice_bits(&dice) << 16 ^ (int64_t)dice_bits(&dice);
    else if (kind == 'l')
        v->wide = below(8) ? below(3 * lanes) - lanes : (int64_t)(dice_bits(&dice) << 20);
    else
        v->count = (size_t)below(lanes + 1);
}

static void fill_read(unsigned char *to, int bytes, int bits) {
    for (int i = 0; i + 4 <= bytes && bits == 32; i += 4) {
        float x = some_float();
        memcpy(to + i, &x, 4);
    }
    for (int i = 0; i < bytes && bits < 32; i++)
        to[i] = (unsigned char)(bits == 16 ? some_half(i / 2, bytes / 2) >> i % 2 * 8
                                           : round_number + i);
}

static size_t count_of(const struct word *word, const union value *v) {
    const char *at = strchr(word->parameters, 'n');
    return at != NULL ? v[1 + (at - word->parameters)].count : 0;
}

static void make_read(const struct word *word, const struct rule *rule, union value *v,
                      struct scene *scene, int lanes) {
    size_t elements = rule->read_elements < 0
                          ? count_of(word, v)
                          : (size_t)(rule->read_elements ? rule->read_elements : lanes);
    size_t bytes = (elements * (size_t)rule->read_bits + 7) / 8;
    for (int k = 0, read = 0; word->parameters[k] != '\0'; k++)
        if (word->parameters[k] == 'p') {
            unsigned char *from = scene->read[read++].data + READ - bytes;
            fill_read(from, (int)bytes, rule->read_bits);
            v[k + 1].pointer = from;
        }
}

static bool writes(const struct word *word) {
    return strpbrk(word->parameters, "qa") != NULL;
}

static void make_written(struct scene *scene) {
    for (int i = 0; i < WRITTEN; i += 4) {
        float x = some_float();
        memcpy(scene->written[0] + i, &x, 4);
    }
    memcpy(scene->written[1], scene->written[0], WRITTEN);
}

static void make_argument(union value *v, char kind, int lanes) {
    if (strchr("vwkhx", kind) != NULL)
        make_vector(v, kind, lanes);
    else if (strchr("pqa", kind) == NULL)
        make_number(v, kind, lanes);
}

static void make_case(const struct word *word, union value *v, struct scene *scene, int lanes) {
    const struct rule rule = rule_of(word->name);
    memset(v, 0, MOST_VALUES * sizeof *v);
    for (int k = 0; word->parameters[k] != '\0'; k++)
        make_argument(&v[k + 1], rule.kind ? rule.kind : word->parameters[k], lanes);
    if (rule.read_elements >= 0)
        make_read(word, &rule, v, scene, lanes);
    if (rule.fit != NULL)
        rule.fit(v, lanes);
    if (rule.read_elements < 0)
        make_read(word, &rule, v, scene, lanes);
    if (writes(word))
        make_written(scene);
}

/* Calls the version or the meaning.  Stores of whole vectors are aligned; for the others it does
   not matter. */
static void call(const struct word *word, bool is_meaning, union value *v, unsigned char *written) {
    int at = strncmp(word->name, "stream_", 7) == 0 || strchr(word->parameters, 'a')
                 ? 128
                 : 128 + round_number % 16 * 4;
    for (int k = 0; word->parameters[k] != '\0'; k++)
        if (word->parameters[k] == 'q' || word->parameters[k] == 'a')
            v[k + 1].pointer = written + at;
    (is_meaning ? word->meaning : word->call)(v);
}

/* ---- Judging ---- */

static bool is_nan(uint32_t bits) {
    return (bits & 0x7fffffff) > 0x7f800000;
}

static float largest_argument(const struct word *word, const union value *v, int lanes) {
    float largest = 0;
    for (int k = 0; word->parameters[k] != '\0'; k++)
        for (int i = 0; word->parameters[k] == 'v' && i < lanes; i++)
            largest = fmaxf(largest, fabsf(v[k + 1].floats[i]));
    return largest;
}

static bool same_float(const struct word *word, const union value *v, uint32_t a, uint32_t b,
                       int lanes) {
    if (a == b || (is_nan(a) && is_nan(b)))
        return true;
    float tolerance = rule_of(word->name).tolerance;
    return tolerance > 0 && fabsf(kvmill_float_of_bits(a) - kvmill_float_of_bits(b)) <=
                                tolerance * largest_argument(word, v, lanes);
}

static bool same_half(uint16_t a, uint16_t b) {
    return a == b || ((a & 0x7fff) > 0x7c00 && (b & 0x7fff) > 0x7c00);
}

static bool same_result(const struct word *word, const union value *got, const union value *meant,
                        int lanes) {
    int size = word->result == '-' ? 0 : strchr("vw", word->result) ? lanes : 1;
    bool is_float = word->result == 'v' || word->result == 'f';
    if (strcmp(word->name, "pack_lanes") == 0)
        size = __builtin_popcount(meant[2].bits[0]);
    if (word->result == 'h')
        return memcmp(got, meant, 2 * (size_t)lanes) == 0;
    for (int i = 0; word->result == 'x' && i < 2 * lanes; i++)
        if (!same_half(got->halves[i], meant->halves[i]))
            return false;
    for (int i = 0; word->result != 'x' && i < size; i++)
        if (is_float ? !same_float(word, meant, got->bits[i], meant->bits[i], lanes)
                     : got->bits[i] != meant->bits[i])
            return false;
    return true;
}

/* Makes a truth value 0 or 1: only the sign of these words' results counts. */
static void make_truth(const struct word *word, union value *v) {
    if (strcmp(word->name, "any_from") == 0)
        v[0].words[0] = v[0].words[0] != 0;
}

static bool same_written(const struct word *word, const struct scene *scene) {
    if (!writes(word))
        return true;
    if (strcmp(word->name, "add_halves") != 0)
        return memcmp(scene->written[0], scene->written[1], WRITTEN) == 0;
    for (int i = 0; i < WRITTEN; i += 4) {
        uint32_t a, b;
        memcpy(&a, scene->written[0] + i, 4);
        memcpy(&b, scene->written[1] + i, 4);
        if (a != b && !(is_nan(a) && is_nan(b)))
            return false;
    }
    return true;
}

static void show(const struct word *word, const union value *got, const union value *meant,
                 int lanes) {
    for (int i = 0; i < lanes; i++) {
        diag("%s, round %d, lane %d: %08x, not %08x", word->version, round_number, i,
             got[0].bits[i], meant[0].bits[i]);
        for (int k = 1; k < MOST_VALUES; k++)
            diag("  argument %d: %08x", k, meant[k].bits[i]);
    }
}

/* Returns the number of rounds; words of halves get all halves. */
static int rounds_of(const struct word *word) {
    const struct rule rule = rule_of(word->name);
    bool has_halves = strpbrk(word->parameters, "hx") || rule.kind == 'k' || rule.read_bits == 16;
    return has_halves ? 65536 / lanes_of_isa : writes(word) ? WRITTEN_ROUNDS : ROUNDS;
}

static int cases_of(const struct word *word, struct scene *scene, bool *good) {
    int cases = 0, lanes = lanes_of_isa;
    union value got[MOST_VALUES], meant[MOST_VALUES];
    *good = true;
    for (round_number = 0; *good && round_number < rounds_of(word); round_number++, cases++) {
        make_case(word, meant, scene, lanes);
        memcpy(got, meant, sizeof got);
        call(word, false, got, scene->written[0]);
        call(word, true, meant, scene->written[1]);
        make_truth(word, got);
        make_truth(word, meant);
        *good = same_result(word, got, meant, lanes) && same_written(word, scene);
    }
    if (!*good)
        show(word, got, meant, lanes);
    return cases;
}

int main(int count, char **name) {
    static struct scene scene;
    dice = dice_for("words");
    for (int k = 0; k < 4; k++)
        fence_open(&scene.read[k], READ, FENCE_FLUSH, FENCE_ABOVE, &dice);
    for (const struct word *word = words_of_isa; word->name != NULL; word++) {
        bool good;
        if (count > 1 && strcmp(name[1], word->name) != 0)
            continue;
        diag("%s", word->name); /* printed first: a word may crash */
        int cases = cases_of(word, &scene, &good);
        ok(good && cases > 0, "%s: %d cases", word->version, cases);
    }
    return done_testing();
}
