# mypy: disallow-untyped-decorators=False
"""Inner loops over the lanes of vector registers, written in LLVM's vector types.

Plain compiled loops lose half their speed here: each short loop over replicas first tests whether its arrays overlap,
running sums go to memory and back, and the long chain of the exponential is not interleaved. A vector type says what
is wanted: sums stay in registers, and `lanes` numbers take every step together. Every lane does the same operations in
the same order however many lanes there are, so a column's bits do not depend on its neighbours.

`lanes` is a tuple of zeros: its length is known when compiling. Places count numbers in a flat array. Nothing is
checked: indices must lie inside the arrays.

The cache of compiled kernels looks only at the file of the kernel that is called: after a change here, remove the
`__pycache__` folders of this room.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

SIXTEEN, EIGHT, FOUR, THREE, TWO, ONE = (0,) * 16, (0,) * 8, (0,) * 4, (0,) * 3, (0,) * 2, (0,)

_UNROLL = 4
# Products may join the sum that follows (one rounding instead of two); nothing is reassociated.
_FLAGS = ("contract", "nsz")
_INT64, _INT32, _DOUBLE = ir.IntType(64), ir.IntType(32), ir.DoubleType()

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93145751953125e-1, 1.42860682030941723212e-6
_ROUND = 6755399441055744.0  # 1.5 * 2^52
# exp(r) = 1 + r + r^2 q(r) on |r| <= ln(2)/2: q interpolates at the Chebyshev points, the error is below 2e-17.
_EXP = (
    0.5000000000000001,
    0.16666666666666669,
    0.041666666666624164,
    0.008333333333330065,
    0.0013888888917196736,
    0.00019841269863040559,
    2.480152132234228e-05,
    2.7557268480289716e-06,
    2.7620075892548164e-07,
    2.51003758422237e-08,
)


def _int(number: int) -> Any:
    return ir.Constant(_INT64, number)


def _same(vector: Any, number: float) -> Any:
    """Return a constant vector of equal numbers."""
    return ir.Constant(vector, [number] * vector.count)


def _spread(builder: Any, vector: Any, number: Any) -> Any:
    """Return a number copied to every lane."""
    nothing = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(nothing, number, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_INT32, vector.count), [0] * vector.count))


def _add_product(builder: Any, x: Any, y: Any, z: Any) -> Any:
    """Return x y + z."""
    return builder.fadd(builder.fmul(x, y, flags=_FLAGS), z, flags=_FLAGS)


def _start(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """Return the address of an array's first number."""
    return context.make_array(kind)(context, builder, array).data


def _lanes_at(builder: Any, vector: Any, start: Any, place: Any) -> Any:
    """Return the address of the lanes that begin at a place."""
    return builder.bitcast(builder.gep(start, [place]), vector.as_pointer())


def _load(builder: Any, address: Any) -> Any:
    return builder.load(address, align=8)


def _index(builder: Any, indices: Any, place: Any) -> Any:
    """Return an index as a 64-bit number."""
    index = builder.load(builder.gep(indices, [place]))
    return builder.sext(index, _INT64) if index.type.width < 64 else index


def _each(builder: Any, begin: Any, end: Any, work: Callable[[Any], None]) -> None:
    """Emit `work(p)` for p = begin..end-1 in order, four at a time and the rest one by one."""
    whole = builder.add(begin, builder.and_(builder.sub(end, begin), _int(-_UNROLL)))
    with cgutils.for_range_slice(builder, begin, whole, _int(_UNROLL), inc=True) as (p, _):
        for k in range(_UNROLL):
            work(builder.add(p, _int(k)))
    with cgutils.for_range_slice(builder, whole, end, _int(1), inc=True) as (p, _):
        work(p)


def _logistic(builder: Any, vector: Any, t: Any, low: Any) -> Any:
    """Return -1/(1 + exp(max(t, low))) in every lane, for low >= -700.

    Adding _ROUND leaves the nearest integer k of t/ln(2) in the low bits, from which the float 2^k is put together. The
    even and the odd powers of the polynomial make two short chains instead of a long one.
    """

    def number(value: float) -> Any:
        return _same(vector, value)

    def add_product(x: Any, y: Any, z: Any) -> Any:
        return _add_product(builder, x, y, z)

    t = builder.select(builder.fcmp_ordered("<", number(700.0), t), number(700.0), t)  # a NaN stays one
    least = _spread(builder, vector, low)
    t = builder.select(builder.fcmp_ordered(">", least, t), least, t)
    shifted = add_product(t, number(_LOG2_E), number(_ROUND))
    k = builder.fsub(shifted, number(_ROUND))
    r = add_product(k, number(-_LN2_LOW), add_product(k, number(-_LN2_HIGH), t))
    square = builder.fmul(r, r)
    even, odd = number(_EXP[8]), number(_EXP[9])
    for j in (6, 4, 2, 0):
        even, odd = add_product(even, square, number(_EXP[j])), add_product(odd, square, number(_EXP[j + 1]))
    mantissa = builder.fadd(add_product(add_product(odd, r, even), square, r), number(1.0))
    bits = ir.VectorType(_INT64, vector.count)
    exponent = builder.add(builder.bitcast(shifted, bits), _same(bits, 1023))
    power = builder.bitcast(builder.shl(exponent, _same(bits, 52)), vector)
    return builder.fdiv(number(-1.0), add_product(mantissa, power, number(1.0)))


