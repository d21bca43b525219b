m4_dnl write_rows_groups -- int8 and int4 codes with a scale for each group of elements.
m4_define(«km_most», «km_part(«most», km_element)»)m4_dnl
m4_define(«km_code_step», «m4_eval(km_lanes * 4)»)m4_dnl
m4_define(«km_code_bytes», «km_offset_of(km_element, «$1»)»)m4_dnl
m4_define(«km_scale_bytes», «m4_eval(($1) * km_size(km_scale))»)m4_dnl
m4_define(«km_least», «m4_ifelse(km_activation, «f32», «1e-5f», «0x1.5p-17f»)»)m4_dnl
m4_dnl km_share_of(X) -- x / km_most, rounded to the type of the activations.  The product rounds to the same number.
m4_define(«km_share_of», «m4_ifelse(km_activation, «f32», «$1 / km_most.0f», m4_dnl
«km_typed(«round», km_activation)($1 * (1 / km_most.0f))»)»)m4_dnl
km_head(«Write rows: codes with a scale for each group of elements.», km_headers)
km_peak_helpers«»km_tile_words(km_element, km_row_bytes)«»m4_dnl
m4_define(«km_nan», «m4_ifelse(km_scale, «f32», «{0, 0, 0xc0, 0x7f}», m4_dnl
km_scale, «f16», «{0, 0x7e}», «{0xc0, 0x7f}»)»)m4_dnl
m4_dnl The scale from which on the stored one is infinite, and the largest one before.
m4_define(«km_first_infinite», «0x477ff000»)m4_dnl
m4_define(«km_most_scale», «65504.0f»)m4_dnl
km_if(km_may_overflow, «m4_dnl
/* The codes of a group with the largest scale: the nearest, of elements that may be too large.  */
static __attribute__((noinline, cold)) void
saturate_group(const unsigned char *from, unsigned char *to)
{
    for (int i = 0; i < km_quant_group; i++) {
        uint32_t bits = km_if(km_size(km_activation) == 4, «km_element_at(i)», «(uint32_t)km_element_at(i) << 16»);
        float x, rounded;
        memcpy(&x, &bits, sizeof x);
        x /= km_most_scale;
        x = x > km_most.0f ? km_most.0f : x < -km_most.0f ? -km_most.0f : x;
km_if(km_size(km_activation) == 4, «», «m4_dnl
        memcpy(&bits, &x, sizeof bits);
        bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
        memcpy(&x, &bits, sizeof x);
»)m4_dnl
        rounded = x + 0x1.8p23f;
        int code = (int)(rounded - 0x1.8p23f);
m4_ifelse(km_most, 127, «        to[i] = (unsigned char)code;
», «        to[i / 2] = (unsigned char)(i % 2 ? to[i / 2] | (code & 15) << 4 : code & 15);
»)m4_dnl
    }
}

»)m4_dnl
/* Groups whose scale is not finite get codes of 0, and NaN has the same bits everywhere.  */
static __attribute__((noinline, cold)) void
mend_groups(const float *scale, km_saturating(«const unsigned char *from, »)unsigned char *to)
{
    static const unsigned char codes[m4_eval(km_code_bytes(km_quant_group))];
    for (int g = 0; g < km_groups; g++)
        if (scale[g] - scale[g] != 0)
            memcpy(to + g * m4_eval(km_code_bytes(km_quant_group)), codes, sizeof codes);
km_saturating(«m4_dnl
        else if (scale[g] == km_most_scale)
            saturate_group(from + g * m4_eval(km_quant_group * km_size(km_activation)), m4_dnl
to + g * m4_eval(km_code_bytes(km_quant_group)));
»)m4_dnl
}

static __attribute__((noinline, cold)) void
put_nans(const float *scale, int count, unsigned char *stored)
{
    static const unsigned char nan[] = km_nan;
    for (int i = 0; i < count; i++)
        if (scale[i] != scale[i])
            memcpy(stored + i * km_size(km_scale), nan, sizeof nan);
}

