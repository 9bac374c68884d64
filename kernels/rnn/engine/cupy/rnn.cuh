// Shared by the cells of an RNN: activations, and the arrays of a run.
//
// Rows are not moved. Sequences are sorted, longest first, so that those alive at a step are a
// prefix; arrays (S, ..) below are in that order. Every launch does one step, and reads the
// addresses of arrays from a struct on the device: a captured graph of launches can so be replayed
// for other arrays after the struct is rewritten.
#pragma once
#include "types.cuh"

enum Activation { SIGMOID, TANH, RELU, IDENTITY };

__device__ __forceinline__ float exponential(float x) { return expf(x); }
__device__ __forceinline__ double exponential(double x) { return exp(x); }
__device__ __forceinline__ float hyperbolic(float x) { return tanhf(x); }
__device__ __forceinline__ double hyperbolic(double x) { return tanh(x); }

// For very negative values the exponential is infinite and the result 0, as it should be.
template <int F, class T> __device__ __forceinline__ T activated(T x) {
    if (F == SIGMOID) return (T)1 / ((T)1 + exponential(-x));
    if (F == TANH) return hyperbolic(x);
    // NaN is preserved: it is not less than 0.
    if (F == RELU) return x < (T)0 ? (T)0 : x;
    return x;
}

// The derivative, from the result.
template <int F, class T> __device__ __forceinline__ T slope(T y) {
    if (F == SIGMOID) return y * ((T)1 - y);
    if (F == TANH) return (T)1 - y * y;
    if (F == RELU) return y > (T)0 ? (T)1 : (T)0;
    return (T)1;
}

// The row that a sequence computes at a step.
struct Order {
    const int64* starts;   // (S,), the first row of each sequence
    const int64* lengths;  // (S,)
    int64 reverse;

    __device__ __forceinline__ int64 row(int64 sequence, int64 step) const {
        return starts[sequence] + (reverse ? lengths[sequence] - 1 - step : step);
    }
    // The row of the previous step, which must exist.
    __device__ __forceinline__ int64 before(int64 row) const { return reverse ? row + 1 : row - 1; }
};

// Forward run. G is the cell's number of gates; P is H, except for an LSTM with a projection.
// Values are stored as V and computed as T, which is wider if V has two bytes.
template <class V> struct Run {
    typedef typename Wide<V>::type T;

    Order order;
    const V* projected;  // (N, G*H), the projected inputs, without a bias; may be `gates`
    const V* bias_ih;    // (G*H,), or null
    const V* bias_hh;    // (G*H,), or null
    const V* peepholes;  // (3, H), or null
    V* recurrent;        // (S, G*H), recurrent products of each gate
    V* hidden;           // (S, P), the state
    V* cell;             // (S, H); like all of cells, 3H wide of an sLSTM
    V* opened;           // (S, H): a Paddle GRU's reset * hidden; an LSTM's output, unprojected
    V* candidate;        // (S, H), recurrent product of `opened` for a Paddle GRU's candidate
    V* outputs;          // (N, P)
    V* cells;            // (N, H), or null
    V* gates;            // (N, G*H), the activated gates, or null
    V* inner;            // (N, H): a GRU's recurrent part of n; `opened` of all rows; or null
    int64 size, width;   // H and P
    const V* begin;      // (S, P), the hidden state before the first step, read-only

    // The first value of a unit in a Cell's state; its values are `size` apart.
    template <class Cell> __device__ __forceinline__ V* state(int64 sequence, int64 unit) const {
        return Cell::HAS_CELL ? cell + sequence * Cell::STATES * size + unit : hidden + sequence * size + unit;
    }
    __device__ __forceinline__ T bias(int64 place) const {
        return (bias_ih ? bias_ih[place] : (T)0) + (bias_hh ? bias_hh[place] : (T)0);
    }
};

// Backward run. Fields with the names above are those of the forward run.
template <class V> struct Back {
    typedef typename Wide<V>::type T;

    Order order;
    const V* peepholes;
    const V* outputs;
    const V* cells;
    const V* gates;
    const V* inner;
    const V* begin_hidden;  // (S, P), before the first step
    const V* begin_cell;    // (S, H)
    const V* by_row;        // (N, P), of the outputs, or null
    const V* by_row_cell;   // (N, H), of the cells, or null
    T* flow;                // (S, P), gradient through weight_hh of the next step
    T* carried;             // (S, P), other gradients of the hidden state
    T* carried_cell;        // (S, H)
    T* opened;              // (S, H), of Run's `opened`; null for an LSTM without projection
    T* total;               // (S, P), of the hidden state, for an LSTM with a projection
    V* totals;              // (N, P), the same of all rows
    V* gradients;           // (N, G*H), of the projected inputs
    T* packed;              // (S, G*H), of `recurrent`; null where all steps are one launch
    T* packed_candidate;    // (S, H), of `candidate`
    V* reset;               // (N, H), of a GRU's recurrent part of n
    int64 size, width;

    // The gradient of the hidden state after a step; `through`: from the next step.
    __device__ __forceinline__ T arrived(int64 sequence, int64 unit, int64 row, T through) const {
        T sum = carried[sequence * width + unit] + through;
        if (by_row) sum += by_row[row * width + unit];
        return sum;
    }
    // The same, if `later` sequences have a next step.
    __device__ __forceinline__ T arriving(int64 sequence, int64 unit, int64 row, int64 later) const {
        return arrived(sequence, unit, row, sequence < later ? flow[sequence * width + unit] : (T)0);
    }
    __device__ __forceinline__ T cell_before(int64 sequence, int64 unit, int64 row, int64 step) const {
        return step ? cells[order.before(row) * size + unit] : begin_cell[sequence * size + unit];
    }
    __device__ __forceinline__ T hidden_before(int64 sequence, int64 unit, int64 row, int64 step) const {
        return step ? outputs[order.before(row) * width + unit] : begin_hidden[sequence * width + unit];
    }
};

// A block is (units, sequences); sequences may exceed the grid.
__device__ __forceinline__ int64 first_unit() { return (int64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ int64 first_sequence() { return (int64)blockIdx.y * blockDim.y + threadIdx.y; }
__device__ __forceinline__ int64 sequence_stride() { return (int64)gridDim.y * blockDim.y; }
