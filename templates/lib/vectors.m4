m4_divert(-1)
m4_dnl vectors.m4 -- what templates know about vectors: numbers that depend on the instruction set, and lists of lanes.
m4_dnl The functions on vectors, the words, are in templates/words.

m4_dnl km_lanes -- elements of a vector.  km_sums -- vectors of sums that fit into registers, next to their operands.
m4_dnl km_peak_bytes -- bytes of a vector for the words that compute magnitudes; 0 if a loop is better.
m4_dnl km_spreads -- whether an operand in memory can be one word that the instruction loads into all lanes.
m4_dnl km_transposes -- whether `transpose` and `interleaved` are faster than loads of single elements.
m4_dnl km_chooses_by_sign -- whether `where_negative` is an instruction.
m4_dnl km_exact_products -- whether it is faster not to round products of float16 numbers where they are exact.
m4_dnl km_register -- the constraint for a vector in inline assembly.
m4_dnl km_target_text -- km_target as the attribute of a function names it; km_target_lines -- lines that it needs.
m4_dnl km_late_addresses -- makes GCC compute addresses where they are used.  Otherwise it computes so many of them
m4_dnl early that it keeps some in vector registers.
m4_define(«km_lanes», 4)
m4_define(«km_sums», 8)
m4_define(«km_peak_bytes», 0)
m4_define(«km_spreads», 0)
m4_define(«km_transposes», 0)
m4_define(«km_chooses_by_sign», 0)
m4_define(«km_exact_products», 0)
m4_define(«km_register», «m»)
m4_define(«km_target_text», «"km_target"»)
m4_define(«km_target_lines», «»)
m4_define(«km_late_addresses», «»)

m4_dnl Limits of straight-line code; longer code is a loop.  A file then has at most a few thousand lines, which take a
m4_dnl compiler seconds, and a loop of this length waits for memory rather than for its own instructions.
m4_dnl km_straight_units -- units of a row that is copied: straight_line_units of gen/rows_family.c, because the
m4_dnl generator also needs it;
m4_dnl km_most_moves -- moves for all runs of bytes of a window that is gathered;
m4_dnl km_most_vectors -- vectors of a page that is scored, for all of its blocks;
m4_dnl km_steps_unrolled -- vectors of a row that is converted, unless tuned; instruction sets may change it.
m4_define(«km_most_moves», 64)
m4_define(«km_most_vectors», 8)
m4_define(«km_steps_unrolled», 1)

m4_dnl km_include(FILE) -- include a file of the same folder.
m4_define(«km_include», «m4_include(m4_regexp(m4___file__, «.*/», «\&$1.m4»))»)

m4_dnl km_typed(WORD, TYPE) -- the word WORD_TYPE.
m4_define(«km_typed», «$1_$2»)

m4_dnl km_lane_list(EXPRESSION OF L) -- the expression for every lane L, separated by commas.
m4_define(«km_lane_list», «km_each(«L», 0, m4_eval(km_lanes - 1), 1, «m4_ifelse(L, 0, «», «, »)$1»)»)

m4_dnl km_byte_of_half(Q) -- BYTE_OF_HALF of templates/words/codes.h.
m4_define(«_km_half_quads», «km_if(km_lanes > 8, «m4_eval(km_lanes / 8)», 1)»)
m4_define(«km_byte_of_half», «$1 % _km_half_quads * 16 + $1 / _km_half_quads * 8»)

m4_dnl km_turn(LOAD, STORE) -- LANES vectors that the expression LOAD gives for row J, and the statement STORE for
m4_dnl column J of them, x[J].
m4_define(«km_turn», «        vf x[LANES];
km_each(«J», 0, m4_eval(km_lanes - 1), 1, «        x[J] = $1;
»)        transpose(x);
km_each(«J», 0, m4_eval(km_lanes - 1), 1, «        $2;
»)»)
m4_divert(0)m4_dnl
