m4_dnl store_rows_run -- runs of new rows: for prompts, or if heads and rows are known only at run time.
m4_dnl A run that reaches the end of a ring continues at slot 0.
m4_define(«km_stream_flag», «stream_store»)m4_dnl
km_head(«Store rows: as runs of rows that follow each other.», km_dtype_headers)
km_helpers«»km_copy_of_runs
km_first_slot
km_copy_run
km_run_function
{
    const struct kvmill_rows p = *(const struct kvmill_rows *)problem;
    const int64_t step = km_p(«present_stride.row»), from_step = km_p(«update_stride.row»);
    /* The loop nest: chunks of the slots of a head; in copy_run() the rows of a chunk.  */
    for (int64_t u = first; u < last; u++) {
km_unit_of_work«»m4_dnl
        int64_t at = b * km_p(«present_stride.batch») + h * km_p(«present_stride.head»);
        int64_t begin = b * km_p(«update_stride.batch») + h * km_p(«update_stride.head»);
        int64_t row = p.rows * chunk / p.chunks, end = p.rows * (chunk + 1) / p.chunks;
        int64_t slot = first_slot(&p, b);
m4_ifelse(km_mode, «linear»,
    «        copy_run(&p, at + (slot + row) * step, step, p.update, begin + row * from_step, from_step,
                 end - row);
», «        int64_t turn = km_slots - slot; /* from this row on, rows continue at slot 0 */
        int64_t middle = turn < row ? row : turn < end ? turn : end;
        copy_run(&p, at + (slot + row) * step, step, p.update, begin + row * from_step, from_step,
                 middle - row);
        copy_run(&p, at + (middle - turn) * step, step, p.update, begin + middle * from_step,
                 from_step, end - middle);
»)m4_dnl
    }
}

km_rows_descriptor(«KVMILL_STORE_ROWS», 0)m4_dnl
