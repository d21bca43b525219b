m4_dnl codes.m4 -- words for small integers: storing codes, the largest magnitudes of groups, products of codes; and
m4_dnl arithmetic on float16.

m4_dnl ---- Storing the codes of four vectors ----

m4_dnl store_i8 -- codes are clamped to [-127, 127].  store_i4 -- codes are in [-7, 7], two to a byte, low nibble first.
m4_define(«_km_each_code», «
    const vi c[] = {c0, c1, c2, c3};
    for (int i = 0; i < 4 * LANES; i++) {
        int32_t code = c[i / LANES][i % LANES];
        $1;
    }
»)
km_word(«store_i8», «void», «void *to, vi c0, vi c1, vi c2, vi c3», «_km_each_code(«m4_dnl
((int8_t *)to)[i] = (int8_t)(code > 127 ? 127 : code < -127 ? -127 : code)»)», «m4_dnl
km_each(«K», 0, 3, 1, «
    store_low_bytes((char *)to + m4_eval(K * km_lanes), at_most(~at_most(~c«»K, 126), 127));»)
»)
km_word(«store_i4», «void», «void *to, vi c0, vi c1, vi c2, vi c3», «_km_each_code(«m4_dnl
((uint8_t *)to)[i / 2] = (uint8_t)(i % 2 == 0 ? code & 15 : ((uint8_t *)to)[i / 2] | code << 4)»)», «
    uint8_t codes[4 * LANES];km_each(«K», 0, 3, 1, «
    store_low_bytes(codes + m4_eval(K * km_lanes), c«»K);»)
    for (int i = 0; i < 2 * LANES; i++)
        ((uint8_t *)to)[i] = (uint8_t)((codes[2 * i] & 15) | codes[2 * i + 1] << 4);
»)
km_word(«store_low_bytes», «void», «void *to, vi x», «
    for (int i = 0; i < LANES; i++)
        ((uint8_t *)to)[i] = (uint8_t)x[i];
», «
    all_bytes b = (all_bytes)x;
    b = __builtin_shufflevector(b, b, km_lane_list(«m4_eval(2 * L)», «m4_eval(4 * km_lanes)»));
    b = __builtin_shufflevector(b, b, km_lane_list(«m4_eval(2 * L)», «m4_eval(4 * km_lanes)»));
    memcpy(to, &b, LANES);
»)

m4_dnl ---- Largest magnitudes, as integers: infinity is above all numbers, and NaN above infinity.  U is u16 or u32,
m4_dnl the size of an element ----

m4_dnl magnitudes_U(from) -- the magnitudes of a vector of elements.
m4_dnl bits_U(from) -- the bits of elements; flipped_U(from) -- the same with the sign bit inverted.  The largest of
m4_dnl bits_U is the element farthest below 0, the largest of flipped_U the one farthest above.
m4_dnl keys_U(from) -- integers that are in the same order as the elements, -0 before +0.  element_of_key_U(key) -- the
m4_dnl bits of the element again, one element in each lane.  larger_U(a, b) -- the larger of each pair.
m4_dnl fold_U(a, b) -- for groups of more than 16 bytes: each two neighbouring pieces of 16 bytes become one, with the
m4_dnl larger elements.
m4_dnl largest_U(a, b, c, d) -- a, b, c and d follow each other, and each 16 bytes are a group: the largest of each
m4_dnl group.
m4_define(«_km_peaks», «km_typedef(«elements_$1», «typedef $2 elements_$1 __attribute__((vector_size(4 * LANES)));
»)
km_word(«magnitudes_$1», «vi», «const void *from», «
    elements_$1 x;
    memcpy(&x, from, sizeof x);
    return (vi)(x & $3);
»)
km_word(«bits_$1», «vi», «const void *from», «
    vi x;
    memcpy(&x, from, sizeof x);
    return x;
»)
km_word(«flipped_$1», «vi», «const void *from», «
    elements_$1 x;
    memcpy(&x, from, sizeof x);
    return (vi)(x ^ m4_eval($3 + 1)U);
»)
km_word(«keys_$1», «vi», «const void *from», «
    elements_$1 x;
    memcpy(&x, from, sizeof x);
    return (vi)(x ^ (-(x >> m4_eval(32 / $4 - 1)) | m4_eval($3 + 1)U));
»)
km_word(«larger_$1», «vi», «vi a, vi b», «
    elements_$1 x = (elements_$1)a, y = (elements_$1)b;
    for (int i = 0; i < LANES * $4; i++)
        x[i] = x[i] > y[i] ? x[i] : y[i];
    return (vi)x;
»)
km_word(«fold_$1», «vi», «vi a, vi b», «
    vi even = {0}, odd = {0};
    for (int i = 0; i < LANES; i++) {
        int at = i / 4 * 8 + i % 4;
        even[i] = at < LANES ? a[at] : b[at - LANES];
        odd[i] = at + 4 < LANES ? a[at + 4] : b[at + 4 - LANES];
    }
    return larger_$1(even, odd);
»)
km_word(«largest_$1», «vi», «vi a, vi b, vi c, vi d», «
    const vi four[] = {a, b, c, d};
    vi y = {0};
    for (int i = 0; i < 4 * LANES; i++) {
        elements_$1 x = (elements_$1)four[i / LANES];
        for (int j = 0; j < $4; j++) {
            int32_t element = (int32_t)x[i % LANES * $4 + j];
            y[i / 4] = element > y[i / 4] ? element : y[i / 4];
        }
    }
    return y;
»)»)
_km_peaks(«u16», «uint16_t», 0x7fff, 2)
_km_peaks(«u32», «uint32_t», 0x7fffffff, 1)

