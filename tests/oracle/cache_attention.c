/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 32 };

/* ---- Floating types ---- */

struct floating {
    int mantissa, exponent; /* bits */
    int saturates, finite;
};

static const struct floating floating[] = {
    [ORACLE_F32] = {.mantissa = 23, .exponent = 8},
    [ORACLE_F16] = {.mantissa = 10, .exponent = 5},
    [ORACLE_BF16] = {.mantissa = 7, .exponent = 8},
    [ORACLE_E4M3] = {.mantissa = 3, .exponent = 4, .saturates = 1, .finite = 1},
    [ORACLE_E5M2] = {.mantissa = 2, .exponent = 5, .saturates = 1},
};

static int least_exponent(struct floating type) {
    return 2 - (1 << (type.exponent - 1));
}

static int most_exponent(struct floating type) {
    return 1 - least_exponent(type);
}

static int exponent_of(double x) {
    int exponent;
    frexp(x, &exponent);
    return exponent - 1;
}

/* x times 2^exponent, for what is far from the ends of double: most of the oracle's time was
 * ldexp's. */
static double scaled(double x, int exponent) {
    uint64_t bits = (uint64_t)(1023 + exponent) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return x * power;
}

/* Numbers of this magnitude are multiples of 2^quantum. */
static int quantum_of(struct floating type, double x) {
    int exponent = exponent_of(x);
    if (exponent < least_exponent(type))
        exponent = least_exponent(type);
    return exponent - type.mantissa;
}

/* E4M3 has one more exponent, of which the last mantissa is NaN's. */
static double largest_number(struct floating type) {
    return scaled(2 - scaled(type.finite ? 2 : 1, -type.mantissa),
                  most_exponent(type) + type.finite);
}

static double saturated(struct floating type, double x) {
    return type.saturates && fabs(x) > largest_number(type) ? copysign(largest_number(type), x) : x;
}

double oracle_round(enum oracle_type number, double x) {
    struct floating type = floating[number];
    if (x == 0 || !isfinite(x))
        return saturated(type, x);
    int quantum = quantum_of(type, x);
    double rounded = scaled(nearbyint(scaled(x, -quantum)), quantum);
    rounded = saturated(type, rounded);
    return fabs(rounded) >= scaled(1, most_exponent(type) + 1 + type.finite) ? copysign(INFINITY, x)
                                                                             : rounded;
}

static uint32_t encode_magnitude(struct floating type, double x) {
    uint32_t infinity = ((1u << type.exponent) - 1) << type.mantissa;
    if (isnan(x))
        return infinity | (type.finite ? 7u : 1u << (type.mantissa - 1));
    if (isinf(x))
        return infinity;
    if (x < scaled(1, least_exponent(type)))
        return (uint32_t)scaled(x, type.mantissa - least_exponent(type));
    int exponent = exponent_of(x);
    uint32_t mantissa = (uint32_t)scaled(x, type.mantissa - exponent) - (1u << type.mantissa);
    return (uint32_t)(exponent - least_exponent(type) + 1) << type.mantissa | mantissa;
}

uint32_t oracle_encode(enum oracle_type number, double x) {
    struct floating type = floating[number];
    uint32_t sign = (uint32_t)(signbit(x) != 0) << (type.mantissa + type.exponent);
    return sign | encode_magnitude(type, fabs(oracle_round(number, x)));
}

double oracle_decode(enum oracle_type number, uint32_t bits) {
    struct floating type = floating[number];
    uint32_t mantissa = bits & ((1u << type.mantissa) - 1);
    int exponent = (int)(bits >> type.mantissa & ((1u << type.exponent) - 1));
    double sign = bits >> (type.mantissa + type.exponent) & 1 ? -1 : 1;
    if (exponent == (1 << type.exponent) - 1 && (!type.finite || mantissa == 7))
        return mantissa != 0 ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * scaled(mantissa, least_exponent(type) - type.mantissa);
    return sign * scaled(mantissa + (1u << type.mantissa),
                         exponent - 1 + least_exponent(type) - type.mantissa);
}

/* ---- Arrays ---- */