@intrinsic
def logistic_lanes(typing_context: Any, lanes: Any, t: Any, place: Any, low: Any) -> Any:
    """Overwrite the lanes of t at a place with -1/(1 + exp(max(t, low))), for low >= -700."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(_DOUBLE, len(lanes))
        address = _lanes_at(builder, vector, _start(context, builder, t, arguments[1]), arguments[2])
        builder.store(_logistic(builder, vector, _load(builder, address), arguments[3]), address, align=8)
        return context.get_dummy_value()

    return types.void(lanes, t, types.int64, types.float64), generate


@intrinsic
def logistic_lane(typing_context: Any, t: Any, low: Any) -> Any:
    """Return -1/(1 + exp(max(t, low))), for low >= -700, to the same bits as `logistic_lanes`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector, lane = ir.VectorType(_DOUBLE, 1), ir.Constant(_INT32, 0)
        slope = _logistic(builder, vector, _spread(builder, vector, arguments[0]), arguments[1])
        return builder.extract_element(slope, lane)

    return types.float64(types.float64, types.float64), generate


@intrinsic
def row_times(
    typing_context: Any,
    lanes: Any,
    values: Any,
    indices: Any,
    begin: Any,
    end: Any,
    w: Any,
    first: Any,
    out: Any,
    place: Any,
) -> Any:
    """Write first + sum over p = begin..end-1 of values[p] w[indices[p]] to the lanes of `out` at a place.

    w is flat, each of its rows `lanes` long.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(_DOUBLE, len(lanes))
        numbers, columns, table, target = (
            _start(context, builder, signature.args[k], arguments[k]) for k in (1, 2, 5, 7)
        )
        total = cgutils.alloca_once(builder, vector)
        builder.store(_spread(builder, vector, arguments[6]), total)

        def work(p: Any) -> None:
            row = builder.mul(_index(builder, columns, p), _int(vector.count))
            value = _spread(builder, vector, builder.load(builder.gep(numbers, [p])))
            term = _load(builder, _lanes_at(builder, vector, table, row))
            builder.store(_add_product(builder, value, term, builder.load(total)), total)

        _each(builder, arguments[3], arguments[4], work)
        builder.store(builder.load(total), _lanes_at(builder, vector, target, arguments[8]), align=8)
        return context.get_dummy_value()

    places = (types.int64, types.int64)
    return types.void(lanes, values, indices, *places, w, types.float64, out, types.int64), generate


@intrinsic
def add_row(
    typing_context: Any, lanes: Any, values: Any, indices: Any, begin: Any, end: Any, t: Any, place: Any, out: Any
) -> Any:
    """Add values[p] t to out[indices[p]] for p = begin..end-1, t being the lanes at a place; the transpose of above."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(_DOUBLE, len(lanes))
        numbers, columns, source, table = (
            _start(context, builder, signature.args[k], arguments[k]) for k in (1, 2, 5, 7)
        )
        slopes = _load(builder, _lanes_at(builder, vector, source, arguments[6]))

        def work(p: Any) -> None:
            row = builder.mul(_index(builder, columns, p), _int(vector.count))
            value = _spread(builder, vector, builder.load(builder.gep(numbers, [p])))
            address = _lanes_at(builder, vector, table, row)
            builder.store(_add_product(builder, value, slopes, _load(builder, address)), address, align=8)

        _each(builder, arguments[3], arguments[4], work)
        return context.get_dummy_value()

    places = (types.int64, types.int64)
    return types.void(lanes, values, indices, *places, t, types.int64, out), generate


