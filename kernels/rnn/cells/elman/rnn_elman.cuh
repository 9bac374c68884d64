// The Elman cell: see elman.py for the equation.
#pragma once
#include "rnn.cuh"

template <int F> struct Elman {
    static const int GATES = 1;
    // Values per unit that a sequence carries from step to step: of the cell state, or the hidden
    // one.
    static const int STATES = 1;
    static const bool HAS_CELL = false;

    // Returns the hidden state of one unit after a step, and updates `state`. `given`: the
    // projected inputs of each gate; `recurrent`: the recurrent products, each with its bias.
    template <class V, class T>
    static __device__ __forceinline__ T
    step(const Run<V>&, int64, int64, const T (&given)[GATES], const T (&recurrent)[GATES], T (&state)[STATES]) {
        return state[0] = activated<F>(given[0] + recurrent[0]);
    }

    // Backward step of one unit. `arrived`: the gradient of its hidden state; `by`: the gradients
    // for the product with weight_hh.
    template <class V, class T>
    static __device__ __forceinline__ void
    back(const Back<V>& back, int64 sequence, int64 unit, int64 row, int64, T arrived, T (&by)[GATES]) {
        const int64 here = sequence * back.size + unit, there = row * back.size + unit;
        by[0] = arrived * slope<F>((T)back.outputs[there]);
        back.carried[here] = (T)0;
        back.gradients[there] = by[0];
    }
};
