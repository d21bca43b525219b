/* The phases of each step of a flow.

   SPDX-License-Identifier: Apache-2.0 */
#include "flow_plan.h"

const struct phase *const kvmill_flow_phases[OP_FLOW_STEPS][6] = {
    [OP_FLOW_APPEND] = {&kvmill_flow_write_phase, &kvmill_flow_summarise_phase, NULL},
    [OP_FLOW_INDEX] = {&kvmill_flow_prepare_phase, &kvmill_flow_score_phase,
                       &kvmill_flow_list_phase, NULL},
    [OP_FLOW_ATTEND] = {&kvmill_flow_attend_phase, &kvmill_flow_merge_phase, NULL},
    [OP_FLOW_DECODE] = {&kvmill_flow_prepare_phase, &kvmill_flow_score_phase,
                        &kvmill_flow_list_phase, &kvmill_flow_attend_phase,
                        &kvmill_flow_merge_phase, NULL},
    [OP_FLOW_SUMMARISE] = {&kvmill_flow_summarise_phase, NULL},
};
