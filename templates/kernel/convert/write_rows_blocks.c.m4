m4_dnl write_rows_blocks -- llama.cpp's blocks of 32 elements, with the same bits as its reference functions.
m4_define(«km_most», «km_part(«most», km_element)»)m4_dnl
m4_define(«km_offset», «km_part(«offset», km_element)»)m4_dnl
m4_define(«km_quant_group», «km_part(«block», km_element)»)m4_dnl
m4_define(«km_block_bytes», «km_part(«block_bytes», km_element)»)m4_dnl
m4_define(«km_q8», «m4_ifelse(km_part(«rule», km_element), «outwards», «$1», «$2»)»)m4_dnl
m4_define(«km_has_own_rule», «m4_ifdef(«km_quantise_»km_element, 1, 0)»)m4_dnl
m4_define(«km_sign», «m4_ifelse(km_activation, «f32», 31, 15)»)m4_dnl
m4_define(«km_rule_helpers», «km_peak_helpers«»m4_dnl
static int
is_finite(float x)
{
    return x - x == 0;
}

/* The code if the inverse of the scale overflows: the farthest one on the side of the element.  */
static int
extreme_code(uint32_t element, float inverse)
{
    if (element << m4_eval(32 - km_sign) == 0)
        return km_offset;
    return (element >> km_sign & 1) == (inverse < 0) ? km_most : km_q8(«-127», «0»);
}

/* Store a code in a block that was cleared before.  */
static void
put_code(unsigned char *to, int i, int code)
{
km_q8(«    to[2 + i] = (unsigned char)code;
», «    to[km_nibbles_at(km_element) + i % 16] |= (unsigned char)((code & 15) << i / 16 * 4);
km_by_bits_above(km_element, «», «    to[2 + i / 8] |= (unsigned char)(code >> 4 << i % 8);
», «    to[2 + i % 8] |= (unsigned char)(code >> 4 << (i % 16 / 8 * 4 + i / 16 * 2));
»)»)m4_dnl
}

static void
extreme_block(const unsigned char *from, float inverse, unsigned char *to)
{
    memset(to + 2, 0, m4_eval(km_block_bytes - 2));
    for (int i = 0; i < 32; i++)
        put_code(to, i, extreme_code(km_element_at(i), inverse));
}

static void
empty_block(float scale, unsigned char *to)
{
    uint16_t half = scale == scale ? scale > 0 ? 0x7c00 : 0xfc00 : 0x7e00;
    memset(to, 0, km_block_bytes);
    memcpy(to, &half, sizeof half);
    for (int i = 0; i < 32; i++)
        put_code(to, i, km_offset);
}

/* Blocks whose scale is not finite get codes of 0.  Blocks whose scale has no finite inverse get extreme codes.  */
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
m4_dnl A format with a rule of its own defines quantise(), which gets the floats of a block.
m4_define(«km_own_rule», «m4_indir(«km_quantise_»km_element)
km_function(«void», «quantise_row(const unsigned char *from, unsigned char *to)»)
{
    for (int b = 0; b < km_groups; b++) {
        float x[km_quant_group];
km_each(«I», 0, km_quant_group - 1, km_lanes, «m4_dnl
        store_f32(x + I, km_elements_at(I));
»)m4_dnl
        quantise(x, to);
        from += m4_eval(km_quant_group * km_size(km_activation));
        to += km_block_bytes;
    }
}

»)m4_dnl
km_head(«Write rows: blocks of 32 elements with their scale.», km_headers)
km_if(km_has_own_rule, «km_own_rule«»», «km_rule_helpers«»»)m4_dnl
m4_define(«km_scaled», «multiply(km_elements_at(«$1»), broadcast(inverse[km_at(E / 32)]))»)m4_dnl
m4_dnl Four vectors at a time, if the instruction set packs them and they are at most a block.
m4_define(«km_q8_at_once», «m4_eval(1 + 3 * (km_peak_bytes > 0 && km_lanes <= 8))»)m4_dnl
m4_define(«km_code_step», «m4_eval(km_lanes * km_q8(km_q8_at_once, 1))»)m4_dnl
m4_define(«km_q8_code», «round_away(km_scaled(E + I + m4_eval($1 * km_lanes)))»)m4_dnl
m4_define(«km_q8_codes», «m4_dnl
        km_if(km_q8_at_once > 1, «store_i8», «store_low_bytes»)(to + km_at(E / 32 * km_block_bytes + 2 + I), m4_dnl
km_q8_code(0)km_each(«K», 1, m4_eval(km_q8_at_once - 1), 1, «, km_q8_code(K)»));
»)m4_dnl
m4_define(«km_block_at», «to + km_at(E / 32 * km_block_bytes)»)m4_dnl
m4_define(«km_nibble_codes», «        {
            vi low = at_most(truncate(km_scaled(E + I) + km_offset.5f), km_most);
            vi high = at_most(truncate(km_scaled(E + I + 16) + km_offset.5f), km_most);
            km_store_halves(km_element, «km_block_at», «I», «low», «high»)m4_dnl
        }
»)m4_dnl
m4_dnl Scales of q8_0 are not negative.  In other formats, the scale has the opposite sign of the first element with the
m4_dnl largest magnitude.
m4_define(«km_q8_scales», «            vf s = km_typed(«value», km_activation)(peak) / 127.0f;
»)m4_dnl
m4_dnl The largest magnitudes of negative and of positive elements; negative if there is no such element.
m4_define(«km_extremes», «m4_dnl
km_largest(«lowest», «km_typed(«bits», km_unsigned)», «(vi){0}»)m4_dnl
km_largest(«highest», «km_typed(«flipped», km_unsigned)», «(vi){0}»)m4_dnl
            const uint32_t sign_bit = (uint32_t)1 << km_sign;
            vi low = (vi)((vu)lowest - sign_bit), high = (vi)((vu)highest - sign_bit);
            vi peak = (vi)choose(low > high, (vf)low, (vf)high);
»)m4_dnl
m4_define(«km_tied_scales», «            vi is_negative = km_if(km_by_vectors, «low > high», «{0}»);
            vi tied = km_if(km_by_vectors, «(low == high) & (peak > 0)», «peak > 0»);
            if (is_any_negative(tied)) {
                uint32_t negative = 0;
                int32_t magnitude[km_lanes];
                store_words(magnitude, peak & tied);
km_each(«K», 0, m4_eval(km_left - 1), 1, «m4_dnl
                if (magnitude[K] != 0)
                    negative |= km_typed(«starts_negative», km_unsigned)(km_bytes_of(K, 0), magnitude[K]) << K;
»)m4_dnl
                is_negative |= in_lanes(negative);
            }
            vi sign = (~is_negative | (peak == 0)) & INT32_MIN;
            vf s = (vf)((vi)km_typed(«value», km_activation)(peak) ^ sign) / km_offset.0f;
»)m4_dnl
m4_define(«km_known_batch», «m4_dnl
km_group_floats(«scale», km_batch_floats)m4_dnl
km_group_floats(«inverses», km_batch_floats)m4_dnl
    unsigned char halves[m4_eval(2 * km_batch_floats)];
    int wild = 0;
km_pad_rows(km_if(km_by_vectors, km_peak_bytes, km_size(km_activation)))m4_dnl
    /* Compute the scales.  */
km_each_groups(«m4_dnl
km_q8(«km_q8_scales», «km_tied_scales»)«»m4_dnl
            vf inverse = choose(s == 0.f, s, 1.0f / s);
            store_kept(scale + km_group, s);
            store_kept(inverses + km_group, inverse);
            store_f16(halves + 2 * (km_group), s);
            wild |= any_from(peak, km_infinite) | any_from((vi)abs_f32(inverse), 0x7f800000);
», km_if(km_by_vectors, «km_q8(«», ««km_extremes»»)»))m4_dnl
    /* Compute the codes.  */
    for (int r = 0; r < count; r++) {
        const unsigned char *from = row[r].from, *half = halves + m4_eval(2 * km_row_floats) * r;
        unsigned char *to = km_to(«$1»);
        const float *inverse = inverses + km_row_floats * r;
km_fetch_row«»m4_dnl
        for (int b = 0; b < km_groups; b++)
            memcpy(to + b * km_block_bytes, half + 2 * b, 2);
km_steps(«E», km_dim, 32, «        {
km_q8(«», «            km_declare_above(km_element)»)m4_dnl
km_steps(«I», km_q8(32, 16), km_code_step, «km_q8(«km_q8_codes», «km_nibble_codes»)»)m4_dnl
km_q8(«», «            km_store_above(km_element, «km_block_at»)»)m4_dnl
        }
»)m4_dnl
        if (wild)
            mend_blocks(row[r].from, scale + km_row_floats * r, inverse, to);
    }
»)m4_dnl
m4_define(«km_own_batch», «m4_dnl
    for (int r = 0; r < count; r++) {
km_fetch_row«»m4_dnl
        quantise_row(row[r].from, km_to(«$1»));
    }
»)m4_dnl
m4_dnl Codes count up from the least element: the largest key, and the largest complement of a key.  A block whose least
m4_dnl element is -0 goes through quantise_row(), because the first zero may be +0.
m4_define(«km_key_of_zero», «m4_ifelse(km_activation, «f32», «INT32_MIN», «(int32_t)0x80008000»)»)m4_dnl
m4_define(«km_least_and_most», «m4_dnl
km_largest(«most_key», «km_typed(«keys», km_unsigned)», «(vi){0} + km_key_of_zero»)m4_dnl
km_largest(«least_key», «~km_typed(«keys», km_unsigned)», «(vi){0} + ~km_key_of_zero»)m4_dnl
            least_key ^= m4_ifelse(km_activation, «f32», «-1», «0xffff»);
»)m4_dnl
m4_define(«km_of_key», «km_typed(«value», km_activation)(km_typed(«element_of_key», km_unsigned)($1))»)m4_dnl
m4_define(«km_range_code», «truncate(multiply(km_elements_at(E + $1) - broadcast(low[km_at(E / 32)]), m4_dnl
broadcast(inverse[km_at(E / 32)])) + 0.5f)»)m4_dnl
m4_define(«km_range_batch», «m4_dnl
km_group_floats(«lows», km_batch_floats)m4_dnl
km_group_floats(«inverses», km_batch_floats)m4_dnl
    unsigned char halves[2][m4_eval(2 * km_batch_floats)];
    int wild = 0;
    /* Compute scales and minimums.  */
km_each_groups(«m4_dnl
            vf low = km_of_key(«least_key»);
            vf s = (km_of_key(«most_key») - low) / km_most.0f;
            vf inverse = choose(s == 0.f, s, 1.0f / s);
            store_kept(lows + km_group, low);
            store_kept(inverses + km_group, inverse);
            store_f16(halves[0] + 2 * (km_group), s);
            store_f16(halves[1] + 2 * (km_group), low);
            wild |= any_from((vi)abs_f32(s), 0x7f800000) | any_from((vi)abs_f32(inverse), 0x7f800000);
            wild |= is_any_negative((vi)low == INT32_MIN);
», «km_least_and_most»)m4_dnl
    /* Compute the codes.  */
    for (int r = 0; r < count; r++) {
        const unsigned char *from = row[r].from;
        unsigned char *to = km_to(«$1»);
        const float *low = lows + km_row_floats * r, *inverse = inverses + km_row_floats * r;
km_fetch_row«»m4_dnl
        for (int b = 0; b < km_groups; b++) {
            memcpy(to + b * km_block_bytes, halves[0] + 2 * (km_row_floats * r + b), 2);
            memcpy(to + b * km_block_bytes + 2, halves[1] + 2 * (km_row_floats * r + b), 2);
        }
km_steps(«E», km_dim, 32, «        {
            km_declare_above(km_element)m4_dnl
km_each(«I», 0, 15, km_lanes, «        {
            vi a = km_range_code(I);
            vi b = km_range_code(m4_eval(I + 16));
            km_store_halves(km_element, «km_block_at», «I», «a», «b»)m4_dnl
        }
»)m4_dnl
            km_store_above(km_element, «km_block_at»)m4_dnl
        }
»)m4_dnl
    }
    if (wild)
        for (int r = 0; r < count; r++)
            quantise_row(row[r].from, km_to(«$1»));
»)m4_dnl
m4_define(«km_has_range», «(m4_ifelse(km_part(«rule», km_element), «range», 1, 0) && km_by_vectors)»)m4_dnl
m4_define(«km_blocks_batch», «km_if(km_has_range, «km_range_batch(«$1»)», «m4_dnl
km_if(km_has_own_rule, «km_own_batch(«$1»)», «km_known_batch(«$1»)»)»)»)m4_dnl
km_write_batches(«km_blocks_batch»)m4_dnl
km_convert_descriptor(«KVMILL_WRITE_ROWS»)m4_dnl
