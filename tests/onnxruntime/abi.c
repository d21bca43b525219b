/* Compares bindings/onnxruntime/ort_api.h with the header of ONNX Runtime: every declared member
   has the runtime's offset and type.  Compiled with members.h, which the test generates from
   ort_api.h, with a line MEMBER(struct, name) for each member.

   SPDX-License-Identifier: Apache-2.0 */
#include <onnxruntime_c_api.h>

#include "../../bindings/onnxruntime/ort_api.h"

_Static_assert(ORT_API_VERSION >= ORT_VERSION, "the header is older");

typedef OrtApiBase theirs_ort_api_base;
typedef OrtApi theirs_ort_api;
typedef OrtEpApi theirs_ort_ep_api;
typedef OrtCustomOp theirs_ort_custom_op;
typedef OrtNodeComputeInfo theirs_ort_node_compute_info;
typedef OrtEp theirs_ort_ep;
typedef OrtEpFactory theirs_ort_ep_factory;

#define PLACE(whose, member)                                                                       \
    _Static_assert(offsetof(struct whose, member) == offsetof(theirs_##whose, member), #member);

/* In structs that the library fills, functions have the library's own types. */
#define TYPE(whose, member)                                                                        \
    _Static_assert(__builtin_types_compatible_p(__typeof__(((struct whose *)0)->member),           \
                                                __typeof__(((theirs_##whose *)0)->member)),        \
                   #member);

#include "members.h"

#define NUMBER(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs);
NUMBER(ORT_IS_FAILED, ORT_FAIL)
NUMBER(ORT_IS_INVALID_ARGUMENT, ORT_INVALID_ARGUMENT)
NUMBER(ORT_LOG_INFO, ORT_LOGGING_LEVEL_INFO)
NUMBER(ORT_LOG_WARNING, ORT_LOGGING_LEVEL_WARNING)
NUMBER(ORT_ATTRIBUTE_INTEGER, ORT_OP_ATTR_INT)
NUMBER(ORT_ATTRIBUTE_FLOAT, ORT_OP_ATTR_FLOAT)
NUMBER(ORT_ATTRIBUTE_STRING, ORT_OP_ATTR_STRING)
NUMBER(ORT_DEVICE_CPU, OrtHardwareDeviceType_CPU)
NUMBER(ORT_REQUIRED, INPUT_OUTPUT_REQUIRED)
NUMBER(ORT_OPTIONAL, INPUT_OUTPUT_OPTIONAL)
NUMBER(9, ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL)
NUMBER(16, ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16)
NUMBER(23, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT4E2M1)

int main(void) {
    return 0;
}
