m4_divert(-1)
m4_dnl flow_ops.m4 -- the ops of programs of sparse flows; it uses the macros of flow_program.m4.

m4_dnl ---- Ops: km_op_NAME(VALUE, ROWS, COLUMNS, ATTRIBUTES..., INPUTS...) -- C text ----

m4_dnl km_place(VALUE) -- its array of floats.  km_element(VALUE, I, J) -- an element; along a dim of 1, always the
m4_dnl same.
m4_define(«km_place», «m4_ifdef(«_km_kept_$1», «(all_$1 + s * km_size_of(«$1»))»,
    «m4_ifdef(«_km_taps_$1», «p->constant[m4_substr(«$1», 1)]», «w->$1»)»)»)
m4_define(«km_element», «km_place(«$1»)[m4_ifelse(km_rows_of(«$1»), 1, «»,
    «($2) * km_columns_of(«$1») + »)m4_ifelse(km_columns_of(«$1»), 1, 0, «$3»)]»)

m4_dnl _km_over(VALUE, TEXT of I, J) -- sets every element of a value, row by row; _km_flat(VALUE, TEXT of I) -- in one
m4_dnl loop.
m4_define(«_km_over», «_km_for(«i», km_rows_of(«$1»),
    «_km_for(«j», km_columns_of(«$1»), «            km_element(«$1», «i», «j») = $2;
»)»)»)
m4_define(«_km_flat», «_km_for(«i», «km_rows_of(«$1») * km_columns_of(«$1»)», «        km_place(«$1»)[i] = $2;
»)»)
m4_dnl _km_for(VAR, COUNT, STATEMENT) -- a loop; if COUNT is 1, only the statement, with VAR as 0.
m4_define(«_km_for», «m4_ifelse(_km_count_of($2), 1, «m4_pushdef(«$1», 0)$3«»m4_popdef(«$1»)»,
    «    for (int64_t $1 = 0; $1 < $2; $1++)
$3»)»)
m4_define(«_km_count_of», «m4_ifelse(m4_index(«$*», «rows»), -1, «m4_eval($*)», «rows»)»)

m4_dnl km_round_result(VALUE) -- rounds the value of one page, or one that is common to all pages, if the flow says so;
m4_dnl km_round_pages(VALUE) -- rounds the values of all pages.
m4_define(«km_round_result», «m4_ifdef(«km_rounds», «_km_flat(«$1», «rounded(km_place(«$1»)[i])»)»)»)
m4_define(«km_round_pages», «m4_ifdef(«km_rounds», «m4_ifdef(«_km_kept_$1»,
    «_km_each_page(«$1», «rounded(_km_element_of(«$1»))»)», «km_round_result(«$1»)»)»)»)

m4_dnl _km_reduce(VALUE, DIM, X, ACROSS, DOWN, FINISH) -- reduces groups of columns, or of rows.
m4_define(«_km_group», «m4_ifelse(km_rows_of(«$2»), «rows», «rows», «m4_eval(km_rows_of(«$2») / km_rows_of(«$1»))»)»)
m4_define(«_km_reduce», «m4_ifelse(«$2», 1, «_km_for(«i», km_rows_of(«$1»),
    «        $4_down(km_place(«$1») + i * km_columns_of(«$1»),
    km_place(«$3») + i * _km_group(«$1», «$3») * km_columns_of(«$3»), _km_group(«$1»,
    «$3»), km_columns_of(«$3»), minus_0);
»)», «_km_over(«$1», «$4_across(km_place(«$3») + i * km_columns_of(«$3») + j * _km_width(«$1», «$3»),
    _km_width(«$1», «$3»)«»m4_ifelse(m4_index(« sum squares », « $4 »), -1, «», «, minus_0»))»)»)»)
m4_define(«_km_width», «m4_eval(km_columns_of(«$2») / km_columns_of(«$1»))»)
m4_define(«_km_mean», «_km_reduce(«$1», «$2», «$3», «sum»)_km_flat(«$1»,
    «km_place(«$1»)[i] / (float)m4_ifelse(«$2», 1, «_km_group(«$1», «$3»)», «_km_width(«$1», «$3»)»)»)»)
