"""The tables of a program, checked once for all messages of the column kernels."""

from libc.stdint cimport int64_t

from kcore._ext.columns.program cimport Extent, Node, Op


cdef class Tables:
    """One program: a row for each struct, field and column. `program.pxd` describes the numbers of a row."""

    def __init__(
        self, const int64_t[:, ::1] nodes, const int64_t[:, ::1] ops, const int64_t[:, ::1] extents
    ):
        if nodes.shape[1] * 8 != sizeof(Node) or ops.shape[1] * 8 != sizeof(Op):
            raise ValueError("the rows of nodes or ops have the wrong number of columns")
        if extents.shape[1] * 8 != sizeof(Extent) or not nodes.shape[0]:
            raise ValueError("the rows of extents have the wrong number of columns, or there is no node")
        self.held_nodes, self.held_ops, self.held_extents = nodes, ops, extents
        self.node_count, self.op_count, self.column_count = nodes.shape[0], ops.shape[0], extents.shape[0]
        self.nodes = <const Node*>&nodes[0, 0]
        self.ops = <const Op*>&ops[0, 0] if ops.shape[0] else NULL
        self.extents = <const Extent*>&extents[0, 0] if extents.shape[0] else NULL