int64_t oracle_bytes(enum oracle_type type, int64_t count) {
    switch (type) {
    case ORACLE_F32:
        return 4 * count;
    case ORACLE_F16:
    case ORACLE_BF16:
        return 2 * count;
    case ORACLE_I8:
    case ORACLE_E4M3:
    case ORACLE_E5M2:
        return count;
    case ORACLE_I4:
        return (count + 1) / 2;
    case ORACLE_Q5_1:
        return count / BLOCK * (2 + 2 + 4 + BLOCK / 2);
    case ORACLE_Q8_0:
        return count / BLOCK * (2 + BLOCK);
    default:
        return count / BLOCK * (2 + BLOCK / 2);
    }
}

static int get_nibble(const unsigned char *array, int64_t number) {
    return number % 2 == 0 ? array[number / 2] & 15 : array[number / 2] >> 4;
}

static void put_nibble(unsigned char *array, int64_t number, int nibble) {
    int byte = array[number / 2];
    byte = number % 2 == 0 ? (byte & 0xf0) | (nibble & 15) : (byte & 15) | (nibble & 15) << 4;
    array[number / 2] = (unsigned char)byte;
}

double oracle_get(enum oracle_type type, const unsigned char *array, int64_t number) {
    if (type == ORACLE_I4) {
        int nibble = get_nibble(array, number);
        return nibble < 8 ? nibble : nibble - 16;
    }
    if (type == ORACLE_I8)
        return array[number] < 128 ? array[number] : array[number] - 256;
    uint32_t bits = 0;
    int64_t size = oracle_bytes(type, 1);
    for (int64_t i = size - 1; i >= 0; i--)
        bits = bits << 8 | array[number * size + i];
    return oracle_decode(type, bits);
}

void oracle_put(enum oracle_type type, unsigned char *array, int64_t number, double x) {
    int64_t size = oracle_bytes(type, 1);
    if (type == ORACLE_I4) {
        put_nibble(array, number, (int)x);
    } else if (type == ORACLE_I8) {
        array[number] = (unsigned char)(int)x;
    } else {
        uint32_t bits = oracle_encode(type, x);
        for (int64_t i = 0; i < size; i++)
            array[number * size + i] = (unsigned char)(bits >> 8 * i);
    }
}

/* ---- Rows ---- */

int64_t oracle_row(const struct oracle_cache *cache, int64_t b, int64_t l, int64_t kv, int64_t s,
                   int64_t h) {
    int64_t B = cache->batch, L = cache->layers, K = cache->sides, N = cache->capacity,
            H = cache->heads, P = cache->page_size;
    switch (cache->layout + (cache->dynamic ? 2 : 0)) {
    case 0:
        return (((b * L + l) * K + kv) * N + s) * H + h;
    case 1:
        return (((l * B + b) * K + kv) * H + h) * N + s;
    case 2:
        return ((s * L + l) * K + kv) * H + h;
    case 3:
        return ((l * N + s) * K + kv) * H + h;
    case 4:
        return ((l * K + kv) * N + s) * H + h;
    case 5:
        return ((l * K + kv) * H + h) * N + s;
    default:
        return (((l * K + kv) * (N / P) + s / P) * H + h) * P + s % P;
    }
}

static unsigned char *row_of(const struct oracle_side *side, int64_t row) {
    return side->data + row * oracle_bytes(side->type, side->dim);
}

static int is_blocks(enum oracle_type type) {
    return type == ORACLE_Q8_0 || type == ORACLE_Q4_0 || type == ORACLE_Q5_1;
}

static int is_integer(enum oracle_type type) {
    return type == ORACLE_I8 || type == ORACLE_I4;
}

/* NaN if there is any. */
static double largest_magnitude(const double *x, int64_t count) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        if (isnan(x[i]) || fabs(x[i]) > largest)
            largest = fabs(x[i]);
    for (int64_t i = 0; i < count; i++)
        if (isnan(x[i]))
            largest = NAN;
    return largest;
}

/* Each step rounded to the type of the activations; a non-finite group has codes 0.  Rounding the
   double quotient of two short numbers again gives what one rounding gives. */
