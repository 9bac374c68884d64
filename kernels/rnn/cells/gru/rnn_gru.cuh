// torch's GRU: see gru.py for the equations.
#pragma once
#include "rnn.cuh"

struct GRU {
    static const int GATES = 3;
    static const int STATES = 1;
    static const bool HAS_CELL = false;

    // See Elman.
    template <class V, class T>
    static __device__ __forceinline__ T
    step(const Run<V>& run, int64 unit, int64 row, const T (&given)[GATES], const T (&recurrent)[GATES], T (&state)[STATES]) {
        const int64 size = run.size;
        const T r = activated<SIGMOID>(given[0] + recurrent[0]);
        const T z = activated<SIGMOID>(given[1] + recurrent[1]);
        const T inner = recurrent[2];
        const T n = activated<TANH>(given[2] + r * inner);
        state[0] = ((T)1 - z) * n + z * state[0];
        if (run.gates) {
            V* gates = run.gates + row * 3 * size + unit;
            gates[0] = r;
            gates[size] = z;
            gates[2 * size] = n;
            run.inner[row * size + unit] = inner;
        }
        return state[0];
    }

    template <class V, class T>
    static __device__ __forceinline__ void
    back(const Back<V>& back, int64 sequence, int64 unit, int64 row, int64 step, T arrived, T (&by)[GATES]) {
        const int64 size = back.size;
        const V* gates = back.gates + row * 3 * size + unit;
        const T r = gates[0], z = gates[size], n = gates[2 * size];
        const T old = back.hidden_before(sequence, unit, row, step);
        const T by_n = arrived * ((T)1 - z) * ((T)1 - n * n);
        const T by_z = arrived * (old - n) * z * ((T)1 - z);
        const T by_r = by_n * back.inner[row * size + unit] * r * ((T)1 - r);
        back.carried[sequence * size + unit] = arrived * z;
        V* gradients = back.gradients + row * 3 * size + unit;
        gradients[0] = by_r;
        gradients[size] = by_z;
        gradients[2 * size] = by_n;
        back.reset[row * size + unit] = by_n * r;
        by[0] = by_r;
        by[1] = by_z;
        by[2] = by_n * r;
    }
};
