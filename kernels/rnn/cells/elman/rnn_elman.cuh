// The Elman cell: see elman.py for the equation.
#pragma once
#include "rnn.cuh"

template <int F> struct Elman {
    static const int GATES = 1;
    // Of the gates, those whose gradients go back through weight_hh as they are.
    static const int DIRECT = 1;

    // One step of one unit. `recurrent`: what the hidden state gives each gate.
    template <class T>
    static __device__ __forceinline__ void
    step(const Run<T>& run, int64 sequence, int64 unit, int64 row, const T (&recurrent)[GATES]) {
        const int64 here = sequence * run.size + unit, there = row * run.size + unit;
        const T made = activated<F>(run.projected[there] + run.bias(unit) + recurrent[0]);
        run.hidden[here] = made;
        run.outputs[there] = made;
    }

    // One step back of one unit. `arrived`: the gradient of its hidden state.
    template <class T>
    static __device__ __forceinline__ void
    back(const Back<T>& back, int64 sequence, int64 unit, int64 row, int64, T arrived) {
        const int64 here = sequence * back.size + unit, there = row * back.size + unit;
        const T by = arrived * slope<F>(back.outputs[there]);
        back.carried[here] = (T)0;
        back.gradients[there] = by;
        if (back.packed) back.packed[here] = by;
    }
};
