/* Quantises rows as append does.

   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "oracle_flow.h"
#include "oracle_numbers.h"

bool oracle_rounds(const kvmill_flow *flow) {
    return flow->temporaries != NULL && strcmp(flow->temporaries, "bfloat16") == 0;
}

double oracle_result(bool rounds, double x) {
    return rounds ? oracle_round(ORACLE_BF16, x) : x;
}

bool oracle_grows(const kvmill_flow *flow, size_t field) {
    for (size_t i = 0; flow->field_scales != NULL && i < flow->field_count; i++)
        if (flow->field_scales[i] != NULL &&
            strcmp(flow->field_scales[i], flow->fields[field].name) == 0)
            return true;
    return flow->appended >> field & 1;
}

int oracle_scales_field(const kvmill_flow *flow, size_t field) {
    if (flow->field_scales == NULL || flow->field_scales[field] == NULL)
        return -1;
    int scales = 0;
    while (strcmp(flow->fields[scales].name, flow->field_scales[field]) != 0)
        scales++;
    return scales;
}

static double largest_code(DLDataType type) {
    return type.code == kDLInt ? 127 : type.code == KVMILL_DL_FLOAT8_E4M3FN ? 448 : 57344;
}

/* Returns the least power of two that is not less than x. */
static double power_above(double x) {
    double power = 1;
    while (power < x)
        power *= 2;
    while (power / 2 >= x)
        power /= 2;
    return power;
}

double oracle_quantise(DLDataType type, bool powers, const double *x, int64_t count,
                       double *codes) {
    double most = largest_code(type), magnitude = 1e-4f, scale;
    for (int64_t i = 0; i < count; i++)
        magnitude = isnan(magnitude) || isnan(x[i]) ? NAN : fmax(magnitude, fabs(x[i]));
    scale = oracle_round(ORACLE_F32, magnitude / most);
    if (powers && isfinite(scale))
        scale = power_above(scale);
    for (int64_t i = 0; i < count; i++) {
        double quotient = oracle_round(ORACLE_F32, x[i] / scale);
        quotient = fmin(fmax(quotient, -most), most);
        codes[i] = !isfinite(scale) ? 0 : type.code == kDLInt ? rint(quotient) : quotient;
    }
    return scale;
}