static double scale_of_group(enum oracle_type activation, int most, const double *x,
                             int64_t count) {
    double largest = largest_magnitude(x, count);
    if (!isfinite(largest))
        return largest;
    double least = oracle_round(activation, 1e-5);
    double scale = oracle_round(activation, largest / most);
    return scale > least ? scale : least;
}

static double code_of(enum oracle_type activation, int most, double x, double scale) {
    if (!isfinite(scale))
        return 0;
    double code = nearbyint(oracle_round(activation, x / scale));
    return code > most ? most : code < -most ? -most : code;
}

static void write_groups(const struct oracle_side *side, enum oracle_type activation, int64_t row,
                         const double *x) {
    int most = side->type == ORACLE_I8 ? 127 : 7;
    int64_t groups = side->dim / side->group;
    for (int64_t g = 0; g < groups; g++) {
        double scale = scale_of_group(activation, most, x + g * side->group, side->group);
        for (int64_t i = g * side->group; i < (g + 1) * side->group; i++)
            oracle_put(side->type, side->data, row * side->dim + i,
                       code_of(activation, most, x[i], scale));
        oracle_put(side->scale_type, side->scale, row * groups + g, scale);
    }
}

/* ---- llama.cpp's blocks: every step in float32 ---- */

static double f32(double x) {
    return oracle_round(ORACLE_F32, x);
}

static double inverse(double x) {
    return x == 0 ? 0 : f32(1 / x);
}

static void write_q8_0(unsigned char *block, const double *x) {
    double scale = f32(largest_magnitude(x, BLOCK) / 127), factor = inverse(scale);
    oracle_put(ORACLE_F16, block, 0, scale);
    for (int i = 0; i < BLOCK; i++)
        oracle_put(ORACLE_I8, block + 2, i, round(f32(x[i] * factor)));
}

static double first_extreme(const double *x) {
    double extreme = 0;
    for (int i = 0; i < BLOCK; i++)
        if (fabs(x[i]) > fabs(extreme))
            extreme = x[i];
    return extreme;
}

static void write_q4_0(unsigned char *block, const double *x) {
    double scale = f32(first_extreme(x) / -8), factor = inverse(scale);
    oracle_put(ORACLE_F16, block, 0, scale);
    for (int i = 0; i < BLOCK; i++) {
        int code = (int)f32(f32(x[i] * factor) + 8.5), half = BLOCK / 2;
        put_nibble(block + 2, i < half ? 2 * i : 2 * (i - half) + 1, code < 15 ? code : 15);
    }
}

/* Of finite numbers, with a range that has an inverse. */
static void write_q5_1(unsigned char *block, const double *x) {
    double least = x[0], most = x[0];
    for (int i = 1; i < BLOCK; i++) {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
    }
    double scale = f32(f32(most - least) / 31), factor = inverse(scale);
    oracle_put(ORACLE_F16, block, 0, scale);
    oracle_put(ORACLE_F16, block, 1, least);
    memset(block + 4, 0, 4);
    for (int i = 0; i < BLOCK; i++) {
        int code = (int)f32(f32(f32(x[i] - least) * factor) + 0.5), half = BLOCK / 2;
        put_nibble(block + 8, i < half ? 2 * i : 2 * (i - half) + 1, code & 15);
        block[4 + i / 8] = (unsigned char)(block[4 + i / 8] | (code >> 4) << i % 8);
    }
}

static double read_q5_1(const unsigned char *block, int i) {
    int half = BLOCK / 2, fifth = block[4 + i / 8] >> i % 8 & 1;
    int code = get_nibble(block + 8, i < half ? 2 * i : 2 * (i - half) + 1) + 16 * fifth;
    return f32(code * oracle_get(ORACLE_F16, block, 0) + oracle_get(ORACLE_F16, block, 1));
}

static double read_block(enum oracle_type type, const unsigned char *block, int i) {
    double scale = oracle_get(ORACLE_F16, block, 0);
    int half = BLOCK / 2;
    if (type == ORACLE_Q5_1)
        return read_q5_1(block, i);
    if (type == ORACLE_Q8_0)
        return scale * oracle_get(ORACLE_I8, block + 2, i);
    return scale * (get_nibble(block + 2, i < half ? 2 * i : 2 * (i - half) + 1) - 8);
}

