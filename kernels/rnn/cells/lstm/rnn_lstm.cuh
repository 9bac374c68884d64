// The LSTM: see lstm.py for the equations.
#pragma once
#include "rnn.cuh"

template <int GATE, int CELL, int CANDIDATE, bool COUPLED> struct LSTM {
    static const int GATES = 4;
    static const int STATES = 1;
    static const bool HAS_CELL = true;

    // See Elman. With a projection the result is the input of the projection.
    template <class V, class T>
    static __device__ __forceinline__ T
    step(const Run<V>& run, int64 unit, int64 row, const T (&given)[GATES], const T (&recurrent)[GATES], T (&state)[STATES]) {
        const int64 size = run.size, place = row * 4 * size + unit;
        T inner[4];
        for (int gate = 0; gate < 4; gate++) inner[gate] = given[gate] + recurrent[gate];
        const T old = state[0];
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
        state[0] = cell;
        if (run.cells) run.cells[row * size + unit] = cell;
        if (run.gates) {
            run.gates[place] = i;
            run.gates[place + size] = f;
            run.gates[place + 2 * size] = g;
            run.gates[place + 3 * size] = o;
        }
        return shown;
    }

    template <class V, class T>
    static __device__ __forceinline__ void
    back(const Back<V>& back, int64 sequence, int64 unit, int64 row, int64 step, T arrived, T (&by)[GATES]) {
        const int64 size = back.size, here = sequence * size + unit;
        const V* gates = back.gates + row * 4 * size + unit;
        const T i = gates[0], f = gates[size], g = gates[2 * size], o = gates[3 * size];
        const T old = back.cell_before(sequence, unit, row, step);
        const T shown = activated<CELL>((T)back.cells[row * size + unit]);
        const T by_o = arrived * shown * slope<GATE>(o);
        T cell = back.carried_cell[here] + arrived * o * slope<CELL>(shown);
        if (back.by_row_cell) cell += back.by_row_cell[row * size + unit];
        if (back.peepholes) cell += by_o * back.peepholes[2 * size + unit];
        const T by_i = cell * (COUPLED ? g - old : g) * slope<GATE>(i);
        const T by_f = COUPLED ? (T)0 : cell * old * slope<GATE>(f);
        const T by_g = cell * i * slope<CANDIDATE>(g);
        T before = cell * f;
        if (back.peepholes) before += by_i * back.peepholes[unit] + by_f * back.peepholes[size + unit];
        back.carried_cell[here] = before;
        // With a projection it is the gradient of the projection's input, see lstm_arriving.
        if (!back.opened) back.carried[here] = (T)0;
        by[0] = by_i;
        by[1] = by_f;
        by[2] = by_g;
        by[3] = by_o;
        for (int gate = 0; gate < 4; gate++) back.gradients[row * 4 * size + gate * size + unit] = by[gate];
    }
};
