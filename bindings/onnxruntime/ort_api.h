/* The part of ONNX Runtime's C interface, version 24 (ONNX Runtime 1.24), that is used here.  The
   interface consists of tables of functions, to which later versions only append.  Gaps of pointers
   stand for functions that are not used.

   Names, numbers and positions are facts of that interface, which tests/onnxruntime/abi.c compares
   with its own header.  Functions that give an OrtStatus give NULL on success.  Enumerations are
   unsigned numbers here.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_ORT_API_H
#define KVMILL_ONNXRUNTIME_ORT_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ORT_LEAST is enough for custom ops: with older runtimes they use no member of struct ort_api from
   number 275 on. */
enum { ORT_VERSION = 24, ORT_LEAST = 20 };

/* Status codes. */
enum { ORT_IS_FAILED = 1, ORT_IS_INVALID_ARGUMENT = 2 };

/* Log levels. */
enum { ORT_LOG_INFO = 1, ORT_LOG_WARNING = 2 };

/* Attribute types. */
enum { ORT_ATTRIBUTE_INTEGER = 1, ORT_ATTRIBUTE_FLOAT = 3, ORT_ATTRIBUTE_STRING = 5 };

enum { ORT_DEVICE_CPU = 0 };

/* Whether inputs and outputs of custom ops are required. */
enum { ORT_REQUIRED = 0, ORT_OPTIONAL = 1 };

typedef struct OrtStatus OrtStatus;
typedef struct OrtValue OrtValue;
typedef struct OrtTypeInfo OrtTypeInfo;
typedef struct OrtTensorTypeAndShapeInfo OrtTensorTypeAndShapeInfo;
typedef struct OrtKernelInfo OrtKernelInfo;
typedef struct OrtKernelContext OrtKernelContext;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtCustomOpDomain OrtCustomOpDomain;
typedef struct OrtCustomOp OrtCustomOp;
typedef struct OrtLogger OrtLogger;
typedef struct OrtShapeInferContext OrtShapeInferContext;
typedef struct OrtOpAttr OrtOpAttr;
typedef struct OrtValueInfo OrtValueInfo;
typedef struct OrtNode OrtNode;
typedef struct OrtGraph OrtGraph;
typedef struct OrtKeyValuePairs OrtKeyValuePairs;
typedef struct OrtHardwareDevice OrtHardwareDevice;
typedef struct OrtEpDevice OrtEpDevice;
typedef struct OrtEp OrtEp;
typedef struct OrtEpFactory OrtEpFactory;
typedef struct OrtEpGraphSupportInfo OrtEpGraphSupportInfo;
typedef struct OrtNodeFusionOptions OrtNodeFusionOptions;
typedef struct OrtNodeComputeInfo OrtNodeComputeInfo;
typedef struct OrtNodeComputeContext OrtNodeComputeContext;
typedef struct OrtAllocator OrtAllocator;
typedef struct OrtDataTransferImpl OrtDataTransferImpl;

/* Part `index` of a parallel loop. */
typedef void (*ort_part)(void *data, size_t index);

/* ---- Tables of the runtime ---- */

