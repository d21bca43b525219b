m4_divert(-1)
m4_dnl contract.m4 -- the words that every ISA file must define.
km_need_all(«isa/»km_isa«.m4», «km_isa», «km_target», «km_headers», «km_widths», «km_stream_bytes», «km_stream_end»,
    «km_join_widths»)
m4_divert(0)m4_dnl
