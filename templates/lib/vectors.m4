m4_dnl vectors.m4 -- types, and words that compute with vectors, compare, reduce and rearrange them.

m4_dnl km_lane_list(EXPRESSION OF L, LANES) -- the expression for every lane L, separated by commas.
m4_define(«km_lane_list»,
    «km_each(«L», 0, m4_eval(m4_ifelse(«$2», «», km_lanes, «$2») - 1), 1, «m4_ifelse(L, 0, «», «, »)$1»)»)

m4_dnl km_by_lane(TYPE, EXPRESSION OF i) -- the body of a function that returns a vector with this value in each lane i.
m4_define(«km_by_lane», «
    $1 result = {0};
    for (int i = 0; i < LANES; i++)
        result[i] = $2;
    return result;
»)

m4_dnl ---- Types: floats, signed and unsigned integers of 32 bits, and shorter integers; at most 64 bytes ----

m4_define(«_km_vector_type», «km_typedef(«$1», «typedef $2 $1 __attribute__((vector_size($3 * LANES)$4));
»)»)
km_helper(«INLINED», «#define INLINED m4_ifelse(m4_defn(«km_target»), «», «», «\
    »)static inline __attribute__((always_inline«»m4_ifelse(m4_defn(«km_target»), «», «», «, \
                                 target(km_target_text)»)))

»)
km_typedef(«LANES», «enum { LANES = km_lanes };
»)
_km_vector_type(«vf», «float», 4)
_km_vector_type(«vi», «int32_t», 4)
_km_vector_type(«vu», «uint32_t», 4)
_km_vector_type(«vf_any», «float», 4, «, aligned(1), may_alias»)
_km_vector_type(«vi_any», «int32_t», 4, «, aligned(1), may_alias»)
_km_vector_type(«halves», «uint16_t», 2)
_km_vector_type(«all_bytes», «uint8_t», 4)
_km_vector_type(«all_shorts», «uint16_t», 4)

m4_dnl ---- Bits of a float ----

km_helper(«bits_of», «km_inline(«uint32_t», «bits_of(float value)»)
{
    uint32_t u;
    memcpy(&u, &value, sizeof u);
    return u;
}

»)
km_helper(«float_of», «km_inline(«float», «float_of(uint32_t u)»)
{
    float value;
    memcpy(&value, &u, sizeof value);
    return value;
}

»)

m4_dnl ---- Arithmetic ----

km_word(«broadcast», «vf», «float x», «
    return (vf){km_lane_list(«x»)};
»)
km_word(«broadcast_words», «vi», «int32_t x», «
    return (vi){km_lane_list(«x»)};
»)
m4_dnl broadcast_pair(p) -- p[0] in the lower half of the lanes, p[1] in the upper half.
km_word(«broadcast_pair», «vf», «const float *p», «km_by_lane(«vf», «p[i >= LANES / 2]»)»)

m4_dnl choose(mask, a, b) -- a where the mask is all ones, b where it is 0.
km_word(«choose», «vf», «vi mask, vf a, vf b», «
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
»)
m4_dnl where_negative(x, a, b) -- a where the sign bit of x is set, otherwise b.
km_word(«where_negative», «vf», «vf x, vf a, vf b», «
    return choose((vi)x >> 31, a, b);
»)
km_word(«abs_f32», «vf», «vf x», «
    return (vf)((vi)x & 0x7fffffff);
»)
m4_dnl max_f32(a, b), min_f32(a, b) -- b if one of them is NaN, or if both are zeros.
km_word(«max_f32», «vf», «vf a, vf b», «km_by_lane(«vf», «a[i] > b[i] ? a[i] : b[i]»)», «
    return choose(a > b, a, b);
»)
km_word(«min_f32», «vf», «vf a, vf b», «km_by_lane(«vf», «a[i] < b[i] ? a[i] : b[i]»)», «
    return choose(a < b, a, b);
»)
m4_dnl at_most(b, most) -- the smaller of each integer and `most`.
km_word(«at_most», «vi», «vi b, int32_t most», «km_by_lane(«vi», «b[i] < most ? b[i] : most»)», «
    vi limit = broadcast_words(most);
    return (vi)choose(b < limit, (vf)b, (vf)limit);
»)
m4_dnl multiply(x, y) -- the rounded product.  Written as x * y, it could be fused with a sum that it is added to.
km_word(«multiply», «vf», «vf x, vf y», «km_by_lane(«vf», «x[i] * y[i]»)», «
    vf v = x * y;
    __asm__("" : "+km_register"(v));
    return v;
»)

