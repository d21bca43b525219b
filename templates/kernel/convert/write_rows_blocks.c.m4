m4_dnl write_rows_blocks -- llama.cpp's blocks of 32 elements, bit for bit as its reference functions make them.
m4_define(«km_quant_group», «km_part(«block», km_element)»)m4_dnl
m4_define(«km_block_bytes», «km_part(«block_bytes», km_element)»)m4_dnl
m4_define(«km_q8», «m4_ifelse(km_part(«rule», km_element), «outwards», «$1», «$2»)»)m4_dnl
m4_define(«km_has_own_rule», «m4_ifdef(«km_quantise_»km_element, 1, 0)»)m4_dnl
m4_define(«km_element_at», «*(const kvmill_word«»km_size(km_activation) *)(from + ($1) * km_size(km_activation))»)m4_dnl
m4_define(«km_sign», «m4_ifelse(km_activation, «f32», 31, 15)»)m4_dnl
m4_define(«km_rule_helpers», «km_peak_helpers«»m4_dnl
km_q8(«», «/* Whether the first element of that magnitude is negative; zeros are not.  */
static int
is_negative(const unsigned char *from, int32_t peak)
{
    uint32_t element = 0;
    for (int i = 0; i < 32; i++) {
        element = km_element_at(i);
        if ((element & ~(1u << km_sign)) == (uint32_t)peak)
            break;
    }
    return peak != 0 && element >> km_sign;
}

»)m4_dnl
static float
inverse_of(float scale)
{
    return scale == 0 ? 0 : 1 / scale;
}

static int
is_finite(float x)
{
    return x - x == 0;
}

/* The code where the inverse of the scale overflows: the farthest on the element's side.  */
static int
extreme_code(uint32_t element, float inverse)
{
    if (element << m4_eval(32 - km_sign) == 0)
        return km_q8(«0», «8»);
    return (element >> km_sign & 1) == (inverse < 0) ? km_q8(«127», «15») : km_q8(«-127», «0»);
}

static void
extreme_block(const unsigned char *from, float inverse, unsigned char *to)
{
    for (int i = 0; i < km_q8(32, 16); i++)
        to[2 + i] = (unsigned char)km_q8(«extreme_code(km_element_at(i), inverse)», «(extreme_code(km_element_at(i), inverse) | extreme_code(km_element_at(i + 16), inverse) << 4)»);
}

static void
empty_block(float scale, unsigned char *to)
{
    uint16_t half = scale == scale ? scale > 0 ? 0x7c00 : 0xfc00 : 0x7e00;
    memcpy(to, &half, sizeof half);
    for (int i = 0; i < km_q8(32, 16); i++)
        to[2 + i] = km_q8(«0», «0x88»);
}

/* Blocks with an element that is not finite have a scale that is not, and codes 0.  */
static __attribute__((noinline, cold)) void
mend_blocks(const unsigned char *from, const float *scale, const float *inverse, unsigned char *to)
{
    for (int b = 0; b < km_groups; b++, from += km_span, to += km_block_bytes) {
        if (!is_finite(scale[b]))
            empty_block(scale[b], to);
        else if (!is_finite(inverse[b]))
            extreme_block(from, inverse[b], to);
    }
}

»)m4_dnl
km_head(«Write rows: blocks of 32 elements with their scale.», km_headers)
km_if(km_has_own_rule, «m4_indir(«km_quantise_»km_element)
», «km_rule_helpers«»»)m4_dnl
m4_define(«km_scaled», «multiply(km_typed(«load», km_activation)(from + km_at(($1) * km_size(km_activation))), broadcast(inverse[km_at(E / 32)]))»)m4_dnl
m4_define(«km_code_at», «to + km_at(E / 32 * km_block_bytes + 2 + I)»)m4_dnl
m4_define(«km_q8_codes», «        store_low_bytes(km_code_at, round_away(km_scaled(E + I)));
»)m4_dnl
m4_define(«km_q4_codes», «        {
            vi low = at_most(truncate(km_scaled(E + I) + 8.5f), 15);
            vi high = at_most(truncate(km_scaled(E + I + 16) + 8.5f), 15);
            store_low_bytes(km_code_at, low | high << 4);
        }
»)m4_dnl
m4_define(«km_known_row», «    (void)scales;
km_if(km_by_vectors, «    int32_t peak[km_round_up(km_groups, km_lanes)];
»)m4_dnl
km_group_floats(«scale»)km_group_floats(«inverse»)m4_dnl
    unsigned char halves[m4_eval(2 * km_round_up(km_groups, km_lanes))];
    int wild = 0;
km_padded(«from», km_from_bytes, m4_ifelse(km_by_vectors, 1, km_peak_bytes, km_size(km_activation)))m4_dnl
km_peaks«»m4_dnl
km_steps(«G», km_groups, km_lanes, «    {
        vi peak_bits = km_peak(G);
        store_words(peak + G, peak_bits);
        store_kept(scale + G, km_typed(«value», km_activation)(peak_bits));
    }
»)m4_dnl
    for (int b = 0; b < km_groups; b++) {
        scale[b] = scale[b] / km_q8(«127», «(is_negative(from + b * km_span, peak[b]) ? 8.0f : -8.0f)»);
        inverse[b] = inverse_of(scale[b]);
        wild |= !is_finite(scale[b]) || !is_finite(inverse[b]);
    }
km_steps(«G», km_groups, km_lanes, «    store_f16(halves + km_at(2 * G), load_f32(scale + G));
»)m4_dnl
    for (int b = 0; b < km_groups; b++)
        memcpy(to + b * km_block_bytes, halves + 2 * b, 2);
km_steps(«E», km_dim, 32, «    {
km_steps(«I», km_q8(32, 16), km_lanes, «km_q8(«km_q8_codes», «km_q4_codes»)»)m4_dnl
    }
»)m4_dnl
    if (wild)
        mend_blocks(from, scale, inverse, to);
»)m4_dnl
m4_dnl A rule of the format's own takes floats.
m4_define(«km_own_row», «    (void)scales;
    for (int b = 0; b < km_groups; b++) {
        float x[km_quant_group];
km_each(«I», 0, km_quant_group - 1, km_lanes, «        store_f32(x + I, km_typed(«load», km_activation)(from + m4_eval(I * km_size(km_activation))));
»)m4_dnl
        quantise(x, to);
        from += m4_eval(km_quant_group * km_size(km_activation));
        to += km_block_bytes;
    }
»)m4_dnl
m4_define(«km_blocks_row», «km_if(km_has_own_rule, «km_own_row(«$1»)», «km_known_row(«$1»)»)»)m4_dnl
km_write(«km_blocks_row»)m4_dnl
km_convert_descriptor(«KVMILL_WRITE_ROWS»)m4_dnl
