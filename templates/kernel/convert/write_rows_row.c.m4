m4_dnl write_rows_row -- a scale for the row, the sum of its codes, and the codes, with the same bits as ik_llama.cpp.
m4_define(«km_most», «km_part(«most», km_element)»)m4_dnl
m4_define(«km_codes_at», «km_part(«codes_at», km_element)»)m4_dnl
km_head(«Write rows: a scale for the row, and codes.», km_headers)
/* A row with an element that is not finite gets a scale that is not finite, and codes of 0.  If the scale has no finite
   inverse, codes are as far from 0 as possible.  */
static __attribute__((noinline, cold)) void
mend_row(const float *x, unsigned char *to)
{
    float scale;
    uint32_t largest = 0, nan = 0x7fc00000;
    int32_t sum = 0;
    for (int i = 0; i < km_dim; i++) {
        uint32_t magnitude;
        memcpy(&magnitude, x + i, sizeof magnitude);
        magnitude &= 0x7fffffff;
        largest = magnitude > largest ? magnitude : largest;
    }
    memcpy(&scale, largest > 0x7f800000 ? &nan : &largest, sizeof scale);
    for (int i = 0; i < km_dim; i++) {
        int code = largest >= 0x7f800000 ? 0 : km_most * ((x[i] > 0) - (x[i] < 0));
        to[km_codes_at + i] = (unsigned char)code;
        sum += code;
    }
    scale /= km_most.0f;
    memcpy(to, &scale, sizeof scale);
    memcpy(to + 4, &sum, sizeof sum);
}

km_function(«void», «quantise_row(const unsigned char *from, unsigned char *to)»)
{
    vf most = broadcast(0.f), none = most;
    vi sums = {0};
km_steps(«E», km_dim, km_lanes, «    {
        vf x = km_elements_at(E);
        most = max_f32(abs_f32(x), most);
        none += x - x;
    }
»)m4_dnl
    const float scale = largest_of(most) / km_most.0f, inverse = scale == 0.f ? 0.f : 1.f / scale;
    const float wild = sum_of(none) + (inverse - inverse);
    if (wild != 0.f) {
        float x[km_dim];
km_steps(«E», km_dim, km_lanes, «        store_f32(x + km_at(E), km_elements_at(E));
»)m4_dnl
        mend_row(x, to);
        return;
    }
km_steps(«E», km_dim, km_lanes, «    {
        vi codes = round_even(multiply(km_elements_at(E), broadcast(inverse)));
        store_low_bytes(to + km_at(E + km_codes_at), codes);
        sums += codes;
    }
»)m4_dnl
    const int32_t sum = (int32_t)sum_of(__builtin_convertvector(sums, vf));
    memcpy(to, &scale, sizeof scale);
    memcpy(to + 4, &sum, sizeof sum);
}

m4_define(«km_row_batch», «m4_dnl
    for (int r = 0; r < count; r++) {
km_fetch_row«»m4_dnl
        quantise_row(row[r].from, km_to(«$1»));
    }
»)m4_dnl
km_write_batches(«km_row_batch»)m4_dnl
km_convert_descriptor(«KVMILL_WRITE_ROWS»)m4_dnl
