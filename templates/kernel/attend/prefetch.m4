m4_divert(-1)
m4_dnl prefetch.m4 -- lines of the cache that are needed later.
m4_dnl km_fetch(SHARE, STEP, STEPS) -- in step STEP of STEPS fetch a part of SHARE of the lines that are needed AHEAD rows
m4_dnl on.  The processor's own prefetching loses the thread, and it can only hold so many lines in flight: so that
m4_dnl these never run out, the requests trickle through all of the arithmetic.
m4_define(«km_lines», «m4_eval((km_row_bytes_of(km_$1, km_$1_dim) + 63) / 64)»)
m4_define(«km_row_lines», «m4_eval(km_lines(«key») + km_lines(«value»))»)
m4_dnl Shares of 1000: FIRST, COUNT.  Many tiles of rows would fetch again what the first one did.
m4_define(«km_share_keys», «km_if(km_one_tile, «0, 200», «0, 500»)»)
m4_define(«km_share_score», «km_if(km_one_tile, «200, 250», «0, 0»)»)
m4_define(«km_share_softmax», «km_if(km_one_tile, «450, 100», «0, 0»)»)
m4_define(«km_share_values», «km_if(km_one_tile, «550, 200», «500, 500»)»)
m4_define(«km_share_accumulate», «km_if(km_one_tile, «km_if(km_direct, «550, 450», «750, 250»)», «0, 0»)»)
m4_define(«km_fetch», «_km_fetch(m4_indir(«km_share_$1»), «$2», $3)»)
m4_define(«_km_fetch», «km_if($2 == 0 || km_ahead == 0, «», «_km_fetch_lines(m4_eval($1 * km_row_lines * km_block / 1000), m4_eval(($1 + $2) * km_row_lines * km_block / 1000 - $1 * km_row_lines * km_block / 1000), «$3», $4)»)»)
m4_define(«_km_fetch_lines», «_km_fetch_some($1, $2, «$3», m4_eval(($2 + $4 - 1) / ($4)), $4)»)
m4_define(«_km_fetch_some», «km_each(«I», 0, m4_eval($4 - 1), 1, «        km_if($4 * ($5) > $2, «if (($3) * $4 + I < $2) »)__builtin_prefetch(w->next[$1 + ($3) * $4 + I], 0, 2);
»)»)

m4_dnl km_fetch_near(SIDE, I, FROM, LINES) -- bring LINES lines from byte FROM on of the row NEAR behind row I closer.
m4_define(«km_fetch_near», «km_if(km_near > 0, «_km_fetch_near($@)»)»)
m4_define(«_km_fetch_near», «km_each(«I», 0, m4_eval($4 - 1), 1, «        __builtin_prefetch(w->$1_row[$2 + NEAR] + $3 + I * 64, 0, 3);
»)»)
m4_divert(0)m4_dnl
