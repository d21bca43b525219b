m4_divert(-1)
m4_dnl contract.m4 -- what the file of every CPU must define.
km_need_all(«the file of the CPU», «km_headers», «km_widths», «km_stream_bytes», «km_stream_end», «km_join_widths»)
m4_divert(0)m4_dnl