m4_define(«_km_norm», «_km_reduce(«$1», «$2», «$3», «squares»)_km_flat(«$1», «root(km_place(«$1»)[i])»)»)

m4_define(«km_op_Sum», «_km_reduce(«$1», «$4», «$5», «sum»)»)
m4_define(«km_op_Mean», «_km_mean(«$1», «$4», «$5»)»)
m4_define(«km_op_Max», «_km_reduce(«$1», «$4», «$5», «largest»)»)
m4_define(«km_op_Min», «_km_reduce(«$1», «$4», «$5», «least»)»)
m4_define(«km_op_L2Norm», «_km_norm(«$1», «$4», «$5»)»)
m4_define(«km_op_MeanInterleave», «_km_mean(«$1», «$4», «$6»)»)
m4_define(«km_op_MaxInterleave», «_km_reduce(«$1», «$4», «$6», «largest»)»)
m4_define(«km_op_MinInterleave», «_km_reduce(«$1», «$4», «$6», «least»)»)
m4_define(«km_op_L2NormInterleave», «_km_norm(«$1», «$4», «$6»)»)

m4_define(«km_op_GeMM», «_km_over(«$1», «dot_across(km_place(«$4») + j * km_columns_of(«$4»),
    km_place(«$5») + i * km_columns_of(«$5»), km_columns_of(«$4»), minus_0)»)»)

m4_dnl _km_unary(VALUE, X, TEXT of X), _km_binary(VALUE, X, Y, TEXT of X and Y) -- elementwise; one loop if all values
m4_dnl have the same shape.
m4_define(«_km_shape_of», «m4_indir(«_km_rows_$1»)x«»km_columns_of(«$1»)»)
m4_define(«_km_is_flat»,
    «m4_ifelse(_km_shape_of(«$1»):_km_shape_of(«$1»), _km_shape_of(«$2»):_km_shape_of(«$3»), 1, 0)»)
m4_define(«_km_unary», «_km_with(«_km_flat(«$1», «$3»)», «km_place(«$2»)[i]»)»)
m4_define(«_km_binary», «m4_ifelse(_km_is_flat(«$1», «$2», «$3»), 1,
  «_km_with(«_km_flat(«$1», «$4»)», «km_place(«$2»)[i]», «km_place(«$3»)[i]»)»,
  «_km_with(«_km_over(«$1», «$4»)», «km_element(«$2», «i», «j»)», «km_element(«$3», «i», «j»)»)»)»)

m4_define(«km_op_Multiply», «_km_binary(«$1», «$4», «$5», «km_times(«X», «Y»)»)»)
m4_define(«km_op_Maximum», «_km_binary(«$1», «$4», «$5», «X > Y ? X : Y»)»)
m4_define(«km_op_Minimum», «_km_binary(«$1», «$4», «$5», «X < Y ? X : Y»)»)
m4_define(«km_op_Add», «_km_binary(«$1», «$6», «$7», «_km_times_alpha(«$4», «X») + _km_times_alpha(«$5», «Y»)»)»)
m4_define(«_km_where», «_km_binary(«$1», «$2», «$3», «X $4 Y ? 0.f : -1e30f»)»)
m4_define(«km_op_WhereEqual», «_km_where(«$1», «$4», «$5», «==»)»)
m4_define(«km_op_WhereNotEqual», «_km_where(«$1», «$4», «$5», «!=»)»)
m4_define(«km_op_WhereGreater», «_km_where(«$1», «$4», «$5», «>»)»)
m4_define(«km_op_WhereGreaterEqual», «_km_where(«$1», «$4», «$5», «>=»)»)
m4_define(«km_op_WhereLess», «_km_where(«$1», «$4», «$5», «<»)»)
m4_define(«km_op_WhereLessEqual», «_km_where(«$1», «$4», «$5», «<=»)»)

