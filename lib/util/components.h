/* components.h - connected components of a graph given edge by edge, in any order: disjoint sets as a forest (union-find). */
#pragma once

#include "util/status.h"

/* root [n]: the parent of a node, or itself. The smallest node of a component becomes its root. */
void gf_components_init(int32_t *root, int64_t n);
void gf_components_join(int32_t *root, int32_t a, int32_t b);
/* The same while other threads join in the same forest. 1: they were not connected before. */
int gf_components_join_shared(int32_t *root, int32_t a, int32_t b);
/* The smallest node of the component of i. */
int32_t gf_components_find(int32_t *root, int32_t i);
/* Also joins the nodes that are joined in `other`. */
void gf_components_merge(int32_t *root, int32_t *other, int64_t n);
/* Every root[i] becomes the smallest node of its component. */
void gf_components_flatten(int32_t *root, int64_t n);

/* Nodes of some joins: to visit what they changed in a large forest, and only that. A zeroed one is empty. */
typedef struct gf_node_list {
    int32_t *node; /* [count] */
    size_t count, capacity;
} gf_node_list;

int gf_nodes_add(gf_node_list *l, int32_t a, int32_t b); /* 0: no memory */
void gf_nodes_sort(gf_node_list *l);                     /* rising, each once */
void gf_nodes_free(gf_node_list *l);

typedef struct gf_component {
    int32_t root; /* its smallest node */
    int64_t nodes, edges;
} gf_component;

typedef struct gf_components {
    int64_t count, nodes, edges; /* components of two nodes or more; nodes and edges in them */
    gf_component *part;          /* [count] largest first, then by root */
    int32_t *of;                 /* [n] position in part, or -1: a node without edges */
} gf_components;

/* degree [n]: edges at each node. root as gf_components_flatten() leaves it. */
glofnd_status gf_components_list(gf_error *err, const int32_t *root, const int64_t *degree, int64_t n, gf_components *out);
void gf_components_free(gf_components *p); /* a zeroed one is fine */
