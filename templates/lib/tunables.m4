m4_divert(-1)
m4_dnl tunables.m4 -- tunables: numbers that a kernel leaves open, with their legal values and limits.  A template
m4_dnl declares them.  A kernel's symbol states the values that are not the preset.

m4_define(«km_tunable_count», 0)
m4_define(«km_limit_count», 0)

m4_dnl km_tunable(NAME, PRESET, VALUES, WHAT) -- km_NAME is PRESET unless the kernel's symbol states a value.  VALUES
m4_dnl are the legal ones, separated by commas.  PRESET must not depend on the values of other tunables; it may depend
m4_dnl on km_preset_OTHER.
m4_dnl km_tunable_when(CONDITION, NAME, ...) -- the same, but values other than PRESET are legal only if CONDITION
m4_dnl holds.  It may depend on earlier tunables.
m4_define(«km_tunable», «_km_tunable(«$1», m4_eval($2), «$3», «$4», m4_incr(km_tunable_count))»)
m4_define(«km_tunable_when», «km_tunable(m4_shift($@))m4_dnl
km_limit(«km_$2 == km_preset_$2 || ($1)», «$2 has other values than its preset only where $1»)»)
m4_define(«_km_tunable», «m4_define(«km_tunable_count», $5)m4_define(«km_tunable_$5», «$1»)m4_define(«km_preset_$1»,
    «$2»)m4_define(«km_values_$1», _km_joined($3))m4_define(«km_words_$1», «$4»)km_default(«km_$1», «$2»)»)
m4_define(«_km_joined», ««$*»»)

m4_dnl km_limit(CONDITION, WHY) -- a condition for tunables.  It may depend only on those declared before it, because
m4_dnl km_space tries the values of one tunable after another and drops those that break a limit.  The condition is
m4_dnl evaluated here once, so one that names a later tunable fails at once.
m4_define(«km_limit», «km_if($1, )_km_limit(«$1», «$2», m4_incr(km_limit_count), km_tunable_count)»)
m4_define(«_km_limit», «m4_define(«km_limit_count», $3)m4_define(«km_limit_$3», «$1»)m4_define(«km_why_$3», «$2»)m4_dnl
m4_define(«km_limits_of_$4», m4_ifdef(«km_limits_of_$4», «m4_defn(«km_limits_of_$4»)»)«($1) && »)»)

m4_define(«_km_check_value», «m4_ifelse(m4_index(«,»m4_defn(«km_values_$1»)«,», «,»m4_indir(«km_$1»)«,»), -1,
    «km_fail(«$1 is »m4_indir(«km_$1»)«; accepted: »m4_defn(«km_values_$1»))»)»)

m4_dnl km_check_tuning -- fail unless all values are legal and all limits hold.
m4_define(«km_check_tuning», «km_each(«I», 1, km_tunable_count, 1,
    «_km_check_value(m4_indir(«km_tunable_»I))»)km_each(«I», 1, km_limit_count, 1,
    «km_require(m4_indir(«km_limit_»I), m4_indir(«km_why_»I))»)»)

m4_dnl km_space -- print the tunables, then all legal points, one per line.
m4_define(«km_space», «km_each(«I», 1, km_tunable_count, 1, «_km_tunable_line(m4_indir(«km_tunable_»I))
»)_km_points(1, «»)»)
m4_define(«_km_tunable_line», «tunable $1 m4_indir(«km_preset_$1») m4_defn(«km_values_$1») m4_defn(«km_words_$1»)»)
m4_define(«_km_points», «km_if(_km_limits_of(m4_decr($1)), «m4_ifelse(m4_eval($1 > km_tunable_count), 1, «point$2
», «_km_try($1, m4_indir(«km_tunable_$1»), «$2»)»)»)»)
m4_define(«_km_try», «m4_pushdef(«km_$2»)km_for_words(«V», «m4_indir(«km_values_$2»)»,
    «m4_define(«km_$2», V)_km_points(m4_incr($1), «$3 $2=»V)»)m4_popdef(«km_$2»)»)
m4_define(«_km_limits_of», «m4_ifdef(«km_limits_of_$1», «m4_indir(«km_limits_of_$1»)»)1»)
m4_divert(0)m4_dnl
