// The LSTM's gates, one step a launch: see rnn/lstm.py for the equations.
#include "rnn.cuh"

template <class T, int GATE, int CELL, int CANDIDATE, bool COUPLED>
__global__ void __launch_bounds__(256, 2)
lstm_step(const Run<T>* __restrict__ about, int64 step, int64 alive) {
    const Run<T> run = *about;
    const int64 unit = first_unit(), size = run.size;
    if (unit >= size) return;
    for (int64 sequence = first_sequence(); sequence < alive; sequence += sequence_stride()) {
        const int64 row = run.order.row(sequence, step), place = row * 4 * size + unit;
        T inner[4];
        for (int gate = 0; gate < 4; gate++) {
            const int64 column = gate * size + unit;
            inner[gate] = run.projected[row * 4 * size + column] + run.bias(column) +
                          run.recurrent[sequence * 4 * size + column];
        }
        const T old = run.cell[sequence * size + unit];
        if (run.peepholes) {
            inner[0] += run.peepholes[unit] * old;
            inner[1] += run.peepholes[size + unit] * old;
        }
        const T i = activated<GATE>(inner[0]);
        const T f = COUPLED ? (T)1 - i : activated<GATE>(inner[1]);
        const T g = activated<CANDIDATE>(inner[2]);
        const T cell = f * old + i * g;
        if (run.peepholes) inner[3] += run.peepholes[2 * size + unit] * cell;
        const T o = activated<GATE>(inner[3]);
        const T shown = o * activated<CELL>(cell);
        run.cell[sequence * size + unit] = cell;
        if (run.cells) run.cells[row * size + unit] = cell;
        if (run.opened) {
            run.opened[sequence * size + unit] = shown;
            if (run.inner) run.inner[row * size + unit] = shown;
        } else {
            run.hidden[sequence * size + unit] = shown;
            run.outputs[row * size + unit] = shown;
        }
        if (run.gates) {
            run.gates[place] = i;
            run.gates[place + size] = f;
            run.gates[place + 2 * size] = g;
            run.gates[place + 3 * size] = o;
        }
    }
}

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

template <class T, int GATE, int CELL, int CANDIDATE, bool COUPLED>
__global__ void __launch_bounds__(256, 2)
lstm_gradient(const Back<T>* __restrict__ about, int64 step, int64 alive, int64 later) {
    const Back<T> back = *about;
    const int64 unit = first_unit(), size = back.size;
    if (unit >= size) return;
    for (int64 sequence = first_sequence(); sequence < alive; sequence += sequence_stride()) {
        const int64 row = back.order.row(sequence, step), here = sequence * size + unit;
        const T* gates = back.gates + row * 4 * size + unit;
        const T i = gates[0], f = gates[size], g = gates[2 * size], o = gates[3 * size];
        const T old = back.cell_before(sequence, unit, row, step);
        const T shown = activated<CELL>(back.cells[row * size + unit]);
        T hidden;
        if (back.opened) {
            hidden = back.opened[here];
        } else {
            hidden = back.arriving(sequence, unit, row, later);
            back.carried[here] = (T)0;
        }
        const T by_o = hidden * shown * slope<GATE>(o);
        T cell = back.carried_cell[here] + hidden * o * slope<CELL>(shown);
        if (back.by_row_cell) cell += back.by_row_cell[row * size + unit];
        if (back.peepholes) cell += by_o * back.peepholes[2 * size + unit];
        const T by_i = cell * (COUPLED ? g - old : g) * slope<GATE>(i);
        const T by_f = COUPLED ? (T)0 : cell * old * slope<GATE>(f);
        const T by_g = cell * i * slope<CANDIDATE>(g);
        T before = cell * f;
        if (back.peepholes) before += by_i * back.peepholes[unit] + by_f * back.peepholes[size + unit];
        back.carried_cell[here] = before;
        const T by[4] = {by_i, by_f, by_g, by_o};
        for (int gate = 0; gate < 4; gate++) {
            back.gradients[row * 4 * size + gate * size + unit] = by[gate];
            back.packed[sequence * 4 * size + gate * size + unit] = by[gate];
        }
    }
}