m4_dnl held(x) -- keeps x in a register.  Otherwise compilers load a value that is used twice in a row from memory
m4_dnl twice, which is one load too many in loops that are limited by loads.
km_word(«held», «vf», «vf x», «km_by_lane(«vf», «x[i]»)», «
    __asm__("" : "+km_register"(x));
    return x;
»)

m4_dnl round_even(x), round_away(x), truncate(x) -- to integers: the nearest, ties to even; the nearest, ties away from
m4_dnl 0; towards 0.  From magnitudes of 2^23 on every float is an integer.  If the result is no int32_t, or x is NaN,
m4_dnl the result is any integer.
km_word(«round_even», «vi», «vf x», «km_by_lane(«vi», «(int32_t)bits_of(x[i] + 0x1.8p23f) - 0x4b400000»)», «
    return (vi)(x + 0x1.8p23f) - 0x4b400000;
»)
km_word(«round_away», «vi», «vf x», «
    vi n = round_even(x);
    for (int i = 0; i < LANES; i++) {
        float rest = x[i] - (float)n[i];
        n[i] += (x[i] > 0 && rest == 0.5f) - (x[i] < 0 && rest == -0.5f);
    }
    return n;
», «
    vi n = round_even(x);
    vf rest = x - __builtin_convertvector(n, vf);
    return n - ((x > 0.f) & (rest == 0.5f)) + ((x < 0.f) & (rest == -0.5f));
»)
km_word(«truncate», «vi», «vf x», «km_by_lane(«vi», «(int32_t)x[i]»)», «
    return __builtin_convertvector(x, vi);
»)

m4_dnl code_TYPE(x, s, inverse) -- x / s, rounded to TYPE and then to the nearest integer; at most 128.  For shorter
m4_dnl types, adding and subtracting a power of two rounds to the bits that TYPE has, however small the quotient is.
km_word(«code_f32», «vi», «vf x, vf s, vf inverse», «
    (void)inverse;
    return round_even(x / s);
»)
m4_define(«_km_code_short», «
    vf q = x / s, power = (vf)((vi)q & 0x7f800000) * $1;
    (void)inverse;
    return round_even((q + power) - power);
»)
km_word(«code_f16», «vi», «vf x, vf s, vf inverse», «_km_code_short(0x1.8p13f)»)
km_word(«code_bf16», «vi», «vf x, vf s, vf inverse», «_km_code_short(0x1.8p16f)»)

m4_dnl in_lanes(lanes) -- all ones in the lanes whose bit is set, 0 in the others.
km_word(«in_lanes», «vi», «uint32_t lanes», «km_by_lane(«vi», «-(int32_t)(lanes >> i & 1)»)», «
    const vu above = {km_lane_list(«m4_eval(31 - L)»)};
    return (vi)(((vu){0} + lanes) << above) >> 31;
»)

m4_dnl ---- Powers of two ----

m4_dnl nearest_whole(x) -- the nearest integer, as a float; the sign of a zero may be lost.
km_word(«nearest_whole», «vf», «vf x», «
    return x + 12582912.f - 12582912.f;
»)
m4_dnl times_power(x, n) -- x * 2^n, for x in [1/2, 2] and an integer n of at least -127.  With n = -127, 1 becomes 0,
m4_dnl and other x become at most 2^-125.
km_word(«times_power», «vf», «vf x, vf n», «
    vu exponent = (vu)__builtin_convertvector(choose(n == n, n, broadcast(0.f)), vi);
    return (vf)((vu)x + (exponent << 23));
»)
m4_dnl power_of_2(x) -- 2^x by a polynomial with a relative error of at most 2e-9; 0 if x is at most -127; NaN stays
m4_dnl NaN.
km_word(«power_of_2», «vf», «vf x», «
    x = max_f32(broadcast(-127.f), x);
    vf n = nearest_whole(x), f = x - n;
    vf y = broadcast(0.0001534581201f);
    y = y * f + 0.001339993122f;
    y = y * f + 0.009618488957f;
    y = y * f + 0.05550328777f;
    y = y * f + 0.2402264689f;
    y = y * f + 0.6931472057f;
    y = y * f + 1.0f;
    return times_power(y, n);
»)

m4_dnl ---- Reductions and masks ----