@intrinsic
def combine_and_project(
    typing_context: Any,
    lanes: Any,
    keep: Any,
    centre: Any,
    scale: Any,
    lin: Any,
    record: Any,
    place: Any,
    number: Any,
    out: Any,
) -> Any:
    """Write x = keep centre - scale lin to `out`; return (record'x, the largest |keep centre| + |scale lin|).

    All arrays are flat and read or written at place..place+number-1; `number` must be a multiple of the lanes. The
    product is summed in `lanes` partial sums, joined by halves. `out` may be the memory of centre or lin.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(_DOUBLE, len(lanes))
        sources = [_start(context, builder, signature.args[k], arguments[k]) for k in (2, 4, 5)]
        target = _start(context, builder, out, arguments[8])
        keeps, scales = _spread(builder, vector, arguments[1]), _spread(builder, vector, arguments[3])
        size = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector]), f"llvm.fabs.v{vector.count}f64"
        )
        total, largest = cgutils.alloca_once(builder, vector), cgutils.alloca_once(builder, vector)
        for room in (total, largest):
            builder.store(_same(vector, 0.0), room)
        last = builder.add(arguments[6], arguments[7])
        with cgutils.for_range_slice(builder, arguments[6], last, _int(vector.count), inc=True) as (j, _):
            middle, force, direction = (_load(builder, _lanes_at(builder, vector, start, j)) for start in sources)
            p, q = builder.fmul(keeps, middle), builder.fmul(scales, force)
            x = builder.fsub(p, q)
            both = builder.fadd(builder.call(size, [p]), builder.call(size, [q]))
            before = builder.load(largest)
            builder.store(builder.select(builder.fcmp_ordered(">", both, before), both, before), largest)
            builder.store(_add_product(builder, direction, x, builder.load(total)), total)
            builder.store(x, _lanes_at(builder, vector, target, j), align=8)
        plus = _folded(builder, builder.load(total), lambda a, b: builder.fadd(a, b))
        most = _folded(
            builder, builder.load(largest), lambda a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b)
        )
        return context.make_tuple(builder, signature.return_type, [plus, most])

    numbers = (types.int64, types.int64)
    answer = types.UniTuple(types.float64, 2)
    return answer(lanes, types.float64, centre, types.float64, lin, record, *numbers, out), generate


@intrinsic
def dot(typing_context: Any, lanes: Any, left: Any, right: Any, number: Any) -> Any:
    """Return the sum of left[j] right[j] over j = 0..number-1, in `lanes` partial sums that are joined by halves.

    `number` must be a multiple of the lanes.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(_DOUBLE, len(lanes))
        starts = [_start(context, builder, signature.args[k], arguments[k]) for k in (1, 2)]
        total = cgutils.alloca_once(builder, vector)
        builder.store(_same(vector, 0.0), total)
        with cgutils.for_range_slice(builder, _int(0), arguments[3], _int(vector.count), inc=True) as (j, _):
            a, b = (_load(builder, _lanes_at(builder, vector, start, j)) for start in starts)
            builder.store(_add_product(builder, a, b, builder.load(total)), total)
        return _folded(builder, builder.load(total), lambda a, b: builder.fadd(a, b))

    return types.float64(lanes, left, right, types.int64), generate


def _folded(builder: Any, vector: Any, join: Callable[[Any, Any], Any]) -> Any:
    """Return the lanes joined by halves: 0 with n/2, 1 with n/2 + 1, ..., until one number is left."""
    count = vector.type.count
    while count > 1:
        count //= 2
        halves = [ir.Constant(ir.VectorType(_INT32, count), list(range(k, k + count))) for k in (0, count)]
        nothing = ir.Constant(vector.type, ir.Undefined)
        vector = join(*(builder.shuffle_vector(vector, nothing, half) for half in halves))
    return builder.extract_element(vector, ir.Constant(_INT32, 0))


@intrinsic
def add_scaled(typing_context: Any, lanes: Any, scale: Any, record: Any, place: Any, number: Any, out: Any) -> Any:
    """Add scale times the record to `out` at place..place+number-1; `number` must be a multiple of the lanes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(_DOUBLE, len(lanes))
        source, target = (_start(context, builder, signature.args[k], arguments[k]) for k in (2, 5))
        scales = _spread(builder, vector, arguments[1])
        last = builder.add(arguments[3], arguments[4])
        with cgutils.for_range_slice(builder, arguments[3], last, _int(vector.count), inc=True) as (j, _):
            address = _lanes_at(builder, vector, target, j)
            direction = _load(builder, _lanes_at(builder, vector, source, j))
            builder.store(_add_product(builder, scales, direction, _load(builder, address)), address, align=8)
        return context.get_dummy_value()

    return types.void(lanes, types.float64, record, types.int64, types.int64, out), generate


@intrinsic
def four_rows_times(
    typing_context: Any, lanes: Any, rows: Any, place: Any, stride: Any, x: Any, chunks: Any, out: Any, to: Any
) -> Any:
    """Write the products of four consecutive rows, the first at a place, with x to `out` from `to` on.

    Rows are `stride` long, which is at least the lanes, and x is laid out in `chunks` of as many numbers (see
    `kernels`). A product is summed in `lanes` partial sums, joined in pairs: no row matters to another.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(_DOUBLE, len(lanes))
        table, point, target = (_start(context, builder, signature.args[k], arguments[k]) for k in (1, 4, 6))
        starts = [builder.add(arguments[2], builder.mul(_int(r), arguments[3])) for r in range(4)]
        totals = [cgutils.alloca_once(builder, vector) for _ in range(4)]
        for total in totals:
            builder.store(_same(vector, 0.0), total)

        def add(here: Any, chunk: Any) -> None:
            factors = _load(builder, _lanes_at(builder, vector, point, builder.mul(chunk, _int(vector.count))))
            for start, total in zip(starts, totals, strict=True):
                row = _load(builder, _lanes_at(builder, vector, table, builder.add(start, here)))
                builder.store(_add_product(builder, row, factors, builder.load(total)), total)

        last = builder.sub(arguments[5], _int(1))
        with cgutils.for_range_slice(builder, _int(0), last, _int(1), inc=True) as (chunk, _):
            add(builder.mul(chunk, _int(vector.count)), chunk)
        add(builder.sub(arguments[3], _int(vector.count)), last)
        _store_sums(builder, [builder.load(total) for total in totals], target, arguments[7])
        return context.get_dummy_value()

    numbers = (types.int64, types.int64)
    return types.void(lanes, rows, *numbers, x, types.int64, out, types.int64), generate


