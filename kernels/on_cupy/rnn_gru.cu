// torch's GRU, one step a launch: see rnn/gru.py for the equations.
#include "rnn.cuh"

template <class T>
__global__ void __launch_bounds__(256, 2)
gru_step(const Run<T>* __restrict__ about, int64 step, int64 alive) {
    const Run<T> run = *about;
    const int64 unit = first_unit(), size = run.size;
    if (unit >= size) return;
    for (int64 sequence = first_sequence(); sequence < alive; sequence += sequence_stride()) {
        const int64 row = run.order.row(sequence, step), here = sequence * size + unit;
        const T* projected = run.projected + row * 3 * size + unit;
        const T* recurrent = run.recurrent + sequence * 3 * size + unit;
        const T r = activated<SIGMOID>(projected[0] + recurrent[0] + run.bias(unit));
        const T z = activated<SIGMOID>(projected[size] + recurrent[size] + run.bias(size + unit));
        // The two biases of n are no sum: only this one is inside of r * (..).
        const int64 last = 2 * size + unit;
        const T inner = recurrent[2 * size] + (run.bias_hh ? run.bias_hh[last] : (T)0);
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
}

template <class T>
__global__ void __launch_bounds__(256, 2)
gru_gradient(const Back<T>* __restrict__ about, int64 step, int64 alive, int64 later) {
    const Back<T> back = *about;
    const int64 unit = first_unit(), size = back.size;
    if (unit >= size) return;
    for (int64 sequence = first_sequence(); sequence < alive; sequence += sequence_stride()) {
        const int64 row = back.order.row(sequence, step);
        const T* gates = back.gates + row * 3 * size + unit;
        const T r = gates[0], z = gates[size], n = gates[2 * size];
        const T old = back.hidden_before(sequence, unit, row, step);
        const T arrived = back.arriving(sequence, unit, row, later);
        const T by_n = arrived * ((T)1 - z) * ((T)1 - n * n);
        const T by_z = arrived * (old - n) * z * ((T)1 - z);
        const T by_r = by_n * back.inner[row * size + unit] * r * ((T)1 - r);
        back.carried[sequence * size + unit] = arrived * z;
        T* gradients = back.gradients + row * 3 * size + unit;
        T* packed = back.packed + sequence * 3 * size + unit;
        gradients[0] = packed[0] = by_r;
        gradients[size] = packed[size] = by_z;
        gradients[2 * size] = by_n;
        packed[2 * size] = by_n * r;
        back.reset[row * size + unit] = by_n * r;
    }
}