struct ort_api {
    OrtStatus *(*CreateStatus)(unsigned code, const char *message);
    void *unused_1[1];
    const char *(*GetErrorMessage)(const OrtStatus *status);
    void *unused_3[23];
    OrtStatus *(*CreateCustomOpDomain)(const char *domain, OrtCustomOpDomain **out);
    OrtStatus *(*CustomOpDomain_Add)(OrtCustomOpDomain *domain, const OrtCustomOp *op);
    OrtStatus *(*AddCustomOpDomain)(OrtSessionOptions *options, OrtCustomOpDomain *domain);
    void *unused_29[22];
    OrtStatus *(*GetTensorMutableData)(OrtValue *value, void **out);
    void *unused_52[3];
    OrtStatus *(*CastTypeInfoToTensorInfo)(const OrtTypeInfo *type,
                                           const OrtTensorTypeAndShapeInfo **out);
    void *unused_56[1];
    OrtStatus *(*CreateTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo **out);
    OrtStatus *(*SetTensorElementType)(OrtTensorTypeAndShapeInfo *info, unsigned type);
    OrtStatus *(*SetDimensions)(OrtTensorTypeAndShapeInfo *info, const int64_t *dims, size_t count);
    OrtStatus *(*GetTensorElementType)(const OrtTensorTypeAndShapeInfo *info, unsigned *out);
    OrtStatus *(*GetDimensionsCount)(const OrtTensorTypeAndShapeInfo *info, size_t *out);
    OrtStatus *(*GetDimensions)(const OrtTensorTypeAndShapeInfo *info, int64_t *dims, size_t count);
    OrtStatus *(*GetSymbolicDimensions)(const OrtTensorTypeAndShapeInfo *info, const char **names,
                                        size_t count);
    void *unused_64[1];
    OrtStatus *(*GetTensorTypeAndShape)(const OrtValue *value, OrtTensorTypeAndShapeInfo **out);
    void *unused_66[19];
    OrtStatus *(*KernelInfoGetAttribute_float)(const OrtKernelInfo *info, const char *name,
                                               float *out);
    OrtStatus *(*KernelInfoGetAttribute_int64)(const OrtKernelInfo *info, const char *name,
                                               int64_t *out);
    OrtStatus *(*KernelInfoGetAttribute_string)(const OrtKernelInfo *info, const char *name,
                                                char *out, size_t *size);
    OrtStatus *(*KernelContext_GetInputCount)(const OrtKernelContext *context, size_t *out);
    OrtStatus *(*KernelContext_GetOutputCount)(const OrtKernelContext *context, size_t *out);
    OrtStatus *(*KernelContext_GetInput)(const OrtKernelContext *context, size_t index,
                                         const OrtValue **out);
    OrtStatus *(*KernelContext_GetOutput)(OrtKernelContext *context, size_t index,
                                          const int64_t *dims, size_t count, OrtValue **out);
    void *unused_92[1];
    void (*ReleaseStatus)(OrtStatus *status);
    void *unused_94[5];
    void (*ReleaseTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo *info);
    void *unused_100[1];
    void (*ReleaseCustomOpDomain)(OrtCustomOpDomain *domain);
    void *unused_102[128];
    OrtStatus *(*KernelInfo_GetInputCount)(const OrtKernelInfo *info, size_t *out);
    OrtStatus *(*KernelInfo_GetOutputCount)(const OrtKernelInfo *info, size_t *out);
    OrtStatus *(*KernelInfo_GetInputName)(const OrtKernelInfo *info, size_t index, char *out,
                                          size_t *size);
    OrtStatus *(*KernelInfo_GetOutputName)(const OrtKernelInfo *info, size_t index, char *out,
                                           size_t *size);
    void *unused_234[13];
    OrtStatus *(*Logger_LogMessage)(const OrtLogger *logger, unsigned level, const char *message,
                                    const char *file, int line, const char *function);
    void *unused_248[19];
    OrtStatus *(*ShapeInferContext_GetInputCount)(const OrtShapeInferContext *context, size_t *out);
    OrtStatus *(*ShapeInferContext_GetInputTypeShape)(const OrtShapeInferContext *context,
                                                      size_t index,
                                                      OrtTensorTypeAndShapeInfo **out);
    OrtStatus *(*ShapeInferContext_GetAttribute)(const OrtShapeInferContext *context,
                                                 const char *name, const OrtOpAttr **out);
    OrtStatus *(*ShapeInferContext_SetOutputTypeShape)(const OrtShapeInferContext *context,
                                                       size_t index,
                                                       const OrtTensorTypeAndShapeInfo *info);
    OrtStatus *(*SetSymbolicDimensions)(OrtTensorTypeAndShapeInfo *info, const char **names,
                                        size_t count);
    OrtStatus *(*ReadOpAttr)(const OrtOpAttr *attribute, unsigned type, void *data, size_t size,
                             size_t *out);
    void *unused_273[1];
    OrtStatus *(*KernelContext_ParallelFor)(const OrtKernelContext *context, ort_part part,
                                            size_t count, size_t batches, void *data);
    void *unused_275[14];
    OrtStatus *(*GetValueInfoName)(const OrtValueInfo *value, const char **out);
    OrtStatus *(*GetValueInfoTypeInfo)(const OrtValueInfo *value, const OrtTypeInfo **out);
    void *unused_291[6];
    const char *(*GetKeyValue)(const OrtKeyValuePairs *pairs, const char *key);
    void (*GetKeyValuePairs)(const OrtKeyValuePairs *pairs, const char *const **keys,
                             const char *const **values, size_t *count);
    void *unused_299[1];
    void (*ReleaseKeyValuePairs)(OrtKeyValuePairs *pairs);
    void *unused_301[6];
    unsigned (*HardwareDevice_Type)(const OrtHardwareDevice *device);
    void *unused_308[9];
    const struct OrtEpApi *(*GetEpApi)(void);
    void *unused_318[5];
    OrtStatus *(*ValueInfo_GetValueProducer)(const OrtValueInfo *value, const OrtNode **node,
                                             size_t *index);
    OrtStatus *(*ValueInfo_GetValueNumConsumers)(const OrtValueInfo *value, size_t *out);
    void *unused_325[5];
    OrtStatus *(*ValueInfo_IsGraphOutput)(const OrtValueInfo *value, bool *out);
    OrtStatus *(*ValueInfo_IsConstantInitializer)(const OrtValueInfo *value, bool *out);
    void *unused_332[4];
    OrtStatus *(*Graph_GetNumOperatorSets)(const OrtGraph *graph, size_t *out);
    OrtStatus *(*Graph_GetOperatorSets)(const OrtGraph *graph, const char **domains,
                                        int64_t *versions, size_t count);
    OrtStatus *(*Graph_GetNumInputs)(const OrtGraph *graph, size_t *out);
    OrtStatus *(*Graph_GetInputs)(const OrtGraph *graph, const OrtValueInfo **out, size_t count);
    OrtStatus *(*Graph_GetNumOutputs)(const OrtGraph *graph, size_t *out);
    OrtStatus *(*Graph_GetOutputs)(const OrtGraph *graph, const OrtValueInfo **out, size_t count);
    void *unused_342[2];
    OrtStatus *(*Graph_GetNumNodes)(const OrtGraph *graph, size_t *out);
    OrtStatus *(*Graph_GetNodes)(const OrtGraph *graph, const OrtNode **out, size_t count);
    void *unused_346[3];
    OrtStatus *(*Node_GetName)(const OrtNode *node, const char **out);
    OrtStatus *(*Node_GetOperatorType)(const OrtNode *node, const char **out);
    OrtStatus *(*Node_GetDomain)(const OrtNode *node, const char **out);
    OrtStatus *(*Node_GetSinceVersion)(const OrtNode *node, int *out);
    OrtStatus *(*Node_GetNumInputs)(const OrtNode *node, size_t *out);
    OrtStatus *(*Node_GetInputs)(const OrtNode *node, const OrtValueInfo **out, size_t count);
    OrtStatus *(*Node_GetNumOutputs)(const OrtNode *node, size_t *out);
    OrtStatus *(*Node_GetOutputs)(const OrtNode *node, const OrtValueInfo **out, size_t count);
    void *unused_357[2];
    OrtStatus *(*Node_GetNumAttributes)(const OrtNode *node, size_t *out);
    OrtStatus *(*Node_GetAttributes)(const OrtNode *node, const OrtOpAttr **out, size_t count);
    OrtStatus *(*Node_GetAttributeByName)(const OrtNode *node, const char *name,
                                          const OrtOpAttr **out);
    void *unused_362[2];
    OrtStatus *(*OpAttr_GetName)(const OrtOpAttr *attribute, const char **out);
    void *unused_365[14];
    OrtStatus *(*GetSessionOptionsConfigEntries)(const OrtSessionOptions *options,
                                                 OrtKeyValuePairs **out);
    void *unused_380[10];
    bool (*TensorTypeAndShape_HasShape)(const OrtTensorTypeAndShapeInfo *info);
    OrtStatus *(*KernelInfo_GetConfigEntries)(const OrtKernelInfo *info, OrtKeyValuePairs **out);
    void *unused_392[22];
    OrtStatus *(*GetTensorElementTypeAndShapeDataReference)(const OrtValue *value, unsigned *type,
                                                            const int64_t **dims, size_t *count);
};

