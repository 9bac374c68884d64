// One step a launch, forward or back, once its product is there: what the units do with it.
#include "rnn_elman.cuh"
#include "rnn_gru.cuh"
#include "rnn_lstm.cuh"
#include "rnn_slstm.cuh"

template <class T, class Cell>
__global__ void __launch_bounds__(256, 2)
cell_step(const Run<T>* __restrict__ about, int64 step, int64 alive) {
    const Run<T> run = *about;
    const int64 unit = first_unit(), size = run.size;
    if (unit >= size) return;
    for (int64 sequence = first_sequence(); sequence < alive; sequence += sequence_stride()) {
        T recurrent[Cell::GATES];
        for (int gate = 0; gate < Cell::GATES; gate++)
            recurrent[gate] = run.recurrent[(sequence * Cell::GATES + gate) * size + unit];
        Cell::step(run, sequence, unit, run.order.row(sequence, step), recurrent);
    }
}

template <class T, class Cell>
__global__ void __launch_bounds__(256, 2)
cell_gradient(const Back<T>* __restrict__ about, int64 step, int64 alive, int64 later) {
    const Back<T> back = *about;
    const int64 unit = first_unit(), size = back.size;
    if (unit >= size) return;
    for (int64 sequence = first_sequence(); sequence < alive; sequence += sequence_stride()) {
        const int64 row = back.order.row(sequence, step);
        const T arrived = back.opened ? back.opened[sequence * size + unit]
                                      : back.arriving(sequence, unit, row, later);
        Cell::back(back, sequence, unit, row, step, arrived);
    }
}