km_word(«largest_of», «float», «vf x», «
    float y = x[0];
    for (int i = 1; i < LANES; i++)
        y = x[i] > y ? x[i] : y;
    return y;
»)
km_word(«sum_of», «float», «vf x», «
    float y = x[0];
    for (int i = 1; i < LANES; i++)
        y += x[i];
    return y;
»)
m4_dnl any_from(b, least) -- whether any lane is at least `least`.  is_any_negative(b) -- whether any lane is negative.
km_word(«any_from», «int», «vi b, int32_t least», «
    int any = 0;
    for (int i = 0; i < LANES; i++)
        any |= b[i] >= least;
    return any;
»)
km_word(«is_any_negative», «int», «vi b», «
    int any = 0;
    for (int i = 0; i < LANES; i++)
        any |= b[i] < 0;
    return any;
»)
m4_dnl lanes_from(x, least) -- a bit for each lane, which is set if x is at least `least`.
km_word(«lanes_from», «uint32_t», «vi x, vi least», «
    uint32_t lanes = 0;
    for (int i = 0; i < LANES; i++)
        lanes |= (uint32_t)(x[i] >= least[i]) << i;
    return lanes;
»)
m4_dnl add_lanes_from(sum, x, least) -- adds 1 to `sum` in the lanes where x is at least `least`.
km_word(«add_lanes_from», «vi», «vi sum, vi x, vi least», «km_by_lane(«vi», «sum[i] + (x[i] >= least[i])»)», «
    return sum - (x >= least);
»)
m4_dnl pack_lanes(x, lanes) -- moves the lanes whose bit is set to the front, in order; the rest of the result is
m4_dnl undefined.
km_word(«pack_lanes», «vi», «vi x, uint32_t lanes», «
    vi y = {0};
    int count = 0;
    for (int i = 0; i < LANES; i++)
        if (lanes >> i & 1)
            y[count++] = x[i];
    return y;
»)
m4_dnl hide_outside(x, low, high) -- lanes outside [low, high) become -infinity.
km_word(«hide_outside», «vf», «vf x, int64_t low, int64_t high», «
    const vi lane = {km_lane_list(«L»)};
    int32_t from = (int32_t)(low < 0 ? 0 : low > LANES ? LANES : low);
    int32_t to = (int32_t)(high < 0 ? 0 : high > LANES ? LANES : high);
    return choose((lane >= from) & (lane < to), x, broadcast(-__builtin_inff()));
»)

m4_dnl ---- Moving lanes ----

m4_dnl A quad is a piece of four lanes; a vector has QUADS quads.
km_typedef(«QUADS», «enum { QUADS = LANES / 4 };
»)
m4_dnl load_quad(from) -- the same four floats in every quad.  store_quads(to, step, x) -- stores quad q to to[q *
m4_dnl step].
km_word(«load_quad», «vf», «const float *from», «km_by_lane(«vf», «from[i % 4]»)», «
    return __builtin_shufflevector(*(const vf_any *)from, *(const vf_any *)from, km_lane_list(«m4_eval(L % 4)»));
»)
km_word(«store_quads», «void», «float *to, int64_t step, vf x», «
    for (int q = 0; q < QUADS; q++)
        for (int i = 0; i < 4; i++)
            to[q * step + i] = x[4 * q + i];
», «
    for (int q = 0; q < QUADS; q++)
        memcpy(to + q * step, (const char *)&x + 16 * q, 16);
»)
m4_dnl load_quads(a, b, c, d) -- four floats for each quad, each quad from a place of its own.
km_word(«load_quads», «vf», «const void *a, const void *b, const void *c, const void *d», «
    const void *const from[] = {a, b, c, d};
    vf x;
    for (int q = 0; q < QUADS; q++)
        memcpy((char *)&x + 16 * q, from[q], 16);
    return x;
»)
m4_dnl transpose_quads(x) -- in each quad, x[i][j] becomes x[j][i].
km_word(«transpose_quads», «void», «vf x[4]», «
    for (int q = 0; q < LANES; q += 4)
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < i; j++) {
                float a = x[i][q + j];
                x[i][q + j] = x[j][q + i];
                x[j][q + i] = a;
            }
», «
    vf a = _km_unpack(«x[0]», «x[1]», 0), b = _km_unpack(«x[2]», «x[3]», 0);
    vf c = _km_unpack(«x[0]», «x[1]», 2), d = _km_unpack(«x[2]», «x[3]», 2);
    x[0] = _km_low_pairs(«a», «b»), x[1] = _km_high_pairs(«a», «b»);
    x[2] = _km_low_pairs(«c», «d»), x[3] = _km_high_pairs(«c», «d»);
