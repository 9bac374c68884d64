// Additional kernels of an LSTM with a projection, one step per launch.
#include "rnn.cuh"

// Writes projected states to their rows.
template <class T>
__global__ void __launch_bounds__(256, 2)
lstm_rows(const Run<T>* __restrict__ about, int64 step, int64 alive) {
    const Run<T> run = *about;
    const int64 unit = first_unit();
    if (unit >= run.width) return;
    for (int64 sequence = first_sequence(); sequence < alive; sequence += sequence_stride())
        run.outputs[run.order.row(sequence, step) * run.width + unit] =
            run.hidden[sequence * run.width + unit];
}

// Adds up the gradient of projected states.
template <class T>
__global__ void __launch_bounds__(256, 2)
lstm_arriving(const Back<T>* __restrict__ about, int64 step, int64 alive, int64 later) {
    const Back<T> back = *about;
    const int64 unit = first_unit();
    if (unit >= back.width) return;
    for (int64 sequence = first_sequence(); sequence < alive; sequence += sequence_stride()) {
        const int64 row = back.order.row(sequence, step), place = sequence * back.width + unit;
        const T sum = back.arriving(sequence, unit, row, later);
        back.carried[place] = (T)0;
        back.total[place] = sum;
        back.totals[row * back.width + unit] = sum;
    }
}
