/* kvmill_ffi.h against the header that jaxlib brings: the same layout, the same numbers.

   SPDX-License-Identifier: Apache-2.0 */
#include <kvmill_ffi.h>
#include <xla/ffi/api/c_api.h>

#define SAME(OURS, MEMBER, THEIRS, THEIR_MEMBER)                                                   \
    _Static_assert(offsetof(OURS, MEMBER) == offsetof(THEIRS, THEIR_MEMBER) &&                     \
                       sizeof(((OURS *)0)->MEMBER) == sizeof(((THEIRS *)0)->THEIR_MEMBER),         \
                   #THEIRS "." #THEIR_MEMBER)
#define SAME_NUMBER(OURS, THEIRS) _Static_assert((int)OURS == (int)THEIRS, #THEIRS)

SAME(kvmill_ffi_extension, type, XLA_FFI_Extension_Base, type);
SAME(kvmill_ffi_extension, next, XLA_FFI_Extension_Base, next);
SAME(kvmill_ffi_version, major_version, struct XLA_FFI_Api_Version, major_version);
SAME(kvmill_ffi_version, minor_version, struct XLA_FFI_Api_Version, minor_version);
SAME(kvmill_ffi_metadata, version, struct XLA_FFI_Metadata, api_version);
SAME(kvmill_ffi_metadata, traits, struct XLA_FFI_Metadata, traits);
SAME(kvmill_ffi_metadata_extension, metadata, struct XLA_FFI_Metadata_Extension, metadata);
SAME(kvmill_ffi_error_args, extensions, struct XLA_FFI_Error_Create_Args, extension_start);
SAME(kvmill_ffi_error_args, message, struct XLA_FFI_Error_Create_Args, message);
SAME(kvmill_ffi_error_args, code, struct XLA_FFI_Error_Create_Args, errc);
SAME(kvmill_ffi_api, error_create, struct XLA_FFI_Api, XLA_FFI_Error_Create);
SAME(kvmill_ffi_api, error_destroy, struct XLA_FFI_Api, XLA_FFI_Error_Destroy);
SAME(kvmill_ffi_api, schedule, struct XLA_FFI_Api, XLA_FFI_ThreadPool_Schedule);
SAME(kvmill_ffi_destroy_args, error, struct XLA_FFI_Error_Destroy_Args, error);
SAME(kvmill_ffi_schedule_args, context, struct XLA_FFI_ThreadPool_Schedule_Args, ctx);
SAME(kvmill_ffi_schedule_args, task, struct XLA_FFI_ThreadPool_Schedule_Args, task);
SAME(kvmill_ffi_schedule_args, data, struct XLA_FFI_ThreadPool_Schedule_Args, data);
SAME(kvmill_ffi_buffer, dtype, struct XLA_FFI_Buffer, dtype);
SAME(kvmill_ffi_buffer, data, struct XLA_FFI_Buffer, data);
SAME(kvmill_ffi_buffer, rank, struct XLA_FFI_Buffer, rank);
SAME(kvmill_ffi_buffer, dims, struct XLA_FFI_Buffer, dims);
SAME(kvmill_ffi_list, size, struct XLA_FFI_Args, size);
SAME(kvmill_ffi_list, types, struct XLA_FFI_Args, types);
SAME(kvmill_ffi_list, items, struct XLA_FFI_Args, args);
SAME(kvmill_ffi_list, items, struct XLA_FFI_Rets, rets);
SAME(kvmill_ffi_attributes, size, struct XLA_FFI_Attrs, size);
SAME(kvmill_ffi_attributes, types, struct XLA_FFI_Attrs, types);
SAME(kvmill_ffi_attributes, names, struct XLA_FFI_Attrs, names);
SAME(kvmill_ffi_attributes, items, struct XLA_FFI_Attrs, attrs);
SAME(kvmill_ffi_span, text, XLA_FFI_ByteSpan, ptr);
SAME(kvmill_ffi_span, length, XLA_FFI_ByteSpan, len);
SAME(kvmill_ffi_scalar, dtype, XLA_FFI_Scalar, dtype);
SAME(kvmill_ffi_scalar, value, XLA_FFI_Scalar, value);
SAME(kvmill_ffi_frame, extensions, struct XLA_FFI_CallFrame, extension_start);
SAME(kvmill_ffi_frame, api, struct XLA_FFI_CallFrame, api);
SAME(kvmill_ffi_frame, stage, struct XLA_FFI_CallFrame, stage);
SAME(kvmill_ffi_frame, arguments, struct XLA_FFI_CallFrame, args);
SAME(kvmill_ffi_frame, results, struct XLA_FFI_CallFrame, rets);
SAME(kvmill_ffi_frame, attributes, struct XLA_FFI_CallFrame, attrs);

SAME_NUMBER(KVMILL_FFI_METADATA, XLA_FFI_Extension_Metadata);
SAME_NUMBER(KVMILL_FFI_EXECUTE, XLA_FFI_ExecutionStage_EXECUTE);
SAME_NUMBER(KVMILL_FFI_BUFFER, XLA_FFI_ArgType_BUFFER);
SAME_NUMBER(KVMILL_FFI_BUFFER, XLA_FFI_RetType_BUFFER);
SAME_NUMBER(KVMILL_FFI_SCALAR, XLA_FFI_AttrType_SCALAR);
SAME_NUMBER(KVMILL_FFI_STRING, XLA_FFI_AttrType_STRING);
SAME_NUMBER(KVMILL_FFI_INVALID_ARGUMENT, XLA_FFI_Error_Code_INVALID_ARGUMENT);
SAME_NUMBER(KVMILL_FFI_RESOURCE_EXHAUSTED, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED);

static const struct {
    int32_t number;
    DLDataType dtype;
} types[] = {
    {XLA_FFI_DataType_PRED, {KVMILL_DL_BOOL, 8, 1}},
    {XLA_FFI_DataType_S8, {kDLInt, 8, 1}},
    {XLA_FFI_DataType_S16, {kDLInt, 16, 1}},
    {XLA_FFI_DataType_S32, {kDLInt, 32, 1}},
    {XLA_FFI_DataType_S64, {kDLInt, 64, 1}},
    {XLA_FFI_DataType_U8, {kDLUInt, 8, 1}},
    {XLA_FFI_DataType_U16, {kDLUInt, 16, 1}},
    {XLA_FFI_DataType_U32, {kDLUInt, 32, 1}},
    {XLA_FFI_DataType_U64, {kDLUInt, 64, 1}},
    {XLA_FFI_DataType_F16, {kDLFloat, 16, 1}},
    {XLA_FFI_DataType_F32, {kDLFloat, 32, 1}},
    {XLA_FFI_DataType_F64, {kDLFloat, 64, 1}},
    {XLA_FFI_DataType_BF16, {kDLBfloat, 16, 1}},
    {XLA_FFI_DataType_C64, {kDLComplex, 64, 1}},
    {XLA_FFI_DataType_C128, {kDLComplex, 128, 1}},
    {XLA_FFI_DataType_F8E5M2, {KVMILL_DL_FLOAT8_E5M2, 8, 1}},
    {XLA_FFI_DataType_F8E3M4, {KVMILL_DL_FLOAT8_E3M4, 8, 1}},
    {XLA_FFI_DataType_F8E4M3, {KVMILL_DL_FLOAT8_E4M3, 8, 1}},
    {XLA_FFI_DataType_F8E4M3FN, {KVMILL_DL_FLOAT8_E4M3FN, 8, 1}},
    {XLA_FFI_DataType_F8E4M3B11FNUZ, {KVMILL_DL_FLOAT8_E4M3B11FNUZ, 8, 1}},
    {XLA_FFI_DataType_F8E5M2FNUZ, {KVMILL_DL_FLOAT8_E5M2FNUZ, 8, 1}},
    {XLA_FFI_DataType_F8E4M3FNUZ, {KVMILL_DL_FLOAT8_E4M3FNUZ, 8, 1}},
    {XLA_FFI_DataType_F8E8M0FNU, {KVMILL_DL_FLOAT8_E8M0FNU, 8, 1}},
};

/* Exit 0: every number means the same type, and no other number up to 255 means any. */
int main(void) {
    size_t known = 0, count = sizeof types / sizeof *types;
    DLDataType dtype;
    for (int32_t number = -1; number < 256; number++)
        known += (size_t)kvmill_ffi_dtype(number, &dtype);
    for (size_t i = 0; i < count; i++)
        if (!kvmill_ffi_dtype(types[i].number, &dtype) || dtype.code != types[i].dtype.code ||
            dtype.bits != types[i].dtype.bits || dtype.lanes != 1) {
            printf("XLA's type number %d\n", (int)types[i].number);
            return 1;
        }
    printf("%zu types are known, %zu are checked\n", known, count);
    return known != count;
}
