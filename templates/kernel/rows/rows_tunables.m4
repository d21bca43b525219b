m4_divert(-1)
m4_dnl rows_tunables.m4 -- the tunables of kernels that move rows.
km_need_all(«the generator», «km_variant», «km_stream_bytes»)

m4_dnl Runs have any length.  Straight-line code can store around the caches if rows consist of whole steps.
m4_define(«km_moves_runs», «m4_ifelse(km_variant, «run», 1, km_variant, «pages4», 1, 0)»)
m4_define(«km_can_go_around», «km_can_stream(km_if(km_moves_runs, 0, «km_row»))»)

km_tunable(«around», «km_can_go_around», «0«»km_if(km_can_go_around, «, 1»)»,
    «large rows are stored around the caches (1), or never (0)»)

m4_define(«km_can_page», «km_can_go_around && km_moves_runs»)
km_tunable(«pages», «km_if(km_can_page, 4, 0)», «km_if(km_can_page, «1, 2, 4, 8», 0)»,
    «pages of a run that are copied at a time»)
km_limit(«km_around || km_pages == km_preset_pages», «pages matter around the caches alone»)

m4_dnl km_copy_of_runs -- copy_long with km_pages pages at a time; if this was not tuned, the calibration decides.
m4_define(«km_copy_of_runs», «km_long_copy(m4_eval(km_around * km_pages),
    km_if(km_pages == km_preset_pages, «stream > 1»))»)
m4_divert(0)m4_dnl
