m4_divert(-1)
m4_dnl words.m4 -- moves and joins of words in plain C.  The file of an instruction set lists the widths that one
m4_dnl instruction moves, widest first, and may add joins.

m4_dnl km_move_W(TO, FROM) -- move W bytes.
km_for_words(«W», «64, 32, 16, 8, 4, 2»,
    «m4_define(«km_move_»W, «*(kvmill_word»W« *)($1) = *(const kvmill_word»W« *)($2)»)»)
m4_define(«km_move_1», «*($1) = *($2)»)

m4_dnl km_join_W(TO, FROM) -- W bytes; each has the high nibble of FROM[i] as its low nibble, and the low nibble of
m4_dnl FROM[i + 1] as its high one.
m4_define(«km_join_8», «*(kvmill_word8 *)($1) = (*(const kvmill_word8 *)($2) >> 4 & 0x0f0f0f0f0f0f0f0f) |
    (*(const kvmill_word8 *)(($2) + 1) << 4 & 0xf0f0f0f0f0f0f0f0)»)
m4_define(«km_join_1», «*($1) = (unsigned char)(*($2) >> 4 | *(($2) + 1) << 4)»)

m4_dnl km_straight(STEP, WIDTHS, N, TO, FROM) -- N bytes by steps STEP_W, the widest that fit first.  If several narrow
m4_dnl steps would remain, one wide step that ends at the last byte takes their place, and repeats some bytes.
m4_define(«km_straight», «_km_straight(«$1», m4_eval($3), 0, «$4», «$5», $2, 0)»)
m4_define(«_km_straight», «m4_ifelse(m4_eval($2 > $3), 1, «m4_ifelse(
  m4_eval($2 - $3 >= $6), 1, «        $1_$6($4 + $3, $5 + $3);
_km_straight(«$1», «$2», m4_eval($3 + $6), «$4», «$5», _km_rest($@))»,
  m4_eval($3 >= $6 - ($2 - $3) && $2 - $3 > $7), 1, «_km_straight(«$1», «$2», m4_eval($2 - $6), «$4», «$5»,
      _km_rest($@))»,
  «_km_straight(«$1», «$2», «$3», «$4», «$5», m4_shift(_km_rest($@)))»)»)»)
m4_define(«_km_rest», «m4_shift(m4_shift(m4_shift(m4_shift(m4_shift($@)))))»)
m4_divert(0)m4_dnl