km_word(«element_of_key_u16», «vi», «vi key», «km_by_lane(«vi», «key[i] ^ (key[i] & 0x8000 ? 0x8000 : 0xffff)»)», «
    return key ^ (0xffff - (key >> 15) * 0x7fff);
»)
km_word(«element_of_key_u32», «vi», «vi key», «km_by_lane(«vi», «key[i] ^ (key[i] < 0 ? INT32_MIN : -1)»)», «
    return key ^ (~(key >> 31) | INT32_MIN);
»)
m4_dnl starts_negative_U(from, magnitude) -- whether the first of 32 elements with this magnitude is negative.  There is
m4_dnl at least one with it.
m4_define(«_km_starts_negative», «km_word(«starts_negative_$1», «uint32_t», «const void *from, int32_t magnitude», «
    const $2 *x = from;
    int i = 0;
    while ((x[i] & $3) != ($2)magnitude)
        i++;
    return x[i] > $3;
»)»)
_km_starts_negative(«u16», «kvmill_word2», 0x7fff)
_km_starts_negative(«u32», «kvmill_word4», 0x7fffffff)

m4_dnl ---- Bytes of codes ----

m4_dnl add_products(sum, a, b) -- sum[i] + the products of the four unsigned bytes a[i] with the four signed bytes b[i].
km_word(«add_products», «vi», «vi sum, vi a, vi b», «
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < 32; j += 8)
            sum[i] += (a[i] >> j & 255) * (int8_t)(b[i] >> j);
    return sum;
»)
m4_dnl Pairs: each word contains two signed integers of 16 bits.
m4_dnl add_pairs(sum, a, b) -- sum[i] + the products of the lower halves and of the upper halves.
km_word(«add_pairs», «vi», «vi sum, vi a, vi b», «
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < 32; j += 16)
            sum[i] = (int32_t)((uint32_t)sum[i] + (uint32_t)((int16_t)(a[i] >> j) * (int16_t)(b[i] >> j)));
    return sum;
»)
m4_dnl load_pairs(a, b) -- LANES integers of 16 bits from each of two places: a gives the lower halves, b the upper
m4_dnl ones.
km_word(«load_pairs», «vi», «const void *a, const void *b», «km_by_lane(«vi»,
    «((const kvmill_word2 *)a)[i] | (int32_t)((uint32_t)((const kvmill_word2 *)b)[i] << 16)»)»)