static void write_blocks(const struct oracle_side *side, int64_t row, const double *x) {
    unsigned char *block = row_of(side, row);
    for (int64_t i = 0; i < side->dim; i += BLOCK) {
        (side->type == ORACLE_Q8_0   ? write_q8_0
         : side->type == ORACLE_Q4_0 ? write_q4_0
                                     : write_q5_1)(block, x + i);
        block += oracle_bytes(side->type, BLOCK);
    }
}

/* ---- Rows of any type ---- */

void oracle_write_row(const struct oracle_side *side, enum oracle_type activation, int64_t row,
                      const double *numbers) {
    if (is_blocks(side->type))
        write_blocks(side, row, numbers);
    else if (is_integer(side->type) && side->group != 0)
        write_groups(side, activation, row, numbers);
    else
        for (int64_t i = 0; i < side->dim; i++)
            oracle_put(side->type, side->data, row * side->dim + i, numbers[i]);
}

static double scale_at(const struct oracle_side *side, int64_t row, int64_t i) {
    return oracle_get(side->scale_type, side->scale,
                      row * (side->dim / side->group) + i / side->group);
}

void oracle_read_row_exact(const struct oracle_side *side, int64_t row, double *numbers) {
    for (int64_t i = 0; i < side->dim; i++) {
        const unsigned char *block =
            row_of(side, row) + oracle_bytes(side->type, i / BLOCK * BLOCK);
        if (is_blocks(side->type))
            numbers[i] = read_block(side->type, block, (int)(i % BLOCK));
        else
            numbers[i] = oracle_get(side->type, side->data, row * side->dim + i);
        if (is_integer(side->type) && side->group != 0)
            numbers[i] *= scale_at(side, row, i);
    }
}

void oracle_read_row(const struct oracle_side *side, enum oracle_type activation, int64_t row,
                     double *numbers) {
    oracle_read_row_exact(side, row, numbers);
    bool scaled = is_integer(side->type) && side->group != 0;
    for (int64_t i = 0; i < side->dim; i++) {
        if (scaled)
            numbers[i] = oracle_round(side->scale_type, numbers[i]);
        if (activation != ORACLE_I8)
            numbers[i] = oracle_round(activation, numbers[i]);
    }
}

/* ---- Store and load ---- */

int64_t oracle_slot(const struct oracle_attention *problem, int64_t sequence, int64_t position) {
    if (!problem->cache.dynamic)
        return position;
    if (problem->pages == 0)
        return problem->cachestarts[sequence] + position;
    return problem->cachestarts[sequence * problem->pages + position / problem->page_size] +
           position % problem->page_size;
}

static int64_t row_at(const struct oracle_attention *problem, bool value, int64_t sequence,
                      int64_t position, int64_t kv_head) {
    int64_t side = value && problem->cache.sides == 2;
    return oracle_row(&problem->cache, sequence, problem->layer, side,
                      oracle_slot(problem, sequence, position), kv_head);
}

static void get_row(enum oracle_type type, const unsigned char *array, int64_t row, int64_t dim,
                    double *numbers) {
    for (int64_t i = 0; i < dim; i++)
        numbers[i] = oracle_get(type, array, row * dim + i);
}

static void store_side(const struct oracle_attention *problem, bool value, int64_t sequence) {
    const struct oracle_side *side = value ? &problem->value : &problem->key;
    const unsigned char *current = value ? problem->current_value : problem->current_key;
    double *numbers = malloc((size_t)side->dim * sizeof *numbers);
    int64_t first = problem->seqstarts[sequence];
    for (int64_t t = first; t < problem->seqstarts[sequence + 1]; t++)
        for (int64_t h = 0; h < problem->kv_heads; h++) {
            int64_t position = problem->start_pos[sequence] + t - first;
            get_row(problem->activation, current, t * problem->kv_heads + h, side->dim, numbers);
            oracle_write_row(side, problem->activation,
                             row_at(problem, value, sequence, position, h), numbers);
        }
    free(numbers);
}

void oracle_store(const struct oracle_attention *problem) {
    for (int64_t b = 0; b < problem->sequences; b++) {
        store_side(problem, false, b);
        store_side(problem, true, b);
    }
}

