m4_divert(-1)
m4_dnl gather_tunables.m4 -- what kernels that gather leave open.  Windows whose length they do not know are
m4_dnl copied in pieces.
m4_define(«km_known», «m4_eval(km_bytes > 0)»)

m4_dnl km_turns -- how often bytes side by side are moved for a window.
m4_define(«_km_turns», «(m4_ifelse($1, 0, 1, $1))»)
m4_define(«km_turns», «m4_eval(_km_turns(km_extent1) * _km_turns(km_extent2) * _km_turns(km_extent3))»)
m4_define(«km_window_bytes», «m4_eval(km_turns * km_bytes)»)

km_tunable(«block», «km_if(km_known, 256, 0)», «km_if(km_known, «64, 128, 256, 512, 1024», 0)», «bytes that are moved in straight-line code»)
km_limit(«km_if(km_known, «km_block == km_preset_block || km_block < 2 * km_bytes», 1)», «a block is much longer than what lies side by side»)

m4_dnl Lone elements are loaded out of order as it is.
km_tunable(«ahead», «km_if(km_components > 0 && km_bytes >= 64, «km_if(km_window_bytes >= 4096, 1, «km_if(km_window_bytes >= 1024, 4, 8)»)», 0)», «km_if(km_known && km_components > 0, «0, 1, 2, 4, 8, 16», 0)», «windows ahead that are brought into the first cache»)

m4_dnl Pieces see to their alignment themselves.
m4_define(«km_can_go_around», «km_if(km_known, «m4_eval(km_can_stream(km_bytes) && km_can_stream(km_to1) && km_can_stream(km_to2) && km_can_stream(km_to3))», «m4_eval(km_can_stream(0))»)»)
km_tunable(«around», «km_if(km_can_go_around, 4096, 0)», «km_if(km_can_go_around, «0, 256, 1024, 4096, 16384, 65536», 0)», «KiB of a result from which it is stored around the caches; 0: never»)
m4_divert(0)m4_dnl