m4_dnl lower_pairs(a, b), upper_pairs(a, b) -- interleave the 16-bit integers in the lower (upper) half of each 16
m4_dnl bytes: a gives the lower halves of words, b the upper ones.
m4_define(«_km_half_pairs», «km_word(«$1_pairs», «vi», «vi a, vi b», «
    int16_t from[2][2 * LANES], to[2 * LANES];
    memcpy(from[0], &a, sizeof a);
    memcpy(from[1], &b, sizeof b);
    for (int i = 0; i < 2 * LANES; i++)
        to[i] = from[i % 2][i / 8 * 8 + $2 + i % 8 / 2];
    memcpy(&a, to, sizeof a);
    return a;
»)»)
_km_half_pairs(«lower», 0)
_km_half_pairs(«upper», 4)
m4_dnl packed_words(a, b) -- words saturated to 16 bits: those of a, then those of b.
km_word(«packed_words», «vi», «vi a, vi b», «
    int32_t from[2 * LANES];
    int16_t to[2 * LANES];
    memcpy(from, &a, sizeof a);
    memcpy(from + LANES, &b, sizeof b);
    for (int i = 0; i < 2 * LANES; i++)
        to[i] = (int16_t)(from[i] < -32768 ? -32768 : from[i] > 32767 ? 32767 : from[i]);
    memcpy(&a, to, sizeof a);
    return a;
»)
m4_dnl even_codes(x), odd_codes(x) -- the lower (upper) of the two signed bytes in each 16 bits.
km_typedef(«shorts», «typedef int16_t shorts __attribute__((vector_size(4 * LANES)));
»)
km_word(«even_codes», «vi», «vi x», «
    return (vi)(((shorts)x << 8) >> 8);
»)
km_word(«odd_codes», «vi», «vi x», «
    return (vi)((shorts)x >> 8);
»)
m4_dnl load_four(a, b, c, d) -- LANES bytes from each of four places.
km_word(«load_four», «vi», «const void *a, const void *b, const void *c, const void *d», «
    const void *const from[] = {a, b, c, d};
    vi x;
    for (int i = 0; i < 4; i++)
        memcpy((char *)&x + i * LANES, from[i], LANES);
    return x;
»)
m4_dnl side_by_side(x) -- x has four rows of LANES bytes; lane i of the result has byte i of each row.
km_word(«side_by_side», «vi», «vi x», «
    uint8_t from[4][LANES], to[LANES][4];
    memcpy(from, &x, sizeof x);
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < 4; j++)
            to[i][j] = from[j][i];
    memcpy(&x, to, sizeof x);
    return x;
»)
m4_dnl rows_side_by_side(a, b, c, d, x) -- load a vector of bytes from each of four rows: lane 4 q + i of x[j] has byte
m4_dnl 16 q + 4 j + i of each row.
km_word(«rows_side_by_side», «void», «const void *a, const void *b, const void *c, const void *d, vf x[4]», «
    const void *const from[] = {a, b, c, d};
    uint8_t row[4][4 * LANES], to[4][LANES][4];
    for (int r = 0; r < 4; r++)
        memcpy(row[r], from[r], sizeof row[r]);
    for (int k = 0; k < 16 * LANES; k++)
        to[k / 4 % 4][k / 64 * 4 + k / 16 % 4][k % 4] = row[k % 4][k / 64 * 16 + k / 4 % 4 * 4 + k / 16 % 4];
    for (int j = 0; j < 4; j++)
        memcpy(&x[j], to[j], sizeof x[j]);
»)
m4_dnl interleaved(a, b, c, d, x) -- the same with lanes in order: lane i of x[j] has byte LANES j + i of each row.
km_word(«interleaved», «void», «const void *a, const void *b, const void *c, const void *d, vf x[4]», «
    const uint8_t *const row[] = {a, b, c, d};
    uint8_t to[4 * LANES][4];
    for (int i = 0; i < 16 * LANES; i++)
        to[i / 4][i % 4] = row[i % 4][i / 4];
    memcpy(x, to, sizeof to);
»)
m4_dnl halves_side_by_side(a, b, c, d, x) -- the same for half a vector of bytes from each row: lane 4 q + i of x[j] has
m4_dnl byte km_byte_of_half(q) + 4 j + i of each row.
m4_define(«_km_half_quads», «km_if(km_lanes > 8, «m4_eval(km_lanes / 8)», 1)»)
m4_define(«km_byte_of_half», «$1 % _km_half_quads * 16 + $1 / _km_half_quads * 8»)
km_word(«halves_side_by_side», «void», «const void *a, const void *b, const void *c, const void *d, vf x[2]», «
    const uint8_t *const row[] = {a, b, c, d};
    uint8_t to[2][LANES][4];
    for (int k = 0; k < 8 * LANES; k++) {
        int j = k / (4 * LANES), lane = k / 4 % LANES;
        to[j][lane][k % 4] = row[k % 4][km_byte_of_half(lane / 4) + 4 * j + lane % 4];
    }
    memcpy(x, to, sizeof to);
»)
m4_dnl turn_bytes(x) -- transposes the bytes of each quad: byte j of lane i becomes byte i of lane j.
km_word(«turn_bytes», «vi», «vi x», «
    uint8_t from[LANES][4], to[LANES][4];
    memcpy(from, &x, sizeof x);
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < 4; j++)
            to[i / 4 * 4 + j][i % 4] = from[i][j];
    memcpy(&x, to, sizeof x);
    return x;
