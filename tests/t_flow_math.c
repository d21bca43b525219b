/* Exponential and logarithm of flows, compared with the C library's in double precision.

   SPDX-License-Identifier: Apache-2.0 */
#include "../runtime/flow/flow_math.h"
#include "case_table.h"

/* Returns how many floats of the size of `wanted` are between both; if `wanted` has no size, they
   must be equal. */
static double distance(float found, double wanted) {
    float nearest = (float)wanted;
    int exponent;
    if (isnan(wanted) || isnan(found))
        return isnan(wanted) && isnan(found) ? 0 : INFINITY;
    if (isinf(nearest) || isinf(found))
        return found == nearest ? 0 : INFINITY;
    frexp(wanted, &exponent);
    return fabs(found - wanted) / ldexp(1, exponent - 24 < -149 ? -149 : exponent - 24);
}

/* Tests every step-th float, with NaN and infinities. */
static void test_all(const char *name, float function(float), double wanted(double)) {
    const uint32_t step = is_slow_run() ? 65537 : 577;
    double worst = 0;
    float where = 0;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += step) {
        float x = kvmill_float_of_bits((uint32_t)bits);
        double error = distance(function(x), wanted(x));
        if (error > worst)
            where = x;
        worst = error > worst ? error : worst;
    }
    ok(worst < 1, "%s: errors below one unit in the last place, at most %.3f at %a", name, worst,
       where);
}

EACH_ROW(flow_math, 3) {
    float x = strtof(cells[1], NULL), wanted = strtof(cells[2], NULL);
    float found = strcmp(cells[0], "exp") == 0 ? kvmill_exp(x) : kvmill_log(x);
    ok(memcmp(&found, &wanted, sizeof found) == 0 || (isnan(found) && isnan(wanted)),
       "%s(%a) is %a", cells[0], x, wanted);
}

TEST(functions) {
    test_all("exp", kvmill_exp, exp);
    test_all("log", kvmill_log, log);
}
