m4_divert(-1)
m4_dnl vectors.m4 -- vectors of km_floats floats in C that every compiler knows.  An instruction set that can do
m4_dnl better redefines a word; each word is the text of one or more C functions.

m4_define(«km_floats», 4)
m4_dnl Sums that fit into registers beside what is added.
m4_define(«km_sums», 8)

m4_dnl km_lane_list(EXPRESSION OF L, LANES) -- the expression for every lane, by commas.
m4_define(«km_lane_list», «km_each(«L», 0, m4_eval(m4_ifelse(«$2», «», km_floats, «$2») - 1), 1, «m4_ifelse(L, 0, «», «, »)$1»)»)

m4_dnl km_vectors -- all of them.
m4_define(«km_vectors», «km_inlines«»m4_dnl
enum { LANES = km_floats };
typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));
typedef float vf_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef int32_t vi_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef int8_t bytes __attribute__((vector_size(LANES)));
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));

km_inline(«vf», «load(const float *from)»)
{
    return *(const vf_any *)from;
}

km_inline(«void», «store(float *to, vf x)»)
{
    *(vf_any *)to = x;
}

km_inline(«vf», «all(float x)»)
{
    return (vf){km_lane_list(«x»)};
}

/* Where the mask is all ones a, where it is 0 b.  */
km_inline(«vf», «choose(vi mask, vf a, vf b)»)
{
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

km_inline(«vi», «load_words(const int32_t *from)»)
{
    return *(const vi_any *)from;
}

km_inline(«void», «store_words(int32_t *to, vi x)»)
{
    *(vi_any *)to = x;
}

km_inline(«vi», «all_words(int32_t x)»)
{
    return (vi){km_lane_list(«x»)};
}

km_inline(«vf», «magnitude(vf x)»)
{
    return (vf)((vi)x & 0x7fffffff);
}

km_vector_arithmetic
km_vector_halves
/* Polynomial of least relative error, 2e-9.  NaN stays NaN.  */
km_inline(«vf», «power_of_2(vf x)»)
{
    vf f = fraction(x);
    vf y = all(0.0001534581201f);
    y = y * f + 0.001339993122f;
    y = y * f + 0.009618488957f;
    y = y * f + 0.05550328777f;
    y = y * f + 0.2402264689f;
    y = y * f + 0.6931472057f;
    y = y * f + 1.0f;
    return scaled(y, x - f);
}

/* Lanes outside [low, high) become -infinity.  */
km_inline(«vf», «hide(vf x, int64_t low, int64_t high)»)
{
    const vi lane = {km_lane_list(«L»)};
    int32_t from = (int32_t)(low < 0 ? 0 : low > LANES ? LANES : low);
    int32_t to = (int32_t)(high < 0 ? 0 : high > LANES ? LANES : high);
    return choose((lane >= from) & (lane < to), x, all(-__builtin_inff()));
}

km_vector_reductions
km_vector_widened
km_vector_spread_bytes
km_vector_types
km_vector_quads
m4_ifdef(«km_vector_codes», «km_vector_codes
»)m4_dnl
m4_ifdef(«km_vector_float16», «km_vector_float16
»)m4_dnl
km_vector_transpose»)

m4_define(«km_vector_arithmetic», «/* The second where one is NaN.  */
km_inline(«vf», «larger(vf a, vf b)»)
{
    return choose(a > b, a, b);
}

/* x less the nearest whole number; where 2^x is 0 that of a larger x.  */
km_inline(«vf», «fraction(vf x)»)
{
    x = larger(all(-150.f), x);
    return x - (x + 12582912.f - 12582912.f);
}

/* x * 2^n, x in [1/2, 2]; 0 where n < -125.  */
km_inline(«vf», «scaled(vf x, vf n)»)
{
    vi exponent = __builtin_convertvector(choose(n > -126.f, n, all(-126.f)), vi);
    vf result = x * (vf)((exponent + 127) << 23);
    return choose(n < -125.f, all(0.f), result);
}
»)

