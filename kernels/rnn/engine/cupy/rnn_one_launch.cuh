// All steps of a layer in one launch (persistent kernel), with the recurrent weights on chip.
//
// A block holds the weights of a few units in shared memory. The blocks that together hold all
// units are a group, blockIdx.y, which processes some sequences, `tall` at a time, from first step
// to last. After each step the blocks of a group synchronize, because each needs the states of the
// others; states are rounded to the precision of the product before they are exchanged. For its own
// units and sequences a block holds states, biases, lengths and the inputs of the next step in
// shared memory: after a barrier only the exchanged states are read from outside. Rows, states and
// weights are stored as V: two bytes, or the compute type. Groups do not synchronize with each
// other.
//
// A Passing exchanges states between blocks, through global memory (rnn_persistent.cu) or within a
// cluster (rnn_cluster.cu). It has the left `operand` of the step's product, and `stride` between
// its rows. put() sends a value to all blocks of the group, who may read it after the next meet().
// begin() precedes the first put() of a slice.
#pragma once
#include "rnn_elman.cuh"
#include "rnn_exact.cuh"
#include "rnn_gru.cuh"
#include "rnn_lstm.cuh"
#include "rnn_rounded.cuh"
#include "rnn_slstm.cuh"

// The sequences of a group, slice by slice: slices are assigned to groups in boustrophedon order,
// so that no group gets the longest sequences each time.
struct Slice {
    int64 first;  // its first sequence
    int rows;     // number of sequences; 0 at the end

    __device__ __forceinline__ Slice(int turn, int64 tall, int64 sequences) {
        const int64 place = turn % 2 ? gridDim.y - 1 - blockIdx.y : blockIdx.y;
        first = ((int64)turn * gridDim.y + place) * tall;
        const int64 left = sequences - first;
        rows = left <= 0 ? 0 : (int)(left < tall ? left : tall);
    }
};

__device__ __forceinline__ void look_ahead(const void* place) {
#ifdef __CUDA_ARCH__
    asm volatile("prefetch.global.L2 [%0];" ::"l"(place));
#endif
}

// The starts and lengths of the sequences of a slice.
struct Sequences {
    int64 *starts, *lengths;
    int64 reverse;

    __device__ __forceinline__ Sequences(void* shared) : starts((int64*)shared), lengths(starts + HIGH), reverse(0) {}

    __device__ __forceinline__ void bring(const Order& order, const Slice& slice) {
        reverse = order.reverse;
        __syncthreads();
        for (int i = threadIdx.x; i < slice.rows; i += THREADS) {
            starts[i] = order.starts[slice.first + i];
            lengths[i] = order.lengths[slice.first + i];
        }
        __syncthreads();
    }
    __device__ __forceinline__ int64 row(int i, int64 step) const {
        return starts[i] + (reverse ? lengths[i] - 1 - step : step);
    }
};

// The units of a block for any number of sequences: assigned to threads cyclically, always in the
// same way.
struct Units {
    int64 size, first;
    int units, shift, here;

    __device__ __forceinline__ Units(int64 size, int64 units)
        : size(size), first(blockIdx.x * units), units((int)units), shift(__ffs((int)units) - 1),
          here((int)(size - first < units ? size - first : units)) {}

    // use(sequence, place, unit)
    template <class Use> __device__ __forceinline__ void each(int sequences, Use use) const {
        for (int pair = threadIdx.x; pair < sequences << shift; pair += THREADS)
            if ((pair & (units - 1)) < here) use(pair >> shift, pair & (units - 1), first + (pair & (units - 1)));
    }
};