m4_dnl _km_suffixed(NUMBER) -- a constant.  _km_times_alpha(NUMBER, X) -- NUMBER * X.
m4_dnl _km_affine(ALPHA, BETA) -- BETA * X + ALPHA.
m4_define(«_km_suffixed», «($1«»f)»)
m4_define(«_km_times_alpha», «m4_ifelse(«$1», «0x1p+0», «$2», «km_times(«_km_suffixed(«$1»)», «$2»)»)»)
m4_define(«_km_affine», «(_km_times_alpha(«$2», «X») + _km_suffixed(«$1»))»)
m4_define(«km_op_Relu», «_km_unary(«$1», «$6», «X >= _km_suffixed(«$4») ? X : _km_suffixed(«$5»)»)»)
m4_define(«km_op_Sigmoid», «_km_unary(«$1», «$6», «1 / (1 + exponential(_km_affine(«$4», «$5»), minus_0))»)»)
m4_define(«km_op_Silu», «_km_unary(«$1», «$6», «X / (1 + exponential(_km_affine(«$4», «$5»), minus_0))»)»)
m4_define(«km_op_Add_Mul», «_km_unary(«$1», «$6», «_km_affine(«$4», «$5»)»)»)
m4_define(«km_op_Abs», «_km_unary(«$1», «$6»,
    «_km_affine(«$4», «$5») < 0 ? -_km_affine(«$4», «$5») : _km_affine(«$4», «$5»)»)»)
m4_define(«km_op_Log», «_km_unary(«$1», «$6», «logarithm(_km_affine(«$4», «$5»), minus_0)»)»)
m4_define(«km_op_Exp», «_km_unary(«$1», «$6», «exponential(_km_affine(«$4», «$5»), minus_0)»)»)

m4_dnl _km_kron(DIMS, VALUE, ROW of i, COLUMN of j) -- the element of an input of Kron for row i and column j.
m4_define(«_km_kron», «km_element(«$2», m4_ifelse(m4_index(«$1», 1), -1, «i», «$3»),
    m4_ifelse(m4_index(«$1», 2), -1, «j», «$4»))»)
m4_define(«km_op_Kron», «_km_over(«$1», «km_times(«_km_kron(«$4», «$5», «i / km_rows_of(«$6»)»,
    «j / km_columns_of(«$6»)»)», «_km_kron(«$4», «$6», «i % km_rows_of(«$6»)», «j % km_columns_of(«$6»)»)»)»)»)

m4_define(«km_op_Transpose», «_km_over(«$1», «km_element(«$4», «j», «i»)»)»)
m4_define(«km_op_Reshape»,
    «    memcpy(km_place(«$1»), km_place(«$4»), m4_eval(4 * km_rows_of(«$1») * km_columns_of(«$1»)));
»)
m4_define(«km_op_MaskSlice», «m4_pushdef(«I», «m4_ifelse(«$6», 1, «i», «j»)»)_km_over(«$1»,
    «(I >= $7) & (I < $8) ? _km_suffixed(«$4») : _km_suffixed(«$5»)»)m4_popdef(«I»)»)
m4_define(«km_op_Fill», «_km_flat(«$1», «_km_suffixed(«$4»)»)»)

m4_define(«km_op_Load», m4_defn(«km_op_Reshape»))

m4_dnl ---- Ops over pages: km_over_NAME(VALUE, ATTRIBUTES..., INPUTS...) ----

m4_dnl km_over_pages -- functions for these ops.  Element e of page s is x[s * size + e]; page s goes to lane s % TERMS.
m4_define(«km_over_pages», «_km_over_sum(«sum», «X»)_km_over_sum(«squares»,
    «km_times(«X», «X»)»)_km_over_extreme(«largest», «>»)_km_over_extreme(«least», «<»)»)
m4_define(«_km_over_sum»,
    «km_inline(«void», «$1_over(float *to, const float *x, int64_t pages, int64_t size, float minus_0)»)
{
    if (size == 1) {
        *to = $1_across(x, pages, minus_0);
        return;
    }
    for (int64_t first = 0; first < size; first += TERMS) {
        float lane[TERMS][TERMS] = {{0}};
        int64_t some = size - first < TERMS ? size - first : TERMS;
        for (int64_t s = 0; s < pages; s++)
            for (int64_t e = 0; e < some; e++)
                lane[s % TERMS][e] += _km_with(«$2», «x[s * size + first + e]»);
        for (int apart = TERMS / 2; apart > 0; apart /= 2)
            for (int l = 0; l < apart; l++)
                for (int64_t e = 0; e < some; e++)
                    lane[l][e] += lane[l + apart][e];
        for (int64_t e = 0; e < some; e++)
            to[first + e] = lane[0][e];
    }
}

»)
m4_define(«_km_over_extreme», «km_inline(«void», «$1_over(float *to, const float *x, int64_t pages, int64_t size)»)
{
    for (int64_t e = 0; e < size; e++)
        to[e] = pages > 0 ? x[e] : 0;
    for (int64_t s = 1; s < pages; s++)
        for (int64_t e = 0; e < size; e++)
            to[e] = x[s * size + e] $2 to[e] ? x[s * size + e] : to[e];
}

»)