static int64_t length_of(const struct oracle_attention *problem, int64_t sequence) {
    return problem->kvstarts[sequence + 1] - problem->kvstarts[sequence];
}

static void load_side(const struct oracle_attention *problem, bool value, int64_t sequence,
                      unsigned char *output) {
    const struct oracle_side *side = value ? &problem->value : &problem->key;
    double *numbers = malloc((size_t)side->dim * sizeof *numbers);
    int64_t heads = problem->kv_heads * problem->repeat;
    for (int64_t j = 0; j < length_of(problem, sequence); j++)
        for (int64_t h = 0; h < heads; h++) {
            int64_t to = (problem->kvstarts[sequence] + j) * heads + h;
            oracle_read_row(side, problem->activation,
                            row_at(problem, value, sequence, j, h / problem->repeat), numbers);
            for (int64_t i = 0; i < side->dim; i++)
                oracle_put(problem->activation, output, to * side->dim + i, numbers[i]);
        }
    free(numbers);
}

void oracle_load(const struct oracle_attention *problem, unsigned char *key, unsigned char *value) {
    for (int64_t b = 0; b < problem->sequences; b++) {
        load_side(problem, false, b, key);
        load_side(problem, true, b, value);
    }
}

/* ---- Attention ---- */

double oracle_alibi_slope(int64_t heads, int64_t head) {
    int64_t power = 1;
    while (power * 2 <= heads)
        power *= 2;
    if (head < power)
        return pow(2, -8.0 * (double)(head + 1) / (double)power);
    return pow(2, -4.0 * (double)(2 * (head - power) + 1) / (double)power);
}

/* One query row, and what it sees. */
struct query {
    int64_t sequence, token, head; /* the token's number among all */
    int64_t position, length;
    const double *key, *value; /* [length, dim] */
    double *numbers;           /* of the query */
    double *weight, *error;    /* [length + 1], the last one of the sink */
};

static bool is_visible(const struct oracle_attention *problem, const struct query *query,
                       int64_t j) {
    int64_t tokens = problem->seqstarts[query->sequence + 1] - problem->seqstarts[query->sequence];
    bool causal = problem->causal && tokens > 1 && query->sequence >= problem->decoding;
    if ((causal || problem->alibi) && j > query->position)
        return false;
    return problem->window == 0 || j > query->position - problem->window;
}

static double mask_at(const struct oracle_attention *problem, const struct query *query,
                      int64_t j) {
    if (problem->mask == NULL)
        return 0;
    return oracle_get(problem->activation, problem->mask,
                      query->sequence * problem->mask_sequence + query->head * problem->mask_head +
                          query->token * problem->mask_token +
                          problem->kvstarts[query->sequence] * problem->mask_kv + j);
}

static double alibi_at(const struct oracle_attention *problem, const struct query *query,
                       int64_t j) {
    if (!problem->alibi)
        return 0;
    int64_t heads = problem->alibi_heads != 0 ? problem->alibi_heads : problem->heads;
    return problem->alibi_scale * oracle_alibi_slope(heads, problem->alibi_first + query->head) *
           (double)(j - query->position);
}

/* Half the distance of float32 neighbours of 1, and how many of these a sum of n float32 terms may
   err, as a share of the sum of their magnitudes.  The bound that always holds, n, is useless for
   long caches: it would hide a lost token.  Rounding errors are independent enough that sqrt(n)
   with a factor of 8 is not exceeded either (Higham and Mary, 2019). */
static const double unit = 0x1p-24;

static double summing(int64_t n) {
    double root = 8 * sqrt((double)n);
    return (double)n < root ? (double)n : root;
}

/* The score of position j, and what float32 may err in it:
   - the sum over dim, with roundings of query * scale, of code * scale and of the product each
   time: summing(dim)
     + 4 units of the sum of magnitudes;
   - softcap: tanh is steep at most like the identity, and good to 8 units of the cap;
   - bias: slope, product and sum: 4 units of each magnitude that is added;
   - what the largest score is subtracted from it: a unit of either is counted in `share`. */
