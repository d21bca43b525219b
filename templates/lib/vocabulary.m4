m4_divert(-1)
m4_dnl vocabulary.m4 -- words: C functions on vectors of LANES elements.  A kernel's file defines the words that the
m4_dnl kernel calls.  A word has one name, one signature and one meaning in plain C.  An instruction set without a
m4_dnl better version uses the meaning; every other version is tested against it.

m4_dnl km_target_text -- km_target as the attribute of a function names it.
m4_dnl km_lanes -- elements of a vector.  km_sums -- vectors of sums that fit into registers, next to their operands.
m4_dnl km_peak_bytes -- bytes of a vector for the words that compute magnitudes; 0 if a loop is better.
m4_dnl km_spreads -- whether an operand in memory can be one word that the instruction loads into all lanes.
m4_dnl km_register -- the constraint for a vector in inline assembly.
m4_dnl km_late_addresses -- makes GCC compute addresses where they are used.  Otherwise it computes so many of them
m4_dnl early that it keeps some in vector registers.
m4_define(«km_target_text», «"km_target"»)
m4_define(«km_lanes», 4)
m4_define(«km_sums», 8)
m4_define(«km_peak_bytes», 0)
m4_define(«km_spreads», 0)
m4_define(«km_register», «m»)
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

m4_dnl km_word(NAME, TYPE, PARAMETERS, MEANING, FORM) -- declares a word.  If compilers do not vectorise the meaning,
m4_dnl FORM is the same computation in C that they turn into vector instructions.
m4_define(«km_word», «m4_define(«_km_type_$1», «$2»)m4_define(«_km_parameters_$1», «$3»)m4_define(«_km_meaning_$1»,
    «$4»)m4_dnl
m4_define(«_km_body_$1», m4_ifelse(«$5», «», ««$4»», ««$5»»))_km_list(«$1»)_km_is_used(«$1»)»)
m4_define(«_km_list», «m4_define(«km_vocabulary», m4_ifdef(«km_vocabulary», «m4_defn(«km_vocabulary»)««, »»»)«««$1»»»)»)

m4_dnl km_define(NAME, BODY) -- defines an instruction set's version of a word.
m4_define(«km_define», «m4_ifdef(«_km_meaning_$1», «m4_define(«_km_body_$1», «$2»)m4_define(«_km_own_$1», km_isa)»,
    «km_fail(«$1 has no meaning: words are declared by km_word in templates/lib»)»)»)

m4_dnl km_typedef(NAME, TEXT), km_helper(NAME, TEXT) -- a type, or other text that words share.
m4_define(«km_typedef», «m4_define(«_km_typedef_$1», «$2»)_km_is_used(«$1»)»)
m4_define(«km_helper», «m4_define(«_km_helper_$1», «$2»)_km_is_used(«$1»)»)

m4_dnl km_has_own(WORD) -- whether the instruction set has its own version of a word.
m4_define(«km_has_own», «m4_ifdef(«_km_own_$1», 1, 0)»)

m4_dnl km_typed(WORD, TYPE) -- the word WORD_TYPE.
m4_define(«km_typed», «$1_$2»)

m4_dnl km_text_of(NAME) -- the text of a definition.
m4_define(«km_text_of»,
    «m4_ifdef(«_km_body_$1», «km_inline(m4_defn(«_km_type_$1»), «_km_named(«$1»)(m4_indir(«_km_parameters_$1»))»)
{m4_indir(«_km_body_$1»)}

», «m4_indir(«_km_helper_$1»)»)»)
m4_define(«_km_named», ««$1»»)

m4_dnl ---- Definitions on demand ----

m4_dnl Each word is a macro that expands to itself and notes that it is used.  At the end of the file all noted
m4_dnl definitions, and those that they need, are inserted before the kernel.
m4_define(«_km_is_used», «m4_define(«$1», «_km_use(«$1», $»«#, $»«@)»)»)
m4_define(«_km_use», «_km_note(«$1»)_km_named(«$1»)m4_ifelse(«$2», 0, «», «(_km_rejoined(m4_shift(m4_shift($@))))»)»)
m4_define(«_km_rejoined», ««$1»m4_ifelse(«$#», 1, «», ««, »_km_rejoined(m4_shift($@))»)»)
m4_define(«_km_note», «m4_ifdef(«_km_noted_»_km_depth«_$1», «»,
    «m4_define(«_km_noted_»_km_depth«_$1»)m4_define(«_km_notes», m4_defn(«_km_notes»)«_km_settle(«$1»)»)»)»)
m4_define(«_km_notes», «»)
m4_define(«_km_depth», 0)
m4_define(«_km_deepest», 0)

m4_dnl _km_settle(NAME) -- a trial expansion finds out what NAME needs; emit that first, then NAME.
m4_define(«_km_settle», «m4_ifdef(«_km_settled_$1», «», «m4_define(«_km_settled_$1»)m4_define(«_km_deepest»,
    m4_incr(_km_deepest))m4_pushdef(«_km_depth», _km_deepest)m4_pushdef(«_km_notes», «»)m4_dnl
m4_divert(-1)m4_ifdef(«_km_typedef_$1», «m4_indir(«_km_typedef_$1»)»,
    «km_text_of(«$1»)»)m4_divert(1)_km_notes«»m4_popdef(«_km_notes»)m4_dnl
m4_ifdef(«_km_typedef_$1», «m4_define(«_km_has_types»)m4_divert(1)m4_indir(«_km_typedef_$1»)»,
    «m4_divert(2)km_text_of(«$1»)»)m4_popdef(«_km_depth»)»)»)

m4_dnl km_kernel_begins -- marks the end of the head of a file; the kernel follows.
m4_define(«km_kernel_begins», «m4_define(«_km_notes», «»)m4_define(«_km_depth»,
    kernel)m4_m4wrap(«_km_notes«»m4_ifdef(«_km_has_types», «m4_divert(1)
»)»)m4_divert(3)m4_dnl»)
m4_dnl ---- The words ----

km_include(«vectors»)
km_include(«elements»)
km_include(«codes»)
m4_divert(0)m4_dnl