m4_define(«km_over_Sum», «    sum_over(w->$1, all_$3, p->pages, km_size_of(«$3»), minus_0);
»)
m4_define(«km_over_Mean», «km_over_Sum($@)    for (int64_t i = 0; i < km_size_of(«$3»); i++)
        w->$1[i] = p->pages > 0 ? w->$1[i] / (float)p->pages : 0;
»)
m4_define(«km_over_Max», «    largest_over(w->$1, all_$3, p->pages, km_size_of(«$3»));
»)
m4_define(«km_over_Min», «    least_over(w->$1, all_$3, p->pages, km_size_of(«$3»));
»)
m4_define(«km_over_L2Norm», «    squares_over(w->$1, all_$3, p->pages, km_size_of(«$3»), minus_0);
    for (int64_t i = 0; i < km_size_of(«$3»); i++)
        w->$1[i] = root(w->$1[i]);
»)
m4_dnl _km_each_page(VALUE, TEXT of S and E) -- sets every element of every page.
m4_define(«_km_each_page», «    for (int64_t s = 0; s < p->pages; s++)
        for (int64_t e = 0; e < km_size_of(«$1»); e++)
            all_$1[s * km_size_of(«$1») + e] = $2;
»)
m4_define(«_km_element_of», «all_$1[s * km_size_of(«$1») + e]»)
m4_define(«km_over_Softmax», «    {
    float of_row[km_size_of(«$1»)];
_km_each_page(«$1», «km_times(«_km_suffixed(«$2»)», «_km_element_of(«$4»)»)»)    largest_over(of_row, all_$1, p->pages,
    km_size_of(«$1»));
_km_each_page(«$1», «exponential(_km_element_of(«$1») - of_row[e], minus_0)»)    sum_over(of_row, all_$1, p->pages,
    km_size_of(«$1»), minus_0);
_km_each_page(«$1», «_km_element_of(«$1») / of_row[e]»)    }
»)
m4_define(«km_over_Normalize», «    {
    float of_row[km_size_of(«$1»)];
    squares_over(of_row, all_$3, p->pages, km_size_of(«$1»), minus_0);
    for (int64_t e = 0; e < km_size_of(«$1»); e++)
        of_row[e] = root(of_row[e]);
_km_each_page(«$1», «_km_element_of(«$3») / of_row[e]»)    }
»)
m4_dnl Taps outside of the row count as 0, so they are left out.
m4_define(«_km_half_taps», «m4_eval(m4_indir(«_km_taps_$1») / 2)»)
m4_define(«km_over_Conv1d», «    for (int64_t s = 0; s < p->pages; s++) {
        const int64_t low = s < _km_half_taps(«$4») ? _km_half_taps(«$4») - s : 0;
        const int64_t beyond = p->pages + _km_half_taps(«$4») - s;
        const int64_t high = beyond < m4_indir(«_km_taps_$4») ? beyond : m4_indir(«_km_taps_$4»);
        for (int64_t e = 0; e < km_size_of(«$1»); e++)
            _km_element_of(«$1») = 0;
        for (int64_t t = low; t < high; t++)
            for (int64_t e = 0; e < km_size_of(«$1»); e++)
                _km_element_of(«$1») += km_times(«km_place(«$4»)[t * km_size_of(«$1») + e]»,
                    «all_$3[(s + t - _km_half_taps(«$4»)) * km_size_of(«$1») + e]»);
    }
»)
m4_divert(0)m4_dnl
