m4_divert(-1)
m4_dnl float8.m4 -- floats of 8 bits; km_part gives the sizes of their fields.  Numbers that are too large are stored as
m4_dnl the largest number; NaN stays NaN.

m4_dnl _km_float8_end(T) -- the bits of infinity; in a type without infinity, of the NaN after the largest number.
m4_define(«_km_float8_end», «km_if(km_part(«is_finite», $1), 127, «m4_eval(128 - (1 << km_part(«mantissa», $1)))»)»)
m4_define(«_km_float8_shift», «m4_eval(23 - km_part(«mantissa», $1))»)
m4_define(«_km_float8_gap», «m4_eval(128 - (1 << (km_part(«exponent», $1) - 1)))»)

m4_dnl The value of the last bit of a subnormal number: 2^(gap - 126 - mantissa).
m4_define(«_km_float8_unit», «0x1p«»m4_eval(_km_float8_gap($1) - 126 - km_part(«mantissa», $1))«»f»)

m4_dnl Subnormal results: adding `next`, whose last place is the smallest number of the type, rounds the sum to it.
m4_define(«_km_float8_words», «km_inline(«vf», «load_$1(const void *from)»)
{
    vi b = load_u8(from), magnitude = b & 0x7f;
    vi quiet = (magnitude > m4_eval(_km_float8_end(«$1») - km_part(«is_finite», «$1»))) & 0x400000;
    vf normal = (vf)((magnitude << _km_float8_shift(«$1»)) + (_km_float8_gap(«$1») << 23));
    vf small = __builtin_convertvector(magnitude, vf) * _km_float8_unit(«$1»);
    vf special = (vf)((magnitude << _km_float8_shift(«$1»)) | 0x7f800000 | quiet);
    vf x = choose(magnitude >= _km_float8_end(«$1»), special,
        choose(magnitude < m4_eval(1 << km_part(«mantissa», «$1»)), small, normal));
    return (vf)((vi)x | (b & 0x80) << 24);
}

km_inline(«vf», «load_some_$1(const void *from, size_t count)»)
{
    unsigned char whole[LANES] = {0};
    memcpy(whole, from, count);
    return load_$1(whole);
}

km_inline(«void», «store_$1(void *to, vf x)»)
{
    const vf next = broadcast(0x1p23f * _km_float8_unit(«$1»));
    vi magnitude = (vi)x & 0x7fffffff, sign = (vi)((vu)x >> 24 & 0x80);
    vi odd = magnitude >> _km_float8_shift(«$1») & 1, half = odd + m4_eval((1 << (_km_float8_shift(«$1») - 1)) - 1);
    vi normal = (magnitude - (_km_float8_gap(«$1») << 23) + half) >> _km_float8_shift(«$1»);
    vi small = (vi)((vf)magnitude + next) - (vi)next;
    vi near = (vi)choose(magnitude < m4_eval(_km_float8_gap(«$1») + 1) << 23, (vf)small, (vf)normal);
    vi nan = km_if(km_part(«is_finite», «$1»), «broadcast_words(0x7f)»,
        «(magnitude >> _km_float8_shift(«$1») & m4_eval((1 << km_part(«mantissa»,
        «$1»)) - 1)) | m4_eval(_km_float8_end(«$1») + (1 << (km_part(«mantissa», «$1») - 1)))»);
    near = at_most(near, m4_eval(_km_float8_end(«$1») - 1));
    store_low_bytes(to, (vi)choose(magnitude > 0x7f800000, (vf)nan, (vf)near) | sign);
}

km_inline(«void», «stream_$1(void *to, vf x)»)
{
    store_$1(to, x);
}

»)
m4_divert(2)km_for_words(«T», «km_float8_formats», «_km_float8_words(T)»)m4_dnl
m4_divert(0)m4_dnl
