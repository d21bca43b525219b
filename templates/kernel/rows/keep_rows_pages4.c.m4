m4_dnl keep_rows -- copies to present the rows of past that no new row replaces: those below the new rows and those
m4_dnl above.  If the new rows wrap around, only the rows between their end and their start remain.
m4_define(«km_stream_flag», «stream_keep»)m4_dnl
km_head(«Keep rows: what no update replaces.», km_dtype_headers)
km_helpers«»km_copy_of_runs
km_first_slot
km_copy_run
static int64_t
max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t
min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

km_run_function
{
    const struct kvmill_rows p = *(const struct kvmill_rows *)problem;
    const int64_t step = p.present_stride.row, past_step = p.past_stride.row;
    /* The loop nest: chunks of the slots of a head; in copy_run() the rows of a chunk.  */
    for (int64_t u = first; u < last; u++) {
km_unit_of_work«»m4_dnl
        int64_t at = b * p.present_stride.batch + h * p.present_stride.head;
        int64_t begin = b * p.past_stride.batch + h * p.past_stride.head;
        int64_t low = p.capacity * chunk / p.chunks, high = p.capacity * (chunk + 1) / p.chunks;
        int64_t slot = first_slot(&p, b), end = slot + p.rows;
        int64_t below = max(low, end - p.capacity), above = max(low, end);
        copy_run(&p, at + below * step, step, p.past, begin + below * past_step, past_step,
                 min(high, slot) - below);
        copy_run(&p, at + above * step, step, p.past, begin + above * past_step, past_step,
                 high - above);
    }
}

km_rows_descriptor(«KVMILL_KEEP_ROWS», 0)m4_dnl
