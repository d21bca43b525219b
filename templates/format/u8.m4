m4_divert(-1)
m4_dnl u8.m4 -- rows of whole bytes, addressed as base + offset in bytes.
m4_define(«km_unit_bits», «8»)

m4_define(«km_dtype_headers», «»)

m4_dnl km_helpers -- C functions that km_copy and km_long_copy use.
m4_define(«km_helpers», «»)

m4_dnl km_copy(N, TO, AT, FROM, BEGIN) -- copy N bytes in straight-line code.
m4_define(«km_copy», «km_straight(«km_move», «km_widths», «$1», «$2 + $3», «$4 + $5»)»)

m4_dnl km_can_stream(N) -- whether N bytes can be stored around the caches if they begin aligned.
m4_define(«km_can_stream», «(km_stream_bytes > 0 && ($1) % (km_stream_bytes + !km_stream_bytes) == 0)»)

m4_dnl km_copy_around(N, TO, AT, FROM, BEGIN) -- the same, with stores around the caches.
m4_define(«km_copy_around», «km_straight(«km_stream», «km_stream_bytes», «$1», «$2 + $3», «$4 + $5»)»)

m4_dnl km_long_copy(PAGES, CONDITION) -- defines copy_long (to, at, from, begin, count, stream), which copies PAGES
m4_dnl pages at a time: always, or if a CONDITION is given, only if it holds.  With 0 it never does.
m4_dnl Plain stores read every line before they overwrite it; stores around the caches do not.  On Intel's processors
m4_dnl several pages at a time keep more reads in flight: 34 GB/s, against 23 for one stream of such stores and 19 for
m4_dnl memcpy (64 MiB, Sapphire Rapids; 25, 20 and 23 for 1 GiB).  AMD's processors copy a fifth faster one page after
m4_dnl the other.
m4_define(«km_long_copy», «km_if($1, «_km_long_stream($1, m4_ifelse(«$2», «», «», «$2 && »))», «_km_long_memcpy»)»)

m4_define(«_km_long_memcpy», «static void
copy_long(unsigned char *to, int64_t at, const unsigned char *from, int64_t begin, int64_t count,
          int64_t stream)
{
    (void)stream;
    memcpy(to + at, from + begin, (size_t)count);
}
»)

m4_define(«_km_long_stream», «km_function(«void», «copy_long(unsigned char *to, int64_t at, const unsigned char *from,
    int64_t begin, int64_t count,
          int64_t stream)»)
{
    enum { PAGE = 4096, PAGES = $1 };
    unsigned char *target = to + at;
    const unsigned char *source = from + begin;
    if (stream && count >= km_stream_bytes) {
        int64_t head = -(uintptr_t)target & (km_stream_bytes - 1);
        memcpy(target, source, (size_t)head);
        target += head;
        source += head;
        count -= head;
        for (; $2«»count >= PAGE * PAGES; count -= PAGE * PAGES) {
            for (int64_t i = 0; i < PAGE; i += 128) {
km_each(«P», 0, $1 - 1, 1,
    «km_straight(«km_stream», «km_stream_bytes», 128, «target + i + P * PAGE», «source + i + P * PAGE»)»)m4_dnl
            }
            target += PAGE * PAGES;
            source += PAGE * PAGES;
        }
        for (; count >= km_stream_bytes; count -= km_stream_bytes) {
km_straight(«km_stream», «km_stream_bytes», «km_stream_bytes», «target», «source»)m4_dnl
            target += km_stream_bytes;
            source += km_stream_bytes;
        }
        km_stream_end;
    }
    memcpy(target, source, (size_t)count);
}
»)
m4_divert(0)m4_dnl