static double score_at(const struct oracle_attention *problem, const struct query *query, int64_t j,
                       double *error) {
    int64_t dim = problem->key.dim;
    double sum = 0, magnitude = 0;
    for (int64_t i = 0; i < dim; i++) {
        double product = query->numbers[i] * query->key[j * dim + i] * problem->scale;
        sum += product;
        magnitude += fabs(product);
    }
    *error = (summing(dim) + 4) * unit * magnitude;
    if (problem->softcap != 0) {
        sum = problem->softcap * tanh(sum / problem->softcap);
        *error += 8 * unit * problem->softcap;
    }
    double alibi = alibi_at(problem, query, j), mask = mask_at(problem, query, j);
    *error += isinf(mask) ? 0 : 4 * unit * (fabs(alibi) + fabs(mask));
    return sum + alibi + mask;
}

/* Scores of all visible positions, -infinity of the others, and of the sink; the largest. */
static double find_scores(const struct oracle_attention *problem, const struct query *query) {
    double largest = -INFINITY;
    int64_t sink = query->length;
    for (int64_t j = 0; j < query->length; j++) {
        query->weight[j] = -INFINITY;
        query->error[j] = 0;
        if (is_visible(problem, query, j))
            query->weight[j] = score_at(problem, query, j, &query->error[j]);
    }
    query->error[sink] = 0;
    query->weight[sink] = problem->sinks == NULL
                              ? -INFINITY
                              : oracle_get(problem->sinks_type, problem->sinks, query->head);
    for (int64_t j = 0; j <= sink; j++)
        if (isnan(query->weight[j]) || query->weight[j] > largest)
            largest = query->weight[j];
    return largest;
}

/* Scores become shares of the whole; their error becomes relative: exp turns an absolute error into
   that, and itself, its argument's subtraction and rescaling when a larger score comes err by no
   more than 64 units and 2 of the scores' magnitudes. */
static double share(const struct query *query, double largest) {
    double total = 0;
    for (int64_t j = 0; j <= query->length; j++) {
        double *weight = &query->weight[j], magnitude = fabs(*weight) + fabs(largest);
        query->error[j] += isinf(*weight) ? 0 : unit * (64 + 2 * magnitude);
        *weight = *weight == -INFINITY ? 0 : exp(*weight - largest);
        total += *weight;
    }
    for (int64_t j = 0; j <= query->length; j++)
        query->weight[j] /= total;
    return total;
}

/* Errors of the weights w move the result y by sum of w e |v - y|, sums and division by summing(n)
   + 4 units of sum of w |v| and of |y|. */
static void weigh(const struct oracle_attention *problem, const struct query *query, double *output,
                  double *error) {
    int64_t dim = problem->value.dim, sink = query->length;
    double units = (summing(query->length) + 4) * unit;
    for (int64_t d = 0; d < dim; d++)
        output[d] = error[d] = 0;
    for (int64_t j = 0; j < query->length; j++)
        for (int64_t d = 0; d < dim && query->weight[j] != 0; d++) {
            output[d] += query->weight[j] * query->value[j * dim + d];
            error[d] += units * query->weight[j] * fabs(query->value[j * dim + d]);
        }
    for (int64_t j = 0; j < query->length; j++)
        for (int64_t d = 0; d < dim && query->weight[j] != 0; d++)
            error[d] +=
                query->weight[j] * query->error[j] * fabs(query->value[j * dim + d] - output[d]);
    for (int64_t d = 0; d < dim; d++)
        error[d] += (units + query->weight[sink] * query->error[sink]) * fabs(output[d]);
}

/* Elements that share a scale; 0 where there are no scales. */
static int64_t group_of(const struct oracle_side *side) {
    return is_blocks(side->type) ? BLOCK : is_integer(side->type) ? side->group : 0;
}

/* Like fmax, no call. */
static double larger(double x, double largest) {
    return x > largest ? x : largest;
}

