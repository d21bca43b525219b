/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_REMOVE_TREE_H
#define KVMILL_TOOLS_REMOVE_TREE_H

/* Removes a directory and its contents, as far as possible.  Does not follow links. */
void remove_tree(const char *path);

#endif