»)
m4_dnl sum_quads(a, b, c, d) -- quad q of the result has the sums of quad q of a, of b, of c and of d.
km_word(«sum_quads», «vf», «vf a, vf b, vf c, vf d», «_km_each_quad(«_km_sum»)», «_km_fold_quads(«_km_sum»)»)
m4_dnl largest_quads(a, b, c, d) -- quad q of the result has the largest lane of quad q of a, of b, of c and of d.
km_word(«largest_quads», «vf», «vf a, vf b, vf c, vf d», «_km_each_quad(«_km_larger»)», «_km_fold_quads(«max_f32»)»)
m4_define(«_km_sum», «$1 + $2»)
m4_define(«_km_larger», «($1 > $2 ? $1 : $2)»)
m4_define(«_km_quad_of», «$1(($1(«$2[q]», «$2[q + 2]»)), ($1(«$2[q + 1]», «$2[q + 3]»)))»)
m4_define(«_km_each_quad», «
    vf y = {0};
    for (int q = 0; q < LANES; q += 4) {
        y[q] = _km_quad_of(«$1», «a»);
        y[q + 1] = _km_quad_of(«$1», «b»);
        y[q + 2] = _km_quad_of(«$1», «c»);
        y[q + 3] = _km_quad_of(«$1», «d»);
    }
    return y;
»)
m4_define(«_km_fold_quads», «
    vf ab = $1(_km_unpack(«a», «b», 0), _km_unpack(«a», «b», 2));
    vf cd = $1(_km_unpack(«c», «d», 0), _km_unpack(«c», «d», 2));
    return $1(_km_low_pairs(«ab», «cd»), _km_high_pairs(«ab», «cd»));
»)
m4_dnl add_quads(a, b) -- adds quads 0 and 1 of a, quads 2 and 3, and so on, then those of b.  larger_quads(a, b) --
m4_dnl takes the larger lanes of the same quads.
km_word(«add_quads», «vf», «vf a, vf b», «
    return _km_every_other_quad(0) + _km_every_other_quad(4);
»)
km_word(«larger_quads», «vf», «vf a, vf b», «
    return max_f32(_km_every_other_quad(0), _km_every_other_quad(4));
»)
m4_define(«_km_every_other_quad», «__builtin_shufflevector(a, b, km_lane_list(«m4_eval(L / 4 * 8 + L % 4 + $1)»))»)
m4_define(«_km_low_pairs»,
    «__builtin_shufflevector($1, $2, km_lane_list(«m4_eval(L / 4 * 4 + L % 2 + (L % 4 > 1) * km_lanes)»))»)
m4_define(«_km_high_pairs»,
    «__builtin_shufflevector($1, $2, km_lane_list(«m4_eval(L / 4 * 4 + L % 2 + 2 + (L % 4 > 1) * km_lanes)»))»)
m4_define(«_km_unpack»,
    «__builtin_shufflevector($1, $2, km_lane_list(«m4_eval(L / 4 * 4 + $3 + L % 4 / 2 + (L % 2) * km_lanes)»))»)

m4_dnl transpose(x) -- x[i][j] becomes x[j][i].  In vectors: for N = 1, 2, 4 ..., blocks of N lanes are exchanged with
m4_dnl blocks of the vector N further on.
km_word(«transpose», «void», «vf x[LANES]», «
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < i; j++) {
            float a = x[i][j];
            x[i][j] = x[j][i];
            x[j][i] = a;
        }
», «
    vf a, b;
_km_transpose(1)»)
m4_define(«_km_transpose», «m4_ifelse(m4_eval($1 < km_lanes), 1,
    «km_each(«I», 0, m4_eval(km_lanes - 1), 1, «km_if(I & $1, «», «    a = x[I], b = x[m4_eval(I + $1)];
    x[I] = __builtin_shufflevector(a, b, km_lane_list(«km_if(L & $1, «m4_eval(L - $1 + km_lanes)», «L»)»));
    x[m4_eval(I + $1)] = __builtin_shufflevector(a, b,
        km_lane_list(«km_if(L & $1, «m4_eval(L + km_lanes)», «m4_eval(L + $1)»)»));
»)»)_km_transpose(m4_eval($1 * 2))»)»)
m4_dnl km_turn(LOAD, STORE) -- LANES vectors that the expression LOAD gives for row J, and the statement STORE for
m4_dnl column J of them, x[J].
m4_define(«km_turn», «        vf x[LANES];
km_each(«J», 0, m4_eval(km_lanes - 1), 1, «        x[J] = $1;
»)        transpose(x);
km_each(«J», 0, m4_eval(km_lanes - 1), 1, «        $2;
»)»)