struct ort_ep_api {
    OrtStatus *(*CreateEpDevice)(OrtEpFactory *factory, const OrtHardwareDevice *device,
                                 const OrtKeyValuePairs *metadata, const OrtKeyValuePairs *options,
                                 OrtEpDevice **out);
    void *unused_1[1];
    OrtStatus *(*EpGraphSupportInfo_AddNodesToFuse)(OrtEpGraphSupportInfo *info,
                                                    const OrtNode *const *nodes, size_t count,
                                                    const OrtNodeFusionOptions *options);
};

struct ort_api_base {
    const struct ort_api *(*GetApi)(uint32_t version);
    const char *(*GetVersionString)(void);
};

/* ---- Structs that the runtime receives ---- */

/* A custom op. */
struct ort_custom_op {
    uint32_t version;
    void *CreateKernel; /* replaced by CreateKernelV2 */
    const char *(*GetName)(const struct ort_custom_op *op);
    const char *(*GetExecutionProviderType)(const struct ort_custom_op *op);
    unsigned (*GetInputType)(const struct ort_custom_op *op, size_t index);
    size_t (*GetInputTypeCount)(const struct ort_custom_op *op);
    unsigned (*GetOutputType)(const struct ort_custom_op *op, size_t index);
    size_t (*GetOutputTypeCount)(const struct ort_custom_op *op);
    void *KernelCompute; /* replaced by KernelComputeV2 */
    void (*KernelDestroy)(void *kernel);
    unsigned (*GetInputCharacteristic)(const struct ort_custom_op *op, size_t index);
    unsigned (*GetOutputCharacteristic)(const struct ort_custom_op *op, size_t index);
    int (*GetInputMemoryType)(const struct ort_custom_op *op, size_t index);
    int (*GetVariadicInputMinArity)(const struct ort_custom_op *op);
    int (*GetVariadicInputHomogeneity)(const struct ort_custom_op *op);
    int (*GetVariadicOutputMinArity)(const struct ort_custom_op *op);
    int (*GetVariadicOutputHomogeneity)(const struct ort_custom_op *op);
    OrtStatus *(*CreateKernelV2)(const struct ort_custom_op *op, const struct ort_api *api,
                                 const OrtKernelInfo *info, void **kernel);
    OrtStatus *(*KernelComputeV2)(void *kernel, OrtKernelContext *context);
    OrtStatus *(*InferOutputShapeFn)(const struct ort_custom_op *op, OrtShapeInferContext *context);
    int (*GetStartVersion)(const struct ort_custom_op *op);
    int (*GetEndVersion)(const struct ort_custom_op *op);
    size_t (*GetMayInplace)(int **inputs, int **outputs);
    void (*ReleaseMayInplace)(int *inputs, int *outputs);
    size_t (*GetAliasMap)(int **inputs, int **outputs);
    void (*ReleaseAliasMap)(int *inputs, int *outputs);
};

