/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx_attention_plan.h"

const struct phase *const kvmill_onnx_phases[] = {
    &kvmill_attend_phase,  &kvmill_merge_phase,   &kvmill_wide_phase, &kvmill_scores_phase,
    &kvmill_present_phase, &kvmill_scatter_phase, &kvmill_ring_phase, NULL};