// weight: weight_hh, (G*H, H). from: the first step, with this many active `sequences`; previous
// steps are run by other kernels.
// Shared memory: that of the product, then starts and lengths (2, HIGH); then
//   inputs  (HIGH, G, units) of the next step; of this and the next step if V has two bytes
//   states  (HIGH, STATES, units)
//   biases  (2, G, units)
template <class Cell, class Product, class V, class Passing>
__device__ __forceinline__ void
steps_forward(const Run<V>& run, const V* __restrict__ weight, Product product, Passing passing, int units, int64 tall,
              int64 sequences, int64 from) {
    typedef typename Product::T T;
    enum { GATES = Cell::GATES, STATES = Cell::STATES, NARROW = sizeof(V) < sizeof(T) };
    const int size = (int)run.size, columns = GATES * units;
    const Units own(size, units);
    Sequences about_them(product.end());
    V* const inputs = (V*)(about_them.lengths + HIGH);
    T* states = (T*)inputs + HIGH * columns;
    T* biases = states + HIGH * STATES * units;
    product.keep(size, [=](int k, int column) {
        const int gate = column / units, place = column % units;
        return place < own.here ? weight[(gate * (int64)size + own.first + place) * size + k] : (T)0;
    });
    for (int column = threadIdx.x; column < columns; column += THREADS) {
        const int64 place = column / units * (int64)size + own.first + column % units;
        const bool in = column % units < own.here;
        biases[column] = in && run.bias_ih ? run.bias_ih[place] : (T)0;
        biases[columns + column] = in && run.bias_hh ? run.bias_hh[place] : (T)0;
    }
    const auto inputs_of = [=](int64 step) { return inputs + (NARROW ? (step & 1) * HIGH * columns : 0); };
    const bool pairs = size % 2 == 0 && (uint64)run.projected % 4 == 0;
    // Loads the inputs of this thread. There is no async copy of two bytes: one of two threads
    // loads both values, into the other half of the inputs, because its neighbour may not have read
    // this one yet.
    const auto ask = [&](int i, int place, int64 unit, int64 step) {
        const V* row = run.projected + about_them.row(i, step) * GATES * size + unit;
        V* to = inputs_of(step) + i * columns + place;
        for (int gate = 0; gate < GATES; gate++, to += units, row += size) {
            if (!NARROW) copy_async_value(to, row);
            else if (!pairs) *to = *row;
            else if (place % 2 == 0) copy_async_value((unsigned*)to, (const unsigned*)row);
        }
    };
    for (int turn = 0;; turn++) {
        const Slice slice(turn, tall, sequences);
        if (!slice.rows) return;
        about_them.bring(run.order, slice);
        passing.begin();
        own.each(slice.rows, [&](int i, int place, int64 unit) {
            const int64 sequence = slice.first + i;
            const V* state = run.template state<Cell>(sequence, unit);
            for (int s = 0; s < STATES; s++) states[(i * STATES + s) * units + place] = state[(int64)s * size];
            passing.put(i, sequence, from - 1, unit, Product::value(run.hidden[sequence * size + unit]));
            ask(i, place, unit, from);
        });
        passing.meet();
        const int64 steps = about_them.lengths[0];
        int alive = slice.rows;
        for (int64 step = from; step < steps; step++) {
            while (about_them.lengths[alive - 1] <= step) alive--;
            product.multiply(passing.operand(slice.first, step - 1), passing.stride, alive);
            const V* brought = inputs_of(step);
            own.each(alive, [&](int i, int place, int64 unit) {
                const int64 sequence = slice.first + i, row = about_them.row(i, step);
                T given[GATES], recurrent[GATES], state[STATES];
                for (int gate = 0; gate < GATES; gate++) {
                    const int column = gate * units + place;
                    given[gate] = brought[i * columns + column] + biases[column];
                    recurrent[gate] = product.sum(i, column) + biases[columns + column];
                }
                T* kept = states + i * STATES * units + place;
                for (int s = 0; s < STATES; s++) state[s] = kept[s * units];
                const T made = Cell::step(run, unit, row, given, recurrent, state);
                run.outputs[row * size + unit] = made;
                if (step + 1 < about_them.lengths[i]) {
                    passing.put(i, sequence, step, unit, Product::value(made));
                    for (int s = 0; s < STATES; s++) kept[s * units] = state[s];
                    ask(i, place, unit, step + 1);
                } else {
                    run.hidden[sequence * size + unit] = made;
                    if (Cell::HAS_CELL)
                        for (int s = 0; s < STATES; s++)
                            run.template state<Cell>(sequence, unit)[(int64)s * size] = state[s];
                }
            });
            if (step + 1 < steps) passing.meet();
        }
    }
}

// See steps_forward; the exchanged values are gradients, (G, H) per sequence.
template <class Cell, class Product, class V, class Passing>
__device__ __forceinline__ void
steps_backward(const Back<V>& back, const V* __restrict__ weight, Product product, Passing passing, int units,
               int64 tall, int64 sequences, int64 from) {
    typedef typename Product::T T;
    enum { GATES = Cell::GATES };
    const int size = (int)back.size;
    const Units own(size, units);
    Sequences about_them(product.end());
    product.keep(GATES * size, [=](int k, int column) {
        return column < own.here ? weight[(int64)k * size + own.first + column] : (T)0;
    });
    for (int turn = 0;; turn++) {
        const Slice slice(turn, tall, sequences);
        if (!slice.rows) return;
        about_them.bring(back.order, slice);
        passing.begin();
        int alive = 0;
        for (int64 step = about_them.lengths[0] - 1; step >= from; step--) {
            const int later = alive;
            while (alive < slice.rows && about_them.lengths[alive] > step) alive++;
            // The gradient through weight_hh of the next step's gates, for sequences that have a
            // next step.
            if (later) product.multiply(passing.operand(slice.first, step + 1), passing.stride, later);
            own.each(alive, [&](int i, int place, int64 unit) {
                const int64 sequence = slice.first + i, row = about_them.row(i, step);
                const T through = i < later ? product.sum(i, place) : (T)0;
                const T arrived = back.arrived(sequence, unit, row, through);
                T by[GATES];
                Cell::back(back, sequence, unit, row, step, arrived, by);
                for (int gate = 0; gate < GATES; gate++)
                    passing.put(i, sequence, step, gate * size + unit, Product::value(by[gate]));
                if (step == from) return;
                const int64 next = back.order.before(row);
                if (back.by_row) look_ahead(back.by_row + next * size + unit);
                if (back.gates)
                    for (int gate = 0; gate < GATES; gate++)
                        look_ahead(back.gates + (next * GATES + gate) * size + unit);
            });
            passing.meet();
        }
        product.multiply(passing.operand(slice.first, from), passing.stride, alive);
        own.each(alive, [&](int i, int place, int64 unit) {
            back.flow[(slice.first + i) * size + unit] = product.sum(i, place);
        });
    }
}
