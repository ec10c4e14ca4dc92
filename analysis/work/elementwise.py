"""Work of memory-bound operators: element-wise operators, reductions, normalisations, copies, lookups, optimisers.

An element-wise operator or a reduction counts one FLOP per element; copies, fills and lookups none. Bytes are each
input and the output once; of a lookup table only the rows that are read.
"""

from __future__ import annotations

from math import prod

from .arguments import Call, Tensor, Unknown, require
from .formulas import Cost, Formula

_FLOATING = ("float", "double", "c10::Half", "c10::BFloat16")


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The broadcast shape of an element-wise result. Raises Contradiction."""
    sizes = []
    for at in range(1, max(map(len, shapes), default=0) + 1):
        different = {shape[-at] for shape in shapes if len(shape) >= at} - {1}
        require(len(different) < 2)
        sizes.append(different.pop() if different else 1)
    return tuple(reversed(sizes))


def elementwise(operands: int, out: int = 0) -> Formula:
    """Up to ``operands`` tensors give a new one; a further tensor is the output. ``out``: bytes per output element."""

    def work(call: Call) -> Cost:
        inputs = call.all()[:operands]
        if not inputs:
            raise Unknown("tensors")
        count = prod(broadcast(*(tensor.shape for tensor in inputs)))
        recorded = call.all()[operands:]
        shaped = [tensor for tensor in inputs if tensor.shape] or inputs
        floating = [tensor for tensor in shaped if tensor.type in _FLOATING]
        widest = max(floating or shaped, key=lambda tensor: tensor.size)
        size = out or (recorded[-1].size if recorded else widest.size)
        return Cost(count, sum(tensor.bytes for tensor in inputs) + count * size, widest.type, terms=(("n", count),))

    return work


def in_place(operands: int) -> Formula:
    """Up to ``operands`` tensors are read, and the first of them is written."""

    def work(call: Call) -> Cost:
        inputs, first = call.all()[:operands], call.tensor(0)
        return Cost(first.count, sum(tensor.bytes for tensor in inputs) + first.bytes, first.type,
                    terms=(("n", first.count),))

    return work


def moved(*parts: int, flops: int = 0) -> Formula:
    """Each of these tensors is read or written once; ``flops`` per element of the first."""

    def work(call: Call) -> Cost:
        tensors = [call.tensor(at) for at in parts]
        count = tensors[0].count
        return Cost(flops * count, sum(tensor.bytes for tensor in tensors), tensors[0].type, terms=(("n", count),))

    return work


def conversion(call: Call) -> Cost:
    """A kernel (input, output, elements) that converts elements to a type of another size. Raises Unknown."""
    source, target, count = call.tensor(0), call.tensor(1), call.typed_value(2, int)
    if len(call.tensors) != 3 or source.size == target.size or not source.count == target.count == count:
        raise Unknown("what is converted")
    return Cost(0, source.bytes + target.bytes, target.type, terms=(("n", count),))


def rowwise_fp8(quantized: bool) -> Formula:
    """Rows of floats to bytes, each row with a 4-byte scale and offset at its end, columns padded to 4; or back."""

    def work(call: Call) -> Cost:
        x = call.tensor(0, 2)
        rows, columns = x.shape
        written = -(-columns // 4) * 4 + 8 if quantized else 4 * (columns - 8)
        require(written > 0)
        count = rows * (columns if quantized else columns - 8)
        return Cost(count, x.bytes + rows * written, x.type, terms=(("n", count),))

    return work


def last(call: Call) -> Cost:
    """The last tensor is written."""
    tensors = call.all()
    if not tensors:
        raise Unknown("output")
    return Cost(0, tensors[-1].bytes, tensors[-1].type, terms=(("n", tensors[-1].count),))


def one_element(call: Call) -> Cost:
    """One value is read."""
    tensor = call.tensor(0)
    return Cost(0, tensor.size, tensor.type)


def reduction(dimensions: int = 1, out: int = 0) -> Formula:
    """Over the dimensions in the value at a position, else over all; ``out``: bytes per output element."""

    def work(call: Call) -> Cost:
        x = call.tensor(0)
        over = call.value(dimensions)
        over = (over,) if type(over) is int else over if isinstance(over, tuple) else ()
        require(all(type(one) is int and -len(x.shape) <= one < max(len(x.shape), 1) for one in over))
        gone = {one % len(x.shape) for one in over if x.shape}
        left = prod(size for at, size in enumerate(x.shape) if at not in gone) if gone else 1
        return Cost(x.count, x.bytes + left * (out or x.size), x.type, terms=(("n", x.count),))

    return work


def scan(call: Call) -> Cost:
    """A running sum or product; integers become 64 bits wide."""
    x = call.tensor(0)
    size = x.size if x.type in _FLOATING else 8
    return Cost(x.count, x.bytes + x.count * size, x.type, terms=(("n", x.count),))


def softmax(call: Call) -> Cost:
    """Maximum, difference, exponential, sum and quotient of each element; half precision may become fp32."""
    x = call.tensor(0)
    size = 4 if call.value(2) is True else x.size
    return Cost(5 * x.count, x.bytes + x.count * size, x.type, terms=(("n", x.count),))


def normalisation(x: int = 0) -> Formula:
    """Layer, group and batch norm: 5 FLOPs per element; the input, the output and each vector of parameters."""

    def work(call: Call) -> Cost:
        tensor = call.tensor(x)
        vectors = sum(other.bytes for other in call.all()[1:] if other.shape and other.count < max(tensor.count, 2))
        return Cost(5 * tensor.count, 2 * tensor.bytes + vectors, tensor.type, terms=(("n", tensor.count),))

    return work


def normalisation_backward(call: Call) -> Cost:
    """9 FLOPs per element; two inputs, one gradient, each vector of parameters read and its gradient written."""
    first, second = call.tensor(0), call.tensor(1)
    require(first.shape == second.shape)
    vectors = sum(2 * other.bytes for other in call.all()[2:] if len(other.shape) == 1)
    return Cost(9 * second.count, 3 * second.bytes + vectors, second.type, terms=(("n", second.count),))


def rms_norm(x: int, *others: int, flops: int = 4, written: int = 0) -> Formula:
    """``flops`` per element and 2 per row; moves the tensors at these positions and ``written`` more like the first."""

    def work(call: Call) -> Cost:
        tensor = call.tensor(x)
        require(bool(tensor.shape) and tensor.shape[-1] > 0)
        rows = tensor.count // tensor.shape[-1]
        traffic = (1 + written) * tensor.bytes + sum(call.tensor(other).bytes for other in others)
        terms = (("n", tensor.count), ("rows", rows))
        return Cost(flops * tensor.count + 2 * rows, traffic, tensor.type, terms=terms)

    return work


def rotary(call: Call) -> Cost:
    """(positions, query, key, head size, cos and sin): query and key are rotated in place by one row per position."""
    positions, query, key, table = (call.tensor(at) for at in (0, 1, 2, 4))
    count = query.count + key.count
    rows = positions.count * (table.shape[-1] if table.shape else 0) * table.size
    return Cost(3 * count, 2 * (query.bytes + key.bytes) + positions.bytes + rows, query.type, terms=(("n", count),))


def key_value_store(call: Call) -> Cost:
    """(key, value, caches, slots): key and value are read and written to the cache in its type."""
    key, value, cache, slots = (call.tensor(at) for at in (0, 1, 2, 4))
    count = key.count + value.count
    return Cost(0, key.bytes + value.bytes + count * cache.size + slots.bytes, key.type, terms=(("n", count),))


def concatenation(call: Call) -> Cost:
    """Every tensor of the list is read and written."""
    traffic = sum(tensor.bytes for tensor in call.listed(0))
    return Cost(0, 2 * traffic, call.listed(0)[0].type, terms=(("n", sum(tensor.count for tensor in call.listed(0))),))


def rows_taken(index: int) -> Formula:
    """``index_select`` and ``embedding``: the selected rows are read and written, and their indices read."""

    def work(call: Call) -> Cost:
        table, rows = call.tensor(0), call.tensor(index)
        along = call.value(1) if index == 2 else 0
        if type(along) is not int:
            raise Unknown("dimension")
        require(bool(table.shape) and -len(table.shape) <= along < len(table.shape) and table.shape[along] > 0)
        count = rows.count * (table.count // table.shape[along])
        return Cost(0, 2 * count * table.size + rows.bytes, table.type, terms=(("n", count),))

    return work


def embedding_backward(call: Call) -> Cost:
    """(grad, indices, rows of the table): gradients are added into a table that is written in full."""
    gradient, indices = call.tensor(0), call.tensor(1)
    table = call.typed_value(2, int) * (gradient.shape[-1] if gradient.shape else 1) * gradient.size
    return Cost(gradient.count, gradient.bytes + indices.bytes + table, gradient.type, terms=(("n", gradient.count),))


def gathered(call: Call) -> Cost:
    """(table, dimension, index): one element per index."""
    table, index = call.tensor(0), call.tensor(2)
    return Cost(0, 2 * index.count * table.size + index.bytes, table.type, terms=(("n", index.count),))


def scattered(added: bool, source: int = 3) -> Formula:
    """(target, dimension, index, source): source elements are written to, or added at, positions of the target."""

    def work(call: Call) -> Cost:
        target, index, values = call.tensor(0), call.tensor(2), call.optional(source)
        count = values.count if values is not None else index.count
        traffic = index.bytes + (values.bytes if values is not None else 0) + count * target.size * (1 + added)
        return Cost(count * added, traffic, target.type, terms=(("n", count),))

    return work


def loss(call: Call) -> Cost:
    """Negative log likelihood: one element per target."""
    x, target = call.tensor(0), call.tensor(1)
    return Cost(target.count, target.count * x.size + target.bytes + x.size, x.type, terms=(("n", target.count),))


def pool(call: Call) -> Cost:
    """Max pooling in two dimensions with its indices: (input, kernel, stride, padding, dilation, ceil)."""
    x, kernel = call.tensor(0, 4), call.numbers(1, 2)
    stride = call.numbers(2, 2) if call.value(2) else kernel
    padding, dilation = call.numbers(3, 2), call.numbers(4, 2)
    up = call.typed_value(5, bool)
    outputs = x.shape[0] * x.shape[1]
    for at in range(2):
        room = x.shape[2 + at] + 2 * padding[at] - dilation[at] * (kernel[at] - 1) - 1
        require(room >= 0 and stride[at] > 0)
        outputs *= (-(-room // stride[at]) if up else room // stride[at]) + 1
    return Cost(x.count, x.bytes + outputs * (x.size + 8), x.type, terms=(("n", x.count),))


def lists(read: int, written: int = 1, flops: int = 1) -> Formula:
    """``_foreach_``: ``read`` lists are read and ``written`` lists like the first written; ``flops`` per element."""

    def work(call: Call) -> Cost:
        first = call.listed(0)
        every = [one for one in call.tensors if isinstance(one, tuple) and not isinstance(one, Tensor)]
        count = sum(tensor.count for tensor in first)
        traffic = sum(tensor.bytes for one in every[:read] for tensor in one)
        traffic += written * sum(tensor.bytes for tensor in first)
        return Cost(flops * count, traffic, first[0].type, terms=(("n", count),))

    return work


def list_copy(call: Call) -> Cost:
    """``_foreach_copy_``: the second list is read and the first written."""
    first, second = call.listed(0), call.listed(1)
    count = sum(tensor.count for tensor in first)
    return Cost(0, sum(tensor.bytes for tensor in (*first, *second)), first[0].type, terms=(("n", count),))


def optimiser(flops: int, reads: int, writes: int, state: int | None = None) -> Formula:
    """``_fused_``: FLOPs per parameter, numbers of lists read and written; ``state``: position of an optional list."""

    def work(call: Call) -> Cost:
        first = call.listed(0)
        count = sum(tensor.count for tensor in first)
        extra = 2 if state is not None and state < len(call.tensors) and isinstance(call.tensors[state], tuple) else 0
        traffic = sum(tensor.bytes for tensor in first) * (reads + writes + extra)
        return Cost((flops + extra) * count, traffic, first[0].type, terms=(("n", count),))

    return work