»)
m4_dnl low_codes(x) -- the low nibble of each byte, minus 8.
km_word(«low_codes», «vi», «vi x», «
    int8_t b[4 * LANES];
    memcpy(b, &x, sizeof x);
    for (int i = 0; i < 4 * LANES; i++)
        b[i] = (int8_t)((b[i] & 15) - 8);
    memcpy(&x, b, sizeof x);
    return x;
», «
    return (vi)((all_bytes)(x & 0x0f0f0f0f) - 8);
»)
m4_dnl signs_of_four(from) -- masks from the signs of four floats: byte i of every lane is all ones if float i is
m4_dnl negative.
m4_dnl with_signs(x, signs) -- negates the bytes of x whose mask is all ones.
km_word(«signs_of_four», «vi», «const float *from», «
    uint32_t signs = 0;
    for (int i = 0; i < 4; i++)
        signs |= (__builtin_signbit(from[i]) ? 0xffU : 0) << 8 * i;
    return broadcast_words((int32_t)signs);
», «
    return turn_bytes((vi)load_quad(from) >> 31);
»)
km_word(«with_signs», «vi», «vi x, vi signs», «
    int8_t b[4 * LANES], mask[4 * LANES];
    memcpy(b, &x, sizeof x);
    memcpy(mask, &signs, sizeof signs);
    for (int i = 0; i < 4 * LANES; i++)
        b[i] = (int8_t)((b[i] ^ mask[i]) - mask[i]);
    memcpy(&x, b, sizeof x);
    return x;
», «
    return (vi)(((all_bytes)x ^ (all_bytes)signs) - (all_bytes)signs);
»)

m4_dnl ---- Float16: vectors of HALVES numbers ----

km_typedef(«HALVES», «enum { HALVES = 2 * LANES };
»)
km_typedef(«vh», «typedef _Float16 vh __attribute__((vector_size(2 * HALVES)));
»)
m4_define(«_km_by_half», «
    vh y = {0};
    for (int i = 0; i < HALVES; i++)
        y[i] = $1;
    return y;
»)
km_word(«load_vh», «vh», «const void *from», «
    vh x;
    memcpy(&x, from, sizeof x);
    return x;
»)
km_word(«store_vh», «void», «void *to, vh x», «
    memcpy(to, &x, sizeof x);
»)
m4_dnl store_twice(to, x) -- stores each number twice, in both halves of a word; broadcast_twice(pair) -- loads such a
m4_dnl word.
km_word(«store_twice», «void», «uint32_t *to, vf x», «
    for (int i = 0; i < LANES; i++)
        to[i] = half_of(x[i]) * 0x10001;
»)
km_word(«broadcast_twice», «vh», «uint32_t pair», «
    return (vh)broadcast_words((int32_t)pair);
»)
km_word(«join_halves», «vh», «vf low, vf high», «
    halves half[] = {to_halves(low), to_halves(high)};
    return load_vh(half);
»)
km_word(«load_vh_i8», «vh», «const void *from», «_km_by_half(«((const int8_t *)from)[i]»)»)
km_word(«load_vh_i4», «vh», «const void *from»,
    «_km_by_half(«((((const uint8_t *)from)[i / 2] >> i % 2 * 4 & 15) ^ 8) - 8»)»)
m4_dnl spread_halves(from, group) -- repeats each factor for `group` numbers; HALVES factors can be read.
km_word(«spread_halves», «vh», «const void *from, int group», «_km_by_half(«((const _Float16 *)from)[i / group]»)»)
m4_dnl add_halves(to, grow, x) -- to = grow * to + x.
km_word(«add_halves», «void», «float *to, float grow, vh x», «
    for (int i = 0; i < HALVES; i++)
        to[i] = to[i] * grow + (float)x[i];
»)