m4_define(«km_vector_halves», «/* float16 and back, to nearest even.  */
km_inline(«vf», «from_halves(halves h)»)
{
    vu bits = __builtin_convertvector(h, vu), magnitude = bits & 0x7fff;
    vf normal = (vf)((magnitude << 13) + (112U << 23));
    vf special = (vf)((magnitude << 13) | 0x7f800000U);
    vf small = __builtin_convertvector((vi)magnitude, vf) * 0x1p-24f;
    vf x = choose((vi)magnitude >= 0x7c00, special, choose((vi)magnitude < 0x400, small, normal));
    return (vf)((vu)x | (bits & 0x8000) << 16);
}

km_inline(«halves», «to_halves(vf x)»)
{
    vu bits = (vu)x, sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    vu normal = (magnitude - (112U << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    vu small = (vu)((vf)magnitude + 0.5f) - (vu)all(0.5f);
    vu nan = (magnitude >> 13 & 0x3ff) | 0x7e00;
    vi is_small = (vi)magnitude < (113 << 23), is_large = (vi)magnitude >= 0x477ff000;
    vi is_nan = (vi)magnitude > 0x7f800000;
    vu result = (vu)choose(is_small, (vf)small, (vf)normal);
    result = (vu)choose(is_large, (vf)((vu){0} + 0x7c00), (vf)result);
    result = (vu)choose(is_nan, (vf)nan, (vf)result);
    return __builtin_convertvector(result | sign, halves);
}
»)

m4_define(«km_vector_reductions», «km_inline(«float», «largest_of(vf x)»)
{
    float y = x[0];
    for (int i = 1; i < LANES; i++)
        y = x[i] > y ? x[i] : y;
    return y;
}

km_inline(«float», «sum_of(vf x)»)
{
    float y = x[0];
    for (int i = 1; i < LANES; i++)
        y += x[i];
    return y;
}
»)

m4_define(«km_vector_load_i8», «km_inline(«vf», «load_i8(const void *from)»)
{
    bytes b;
    memcpy(&b, from, sizeof b);
    return __builtin_convertvector(__builtin_convertvector(b, vi), vf);
}
»)
m4_define(«km_vector_spread_bytes», «/* A byte in each lane; each of half as many bytes in two lanes.  */
km_inline(«vi», «spread(const void *from)»)
{
    typedef uint8_t unsigned_bytes __attribute__((vector_size(LANES)));
    unsigned_bytes b;
    memcpy(&b, from, sizeof b);
    return __builtin_convertvector(b, vi);
}

km_inline(«vi», «spread_twice(uint64_t bytes)»)
{
    return (vi){km_lane_list(«(int32_t)(bytes >> m4_eval(L / 2 * 8) & 255)»)};
}
»)
m4_define(«km_vector_widened», «km_inline(«vu», «widened(halves h)»)
{
    return __builtin_convertvector(h, vu);
}
»)

m4_dnl Loads and stores of LANES elements of a type, and of fewer: load_TYPE, load_some_TYPE, store_TYPE,
m4_dnl store_some_TYPE.  Nothing behind the last element is touched.
m4_define(«km_vector_types», «km_inline(«vf», «load_f32(const void *from)»)
{
    return *(const vf_any *)from;
}

km_inline(«void», «store_f32(void *to, vf x)»)
{
    *(vf_any *)to = x;
}

km_inline(«vf», «load_f16(const void *from)»)
{
    halves h;
    memcpy(&h, from, sizeof h);
    return from_halves(h);
}

km_inline(«void», «store_f16(void *to, vf x)»)
{
    halves h = to_halves(x);
    memcpy(to, &h, sizeof h);
}

km_inline(«vf», «load_bf16(const void *from)»)
{
    halves h;
    memcpy(&h, from, sizeof h);
    return (vf)(widened(h) << 16);
}

km_inline(«void», «store_bf16(void *to, vf x)»)
{
    vu bits = (vu)x, rounded = bits + 0x7fff + (bits >> 16 & 1);
    vu result = (vu)choose(x != x, (vf)(bits | 0x400000), (vf)rounded) >> 16;
    halves h = __builtin_convertvector(result, halves);
    memcpy(to, &h, sizeof h);
}

km_vector_load_i8
km_load_some(«f32», 4)
km_load_some(«f16», 2)
km_load_some(«bf16», 2)
km_load_some(«i8», 1)
km_store_some(«f32», 4)
km_store_some(«f16», 2)
km_store_some(«bf16», 2)»)

m4_define(«km_load_some», «km_inline(«vf», «load_some_$1(const void *from, size_t count)»)
{
    unsigned char whole[$2 * LANES] = {0};
    memcpy(whole, from, count * $2);
    return load_$1(whole);
}
»)

m4_define(«km_store_some», «km_inline(«void», «store_some_$1(void *to, vf x, size_t count)»)
{
    unsigned char whole[$2 * LANES];
    store_$1(whole, x);
    memcpy(to, whole, count * $2);
}
»)

m4_dnl Quads are the pieces of four lanes; QUADS of them make a vector.
m4_define(«km_vector_quads», «enum { QUADS = LANES / 4 };

km_vector_repeat
/* Quad q of the result holds the sums of the quads q of a, b, c and d.  */
km_inline(«vf», «sum_quads(vf a, vf b, vf c, vf d)»)
{
    vf ab = _km_unpack(«a», «b», 0) + _km_unpack(«a», «b», 2);
    vf cd = _km_unpack(«c», «d», 0) + _km_unpack(«c», «d», 2);
    return __builtin_shufflevector(ab, cd, km_lane_list(«m4_eval(L / 4 * 4 + L % 2 + (L % 4 > 1) * km_floats)»)) +
           __builtin_shufflevector(ab, cd, km_lane_list(«m4_eval(L / 4 * 4 + L % 2 + 2 + (L % 4 > 1) * km_floats)»));
}

km_vector_store_quads»)

m4_dnl repeat (from): four floats in every quad.  store_quads (to, step, x): quad q to to[q * step].
m4_define(«km_vector_repeat», «km_inline(«vf», «repeat(const float *from)»)
{
    return load(from);
}
»)
m4_define(«km_vector_store_quads», «km_inline(«void», «store_quads(float *to, int64_t step, vf x)»)
{
    (void)step;
    store(to, x);
}
»)
m4_define(«_km_unpack», «__builtin_shufflevector($1, $2, km_lane_list(«m4_eval(L / 4 * 4 + $3 + L % 4 / 2 + (L % 2) * km_floats)»))»)

m4_dnl transpose: x[i][j] becomes x[j][i]; blocks of 1, 2, 4 ... lanes change places with those of the vector
m4_dnl so many further on.
m4_define(«km_vector_transpose», «km_inline(«void», «transpose(vf x[LANES])»)
{
    vf a, b;
_km_transpose(1)}
»)
m4_define(«_km_transpose», «m4_ifelse(m4_eval($1 < km_floats), 1, «km_each(«I», 0, m4_eval(km_floats - 1), 1, «km_if(I & $1, «», «    a = x[I], b = x[m4_eval(I + $1)];
    x[I] = __builtin_shufflevector(a, b, km_lane_list(«km_if(L & $1, «m4_eval(L - $1 + km_floats)», «L»)»));
    x[m4_eval(I + $1)] = __builtin_shufflevector(a, b, km_lane_list(«km_if(L & $1, «m4_eval(L + km_floats)», «m4_eval(L + $1)»)»));
»)»)_km_transpose(m4_eval($1 * 2))»)»)

m4_dnl product: compilers contract products and sums if they see both.
m4_define(«km_vector_product», «_km_vector_product(«m»)»)
m4_define(«_km_vector_product», «km_inline(«vf», «product(vf x, vf y)»)
{
    vf v = x * y;
    __asm__("" : "+$1"(v));
    return v;
}
»)
m4_divert(0)m4_dnl
