// Elementwise part of one step per launch, forward or backward, after its product.
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
        const int64 row = run.order.row(sequence, step), here = sequence * size + unit;
        T given[Cell::GATES], recurrent[Cell::GATES], state[Cell::STATES];
        for (int gate = 0; gate < Cell::GATES; gate++) {
            const int64 column = gate * size + unit;
            given[gate] = run.projected[row * Cell::GATES * size + column] + (run.bias_ih ? run.bias_ih[column] : (T)0);
            recurrent[gate] = run.recurrent[sequence * Cell::GATES * size + column] + (run.bias_hh ? run.bias_hh[column] : (T)0);
        }
        T* kept = run.template state<Cell>(sequence, unit);
        for (int s = 0; s < Cell::STATES; s++) state[s] = kept[s * size];
        const T made = Cell::step(run, unit, row, given, recurrent, state);
        if (Cell::HAS_CELL)
            for (int s = 0; s < Cell::STATES; s++) kept[s * size] = state[s];
        if (run.opened) {
            run.opened[here] = made;
            if (run.inner) run.inner[row * size + unit] = made;
        } else {
            run.hidden[here] = made;
            run.outputs[row * size + unit] = made;
        }
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
        T by[Cell::GATES];
        Cell::back(back, sequence, unit, row, step, arrived, by);
        for (int gate = 0; gate < Cell::GATES; gate++)
            back.packed[(sequence * Cell::GATES + gate) * size + unit] = by[gate];
    }
}
