// The Elman cell, one step a launch: see rnn/elman.py for the equation.
#include "rnn.cuh"

template <class T, int F>
__global__ void __launch_bounds__(256, 2)
elman_step(const Run<T>* __restrict__ about, int64 step, int64 alive) {
    const Run<T> run = *about;
    const int64 unit = first_unit(), size = run.size;
    if (unit >= size) return;
    for (int64 sequence = first_sequence(); sequence < alive; sequence += sequence_stride()) {
        const int64 row = run.order.row(sequence, step), here = sequence * size + unit;
        const T sum = run.projected[row * size + unit] + run.bias(unit) + run.recurrent[here];
        const T made = activated<F>(sum);
        run.hidden[here] = made;
        run.outputs[row * size + unit] = made;
    }
}

template <class T, int F>
__global__ void __launch_bounds__(256, 2)
elman_gradient(const Back<T>* __restrict__ about, int64 step, int64 alive, int64 later) {
    const Back<T> back = *about;
    const int64 unit = first_unit(), size = back.size;
    if (unit >= size) return;
    for (int64 sequence = first_sequence(); sequence < alive; sequence += sequence_stride()) {
        const int64 row = back.order.row(sequence, step), here = sequence * size + unit;
        const T arrived = back.arriving(sequence, unit, row, later);
        const T by = arrived * slope<F>(back.outputs[row * size + unit]);
        back.carried[here] = (T)0;
        back.gradients[row * size + unit] = by;
        back.packed[here] = by;
    }
}