km_saturating(«m4_dnl
/* Finite scales that would be infinite become the largest number of their type.  */
static __attribute__((noinline, cold)) void
saturate_scales(float *scale, float *inverse, int count, unsigned char *stored)
{
    static const unsigned char largest[] = {0xff, 0x7b};
    for (int i = 0; i < count; i++)
        if (scale[i] >= 65520.0f && scale[i] - scale[i] == 0) {
            scale[i] = km_most_scale;
            inverse[i] = 1.0f / km_most_scale;
            memcpy(stored + i * m4_eval(km_size(km_scale)), largest, sizeof largest);
        }
}

»)m4_dnl
m4_define(«km_code», «m4_dnl
km_typed(«code», km_activation)(km_elements_at(«$1»), km_of(«divisor», «$1»), km_of(«inverse», «$1»))»)m4_dnl
m4_define(«km_write_codes», «km_each(«K», 0, m4_eval((km_left + km_lanes - 1) / km_lanes - 1), 1, «m4_dnl
            vi c«»K = km_code(«E + m4_eval(K * km_lanes)»);
»)»)m4_dnl
m4_dnl If fewer than four vectors are left, the first one takes the place of the others; its extra codes are not copied.
m4_define(«km_code_list», «c0«»km_each(«K», 1, 3, 1, ««, »km_if(K * km_lanes < km_left, «c«»K», «c0»)»)»)m4_dnl
m4_define(«km_groups_batch», «m4_dnl
km_group_floats(«scale», km_batch_floats)m4_dnl
km_group_floats(«inverses», km_batch_floats)m4_dnl
    unsigned char stored[km_scale_bytes(km_batch_floats)];
    int wild = 0;
km_pad_rows(km_if(km_by_vectors, km_peak_bytes, «m4_eval(km_lanes * km_size(km_activation))»))m4_dnl
    /* Compute the scales.  */
km_each_groups(«m4_dnl
            vf s = max_f32(broadcast(km_least), km_share_of(«km_typed(«value», km_activation)(peak)»));
            store_kept(scale + km_group, s);
            store_kept(inverses + km_group, 1.0f / s);
            km_typed(«store», km_scale)(stored + km_size(km_scale) * (km_group), s);
            wild |= km_if(km_may_overflow, «any_from((vi)s, km_first_infinite)», «any_from(peak, km_infinite)»);
»)m4_dnl
    if (wild)
        put_nans(scale, count * km_row_floats, stored);
km_saturating(«m4_dnl
    if (wild && saturate)
        saturate_scales(scale, inverses, count * km_row_floats, stored);
»)m4_dnl
    for (int r = 0; r < count; r++) {
        memcpy(row[r].scales, stored + km_scale_bytes(km_row_floats) * r, km_scale_bytes(km_groups));
m4_ifelse(«$1», «stream», «m4_dnl
        __builtin_prefetch(row[r].scales + km_scale_bytes(km_rows_of_run * km_groups), 1);
»)m4_dnl
    }
    /* Compute the codes.  */
    for (int r = 0; r < count; r++) {
        const unsigned char *from = row[r].from;
        unsigned char *to = km_to(«$1»);
        const float *divisor = scale + km_row_floats * r, *inverse = inverses + km_row_floats * r;
km_fetch_row«»m4_dnl
km_spreading(«divisor»)km_spreading(«inverse»)m4_dnl
km_steps(«E», km_dim, km_code_step, «        {
km_write_codes«»m4_dnl
km_put(km_how(«$1»), km_part(«codes», km_element), km_code_step, «to + km_at(km_code_bytes(E))», m4_dnl
«m4_eval(km_code_bytes(km_left))», «km_code_list»)m4_dnl
        }
»)m4_dnl
        if (wild)
            mend_groups(divisor, km_saturating(«from, »)to);
    }
»)m4_dnl
km_write_batches(«km_groups_batch»)m4_dnl
km_convert_descriptor(«KVMILL_WRITE_ROWS»)m4_dnl
