m4_divert(-1)
m4_dnl gather_tunables.m4 -- the tunables of gather kernels.  Windows of unknown length are copied in pieces.
m4_define(«km_known», «m4_eval(km_bytes > 0)»)

m4_dnl If the number of streams, or stores around the caches, were not tuned, the calibration decides at run time.

m4_dnl km_turns -- the number of runs of adjacent bytes in a window.
m4_define(«_km_runs_of», «(m4_ifelse($1, 0, 1, $1))»)
m4_define(«km_turns», «m4_eval(_km_runs_of(km_extent1) * _km_runs_of(km_extent2) * _km_runs_of(km_extent3))»)
m4_define(«km_window_bytes», «m4_eval(km_turns * km_bytes)»)

km_tunable(«stretch», «km_if(km_known, «km_if(km_bytes < 4096, 256, 128)», 0)»,
    «km_if(km_known, «64, 128, 256, 512, 1024», 0)», «bytes that are moved in straight-line code»)
km_limit(«km_if(km_known, «km_stretch == km_preset_stretch || km_stretch < 2 * km_bytes», 1)»,
    «a stretch is much longer than what lies side by side»)

m4_dnl Memory delivers more to several streams: with pages of 32 KiB, four streams 23.5 GB/s, one 17.1, memcpy 13.6 (one
m4_dnl thread of a busy Sapphire Rapids, 512 pages anywhere in 512 MiB).
m4_define(«km_usual_streams», «km_if(km_bytes >= 16384, 4, «km_if(km_bytes >= 8192, 2, 1)»)»)
km_tunable(«streams», «km_if(km_bytes % (km_usual_streams * km_preset_stretch + !km_known) == 0, km_usual_streams, 1)»,
    «km_if(km_known && km_bytes >= 4096, «1, 2, 4, 8», 1)», «places of a long run of bytes that are copied in turn»)
km_limit(«km_streams == 1 || km_bytes % (km_streams * km_stretch + !km_known) == 0»,
    «the streams are no whole stretches»)

m4_dnl The processor overlaps the loads of short windows by itself, and hardware prefetchers follow long ones.
m4_define(«km_usual_ahead»,
    «km_if(km_window_bytes >= 16384, 0, «km_if(km_window_bytes >= 8192, 1, «km_if(km_window_bytes >= 4096, 2, 8)»)»)»)
km_tunable(«ahead», «km_if(km_components > 0 && km_bytes >= 512, km_usual_ahead, 0)»,
    «km_if(km_known && km_components > 0, «0, 1, 2, 4, 8, 16»,
    0)», «windows ahead that are brought into the first cache»)

m4_dnl Kernels for pieces align themselves at run time.
m4_define(«km_can_go_around»,
    «km_if(km_known,
    «m4_eval(km_can_stream(km_bytes) && km_can_stream(km_to1) && km_can_stream(km_to2) && km_can_stream(km_to3))»,
    «m4_eval(km_can_stream(0))»)»)
km_tunable(«around», «km_if(km_can_go_around, 4096, 0)»,
    «km_if(km_can_go_around, «0, 256, 1024, 4096, 16384, 65536»,
    0)», «KiB of a result from which it is stored around the caches; 0: never»)
m4_define(«km_around_from», «km_if(km_around == km_preset_around, «g->around», «km_around * INT64_C(1024)»)»)
m4_divert(0)m4_dnl