/* Of weight times value, which is 127 scales; no scale is below 1e-5. */
static double largest_share(const struct oracle_attention *problem, const struct query *query,
                            int64_t from, int64_t count) {
    double largest = 0, least = is_integer(problem->value.type) ? 127e-5 : 0;
    for (int64_t j = 0; j < query->length; j++) {
        const double *value = query->value + j * problem->value.dim + from;
        double extreme = least;
        for (int64_t d = 0; d < count && query->weight[j] != 0; d++)
            extreme = larger(fabs(value[d]), extreme);
        largest = larger(query->weight[j] * extreme, largest);
    }
    return largest;
}

/* Weights of codes may be integers, a unit being 2^-24 of the largest weight times scale there is:
   what dims of small codes lose is a share of what others of their group have. */
static void count_digits(const struct oracle_attention *problem, const struct query *query,
                         double *error) {
    int64_t group = group_of(&problem->value);
    for (int64_t from = 0; group > 0 && from < problem->value.dim; from += group) {
        double lost = summing(query->length) * unit * largest_share(problem, query, from, group);
        for (int64_t d = from; d < from + group; d++)
            error[d] += lost;
    }
}

static void attend_row(const struct oracle_attention *problem, const struct query *query,
                       const struct oracle_result *result) {
    int64_t row = query->token * problem->heads + query->head, dim = problem->value.dim;
    double largest = find_scores(problem, query);
    bool empty = largest == -INFINITY;
    double total = empty ? 0 : share(query, largest), moved = 0;
    if (!empty)
        weigh(problem, query, result->output + row * dim, result->output_error + row * dim);
    if (!empty)
        count_digits(problem, query, result->output_error + row * dim);
    for (int64_t d = 0; d < dim && empty; d++) {
        result->output[row * dim + d] = problem->empty_is_nan ? NAN : 0;
        result->output_error[row * dim + d] = 0;
    }
    for (int64_t j = 0; j <= query->length && !empty; j++)
        moved += query->weight[j] * query->error[j];
    result->lse[row] = empty ? -INFINITY : largest + log(total);
    result->lse_error[row] =
        empty ? 0 : moved + unit * (summing(query->length) + 8 + 4 * fabs(result->lse[row]));
}

static double *read_rows(const struct oracle_attention *problem, bool value, int64_t sequence,
                         int64_t kv_head) {
    const struct oracle_side *side = value ? &problem->value : &problem->key;
    int64_t length = length_of(problem, sequence);
    double *numbers = malloc((size_t)(length * side->dim + 1) * sizeof *numbers);
    for (int64_t j = 0; j < length; j++)
        oracle_read_row_exact(side, row_at(problem, value, sequence, j, kv_head),
                              numbers + j * side->dim);
    return numbers;
}

static void attend_head(const struct oracle_attention *problem, struct query *query,
                        const struct oracle_result *result) {
    int64_t first = problem->seqstarts[query->sequence],
            last = problem->seqstarts[query->sequence + 1];
    for (query->token = first; query->token < last; query->token++) {
        query->position = query->length - (last - query->token);
        get_row(problem->activation, problem->query, query->token * problem->heads + query->head,
                problem->key.dim, query->numbers);
        attend_row(problem, query, result);
    }
}

/* All query heads of a kv head. */
static void attend_group(const struct oracle_attention *problem, int64_t sequence, int64_t kv_head,
                         const struct oracle_result *result) {
    int64_t length = length_of(problem, sequence), ratio = problem->heads / problem->kv_heads;
    double *key = read_rows(problem, false, sequence, kv_head);
    double *value = read_rows(problem, true, sequence, kv_head);
    double *scratch = malloc((size_t)(problem->key.dim + 2 * (length + 1)) * sizeof *scratch);
    struct query query = {.sequence = sequence,
                          .length = length,
                          .key = key,
                          .value = value,
                          .numbers = scratch,
                          .weight = scratch + problem->key.dim,
                          .error = scratch + problem->key.dim + length + 1};
    for (query.head = kv_head * ratio; query.head < (kv_head + 1) * ratio; query.head++)
        attend_head(problem, &query, result);
    free(scratch);
    free(value);
    free(key);
}

void oracle_attend(const struct oracle_attention *problem, const struct oracle_result *result) {
    for (int64_t b = 0; b < problem->sequences; b++)
        for (int64_t h = 0; h < problem->kv_heads; h++)
            attend_group(problem, b, h, result);
}
