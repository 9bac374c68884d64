// torch's GRU: see gru.py for the equations.
#pragma once
#include "rnn.cuh"

struct GRU {
    static const int GATES = 3;
    // What goes back through n's part of weight_hh is in `reset`.
    static const int DIRECT = 2;

    // See Elman.
    template <class T>
    static __device__ __forceinline__ void
    step(const Run<T>& run, int64 sequence, int64 unit, int64 row, const T (&recurrent)[GATES]) {
        const int64 size = run.size, here = sequence * size + unit;
        const T* projected = run.projected + row * 3 * size + unit;
        const T r = activated<SIGMOID>(projected[0] + recurrent[0] + run.bias(unit));
        const T z = activated<SIGMOID>(projected[size] + recurrent[1] + run.bias(size + unit));
        // The two biases of n are no sum: only this one is inside of r * (..).
        const int64 last = 2 * size + unit;
        const T inner = recurrent[2] + (run.bias_hh ? run.bias_hh[last] : (T)0);
        const T outer = projected[2 * size] + (run.bias_ih ? run.bias_ih[last] : (T)0);
        const T n = activated<TANH>(outer + r * inner);
        const T made = ((T)1 - z) * n + z * run.hidden[here];
        run.hidden[here] = made;
        run.outputs[row * size + unit] = made;
        if (run.gates) {
            T* gates = run.gates + row * 3 * size + unit;
            gates[0] = r;
            gates[size] = z;
            gates[2 * size] = n;
            run.inner[row * size + unit] = inner;
        }
    }

    template <class T>
    static __device__ __forceinline__ void
    back(const Back<T>& back, int64 sequence, int64 unit, int64 row, int64 step, T arrived) {
        const int64 size = back.size;
        const T* gates = back.gates + row * 3 * size + unit;
        const T r = gates[0], z = gates[size], n = gates[2 * size];
        const T old = back.hidden_before(sequence, unit, row, step);
        const T by_n = arrived * ((T)1 - z) * ((T)1 - n * n);
        const T by_z = arrived * (old - n) * z * ((T)1 - z);
        const T by_r = by_n * back.inner[row * size + unit] * r * ((T)1 - r);
        back.carried[sequence * size + unit] = arrived * z;
        T* gradients = back.gradients + row * 3 * size + unit;
        gradients[0] = by_r;
        gradients[size] = by_z;
        gradients[2 * size] = by_n;
        back.reset[row * size + unit] = by_n * r;
        if (back.packed) {
            T* packed = back.packed + sequence * 3 * size + unit;
            packed[0] = by_r;
            packed[size] = by_z;
            packed[2 * size] = by_n * r;
        }
    }
};
