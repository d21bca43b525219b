/* PMX's ops and their attributes as nodes of its domains have them, from the descriptions in
   defs/.  Printed by doc/describe_ops; not edited.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_PMX_SIGNATURES_H
#define KVMILL_ONNXRUNTIME_PMX_SIGNATURES_H

/* clang-format off */
/* Members of struct node_op, by the number of an op; those from 3 on are of dynamic batching. */
#define PMX_SIGNATURE_0 .name = "KeyValueCache", .required = 0x1026, .inputs = {5, {1, 2, 5, 12, 13}}, .outputs = {2, {3, 4}}
#define PMX_SIGNATURE_1 .name = "MultiHeadAttention", .required = 0x19, .inputs = {4, {0, 3, 4, 16}}, .outputs = {1, {18}}
#define PMX_SIGNATURE_2 .name = "MultiHeadCacheAttention", .required = 0x1027, .inputs = {7, {0, 1, 2, 5, 12, 13, 16}}, .outputs = {1, {18}}
#define PMX_SIGNATURE_3 .name = "KeyValueCache", .required = 0x1de6, .inputs = {10, {1, 2, 6, 7, 8, 5, 10, 11, 12, 13}}, .outputs = {2, {3, 4}}
#define PMX_SIGNATURE_4 .name = "MultiHeadAttention", .required = 0xed9, .inputs = {9, {0, 3, 4, 6, 7, 9, 10, 11, 16}}, .outputs = {1, {18}}
#define PMX_SIGNATURE_5 .name = "MultiHeadCacheAttention", .required = 0x1fe7, .inputs = {13, {0, 1, 2, 6, 7, 8, 5, 9, 10, 11, 12, 13, 16}}, .outputs = {1, {18}}

/* Members of kvmill_cache_attention; the ops that have it, a bit for the number of each. */
#define PMX_ATTRIBUTES \
    PMX_INTEGER(num_heads, 0x36), \
    PMX_INTEGER(head_dim, 0x36), \
    PMX_FLAG(is_causal, 0x36), \
    PMX_FLAG(is_alibi, 0x36), \
    PMX_INTEGER(num_kv_heads, 0x36), \
    PMX_INTEGER(num_layer, 0x2d), \
    PMX_INTEGER(layer_idx, 0x2d), \
    PMX_INTEGER(quant_bit, 0x2d), \
    PMX_INTEGER(quant_group, 0x2d), \
    PMX_INTEGER(cache_layout, 0x2d), \
    PMX_INTEGER(cache_mode, 0x28), \
    PMX_INTEGER(page_size, 0x28), \
    PMX_INTEGER(num_repeat, 0x9),
/* clang-format on */

#endif