def _store_sums(builder: Any, vectors: list[Any], target: Any, to: Any) -> None:
    """Store the sum of each of four vectors' lanes, side by side; lanes are joined with their neighbours, in pairs."""
    count = vectors[0].type.count
    if count > 1:
        step = 1
        while len(vectors) > 1:
            vectors = [_paired(builder, *pair, step) for pair in zip(vectors[::2], vectors[1::2], strict=True)]
            step *= 2
        nothing = ir.Constant(vectors[0].type, ir.Undefined)
        while count > 4:
            count //= 2
            halves = [ir.Constant(ir.VectorType(_INT32, count), list(range(k, k + count))) for k in (0, count)]
            vectors = [builder.fadd(*(builder.shuffle_vector(vectors[0], nothing, half) for half in halves))]
            nothing = ir.Constant(vectors[0].type, ir.Undefined)
        builder.store(vectors[0], _lanes_at(builder, vectors[0].type, target, to), align=8)
        return
    for r, vector in enumerate(vectors):
        builder.store(vector, _lanes_at(builder, vector.type, target, builder.add(to, _int(r))), align=8)


def _paired(builder: Any, a: Any, b: Any, step: int) -> Any:
    """Return sums of lanes that are `step` apart: those of a and of b in turns, `step` lanes each."""
    count = a.type.count
    firsts = [base + k + off for base in range(0, count, 2 * step) for off in (0, count) for k in range(step)]
    mask = ir.VectorType(_INT32, count)
    low, high = ([place + extra for place in firsts] for extra in (0, step))
    return builder.fadd(*(builder.shuffle_vector(a, b, ir.Constant(mask, part)) for part in (low, high)))


@intrinsic
def add_rows(
    typing_context: Any,
    lanes: Any,
    group: Any,
    rows: Any,
    place: Any,
    stride: Any,
    first: Any,
    chunks: Any,
    t: Any,
    number: Any,
    out: Any,
) -> Any:
    """Add t_r times row r to `out`, over `number` consecutive rows from a place on, in a group of chunks of columns.

    Sums stay in registers from row to row: `group` is as long as there are chunks in it, `first` is its first one of
    `chunks`, as `out` is laid out.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(_DOUBLE, len(lanes))
        table, factors, target = (_start(context, builder, signature.args[k], arguments[k]) for k in (2, 7, 9))
        stride, last = arguments[4], builder.sub(arguments[6], _int(1))
        columns, sums, totals = [], [], []
        for k in range(len(group)):
            chunk = builder.add(arguments[5], _int(k))
            usual, end = builder.mul(chunk, _int(vector.count)), builder.sub(stride, _int(vector.count))
            here = builder.select(builder.icmp_signed("==", chunk, last), end, usual)
            columns.append(builder.add(arguments[3], here))
            sums.append(_lanes_at(builder, vector, target, usual))
            totals.append(cgutils.alloca_once(builder, vector))
            builder.store(_load(builder, sums[k]), totals[k])
        with cgutils.for_range_slice(builder, _int(0), arguments[8], _int(1), inc=True) as (r, _):
            factor, down = _spread(builder, vector, builder.load(builder.gep(factors, [r]))), builder.mul(r, stride)
            for column, total in zip(columns, totals, strict=True):
                row = _load(builder, _lanes_at(builder, vector, table, builder.add(column, down)))
                builder.store(_add_product(builder, factor, row, builder.load(total)), total)
        for address, total in zip(sums, totals, strict=True):
            builder.store(builder.load(total), address, align=8)
        return context.get_dummy_value()

    places = (types.int64,) * 4
    return types.void(lanes, group, rows, *places, t, types.int64, out), generate