/* Computes a fused node. */
struct ort_node_compute_info {
    uint32_t ort_version_supported;
    OrtStatus *(*CreateState)(OrtNodeComputeInfo *info, OrtNodeComputeContext *context,
                              void **state);
    OrtStatus *(*Compute)(OrtNodeComputeInfo *info, void *state, OrtKernelContext *context);
    void (*ReleaseState)(OrtNodeComputeInfo *info, void *state);
};

/* An execution provider in a session; has the members up to version 24. */
struct ort_ep {
    uint32_t ort_version_supported;
    const char *(*GetName)(const OrtEp *ep);
    OrtStatus *(*GetCapability)(OrtEp *ep, const OrtGraph *graph, OrtEpGraphSupportInfo *info);
    OrtStatus *(*Compile)(OrtEp *ep, const OrtGraph **graphs, const OrtNode **fused, size_t count,
                          OrtNodeComputeInfo **infos, OrtNode **context_nodes);
    void (*ReleaseNodeComputeInfos)(OrtEp *ep, OrtNodeComputeInfo **infos, size_t count);
    void *unused[10];
};

/* Creates providers; has the members up to version 24. */
struct ort_ep_factory {
    uint32_t ort_version_supported;
    const char *(*GetName)(const OrtEpFactory *factory);
    const char *(*GetVendor)(const OrtEpFactory *factory);
    OrtStatus *(*GetSupportedDevices)(OrtEpFactory *factory,
                                      const OrtHardwareDevice *const *devices, size_t count,
                                      OrtEpDevice **ep_devices, size_t most, size_t *found);
    OrtStatus *(*CreateEp)(OrtEpFactory *factory, const OrtHardwareDevice *const *devices,
                           const OrtKeyValuePairs *const *metadata, size_t count,
                           const OrtSessionOptions *options, const OrtLogger *logger, OrtEp **ep);
    void (*ReleaseEp)(OrtEpFactory *factory, OrtEp *ep);
    uint32_t (*GetVendorId)(const OrtEpFactory *factory);
    const char *(*GetVersion)(const OrtEpFactory *factory);
    void *unused_models[2]; /* for compiled models, allocators */
    void (*ReleaseAllocator)(OrtEpFactory *factory, OrtAllocator *allocator);
    OrtStatus *(*CreateDataTransfer)(OrtEpFactory *factory, OrtDataTransferImpl **out);
    bool (*IsStreamAware)(const OrtEpFactory *factory);
    void *unused_memory[3]; /* for streams, reasons of unfit devices, memory of others */
    OrtStatus *(*GetNumCustomOpDomains)(OrtEpFactory *factory, size_t *count);
    OrtStatus *(*GetCustomOpDomains)(OrtEpFactory *factory, OrtCustomOpDomain **domains,
                                     size_t count);
};

#endif
