/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_REMOVE_TREE_H
#define KVMILL_TOOLS_REMOVE_TREE_H

/* A directory with all that is in it, as far as that can be removed; links are not followed. */
void remove_tree(const char *path);

#endif
