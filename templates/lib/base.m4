m4_divert(-1)
m4_dnl base.m4 -- loops, failures, checks.  It knows no op, no element type and no instruction set.
m4_dnl Quotes are «these», which C never uses; comments are off so that lines with # expand.
m4_changequote(«,»)
m4_changecom()

m4_dnl km_fail(MESSAGE) -- stop with a message like those of compilers.
m4_define(«km_fail», «m4_errprint(m4___file__:m4___line__: «$1»
)m4_m4exit(1)»)

m4_dnl km_need(NAME, WHERE) -- fail unless NAME is defined, which is up to WHERE.
m4_define(«km_need», «m4_ifdef(«$1», «», «km_fail(«$2 must define $1»)»)»)

m4_dnl km_need_all(WHERE, NAMES...) -- the same for every name.
m4_define(«km_need_all», «m4_ifelse(«$2», «», «», «km_need(«$2», «$1»)km_need_all(«$1», m4_shift(m4_shift($@)))»)»)

m4_dnl km_default(NAME, VALUE) -- define NAME unless it is defined.
m4_define(«km_default», «m4_ifdef(«$1», «», «m4_define(«$1», «$2»)»)»)

m4_dnl km_require(CONDITION, MESSAGE) -- fail unless the arithmetic CONDITION holds.
m4_define(«km_require», «m4_ifelse(m4_eval($1), 0, «km_fail(«$2»)»)»)

m4_dnl km_each(VAR, FIRST, LAST, STEP, BODY) -- BODY for each value; nothing if LAST < FIRST.
m4_define(«km_each», «m4_pushdef(«$1», m4_eval($2))_km_each(«$1», m4_eval($3), m4_eval($4), «$5»)m4_popdef(«$1»)»)
m4_define(«_km_each», «m4_ifelse(m4_eval($1 <= $2), 1,
  «$4«»m4_define(«$1», m4_eval($1 + $3))_km_each($@)»)»)

m4_dnl km_times(VAR, COUNT, BODY) -- BODY for VAR from 0 to COUNT - 1.
m4_define(«km_times», «km_each(«$1», 0, ($2) - 1, 1, «$3»)»)

m4_dnl km_for_words(VAR, WORDS, BODY) -- BODY for each of the words, which are separated by commas.
m4_define(«km_for_words», «m4_pushdef(«$1»)_km_for_words(«$1», «$3», $2)m4_popdef(«$1»)»)
m4_define(«_km_for_words»,
    «m4_ifelse(«$3», «», «», «m4_define(«$1», «$3»)$2«»_km_for_words(«$1», «$2», m4_shift(m4_shift(m4_shift($@))))»)»)

m4_dnl km_if(CONDITION, THEN, ELSE) -- one of the texts, by an arithmetic condition.
m4_define(«km_if», «m4_ifelse(m4_eval($1), 0, «$3», «$2»)»)

m4_dnl km_smaller(A, B) -- the smaller of two numbers.
m4_define(«km_smaller», «km_if(($1) < ($2), «m4_eval($1)», «m4_eval($2)»)»)

m4_dnl km_named(WORD, NUMBERS...) -- a name in C: WORD_1_2.
m4_define(«km_named», «m4_ifelse($#, 1, «$1», «$1«»_«»km_named(m4_shift($@))»)»)

m4_dnl km_count(VALUE) -- a shape field in C: the number, or KVMILL_ANY.
m4_define(«km_count», «m4_ifelse($1, -1, «KVMILL_ANY», «$1»)»)

m4_dnl km_constant(NAME, VALUE) -- the generator says that the kernel has this number of its problems as a constant.
m4_define(«km_constants», «»)
m4_define(«km_constant», «m4_define(«km_constant of $1», «INT64_C($2)»)m4_define(«km_constants»,
    m4_ifelse(m4_defn(«km_constants»), «», ««$1»», «m4_defn(«km_constants»)«, $1»»))m4_dnl
»)

m4_dnl km_number_of(PROBLEM, NAME) -- a number of PROBLEM, which is text like "p." or "p->": the constant, or the
m4_dnl member.
m4_define(«km_number_of», «m4_ifdef(«km_constant of $2», «m4_indir(«km_constant of $2»)», «$1$2»)»)

m4_dnl km_p(NAME) -- a number of the struct p; km_at_p(NAME) -- of the struct that p points to.
m4_define(«km_p», «km_number_of(«p.», «$1»)»)
m4_define(«km_at_p», «km_number_of(«p->», «$1»)»)

m4_dnl km_head(SUMMARY, HEADERS) -- the first lines of a kernel's file.
m4_define(«km_head», «_km_head(«$1», «$2», «kvmill explain --source km_symbol»)»)
m4_define(«_km_head», «/* $1
   Generated; to reproduce:
   $3 */
m4_ifelse(«$2», «», «», «$2
»)#include "kvmill_kernel.h"

km_kernel_begins»)

m4_dnl km_program_head(SUMMARY, PROGRAM, HEADERS) -- the first lines of a kernel whose shape is a program of statements.
m4_define(«km_program_head», «_km_head(«$1
   m4_patsubst(«$2», «; », «;
   »).», «$3», «kvmill explain --kernels specs.json --source km_symbol»)»)

m4_dnl km_program_string(PROGRAM) -- the program as a C string, with one statement per line.
m4_define(«km_program_string», «m4_patsubst(«"$1"», «; », «; "
"»)»)
m4_divert(0)m4_dnl
