// The sLSTM, one head: see slstm.py for the equations. The cell state of a sequence, and its
// gradient, are c, n and m side by side: 3H values.
#pragma once
#include "rnn.cuh"

__device__ __forceinline__ float log_of_1_plus(float x) { return log1pf(x); }
__device__ __forceinline__ double log_of_1_plus(double x) { return log1p(x); }

// Of I and F, what is not 1.
template <class T> __device__ __forceinline__ T share(T lead) {
    return exponential(lead < (T)0 ? lead : -lead);
}

struct SLSTM {
    static const int GATES = 4;
    static const int STATES = 3;
    static const bool HAS_CELL = true;

    // See Elman.
    template <class T>
    static __device__ __forceinline__ T
    step(const Run<T>& run, int64 unit, int64 row, const T (&given)[GATES], const T (&recurrent)[GATES], T (&state)[STATES]) {
        const int64 size = run.size, place = row * 4 * size + unit;
        T inner[4];
        for (int gate = 0; gate < 4; gate++) inner[gate] = given[gate] + recurrent[gate];
        const T i = inner[0], f = inner[1], z = hyperbolic(inner[2]), o = activated<SIGMOID>(inner[3]);
        const T old = state[0], norm = state[1];
        const T log_f = (f < (T)0 ? f : (T)0) - log_of_1_plus(exponential(f < (T)0 ? f : -f));
        const T before = log_f + state[2];
        // If n is 0, i exceeds so far that F is 0.
        const bool fresh = norm == (T)0;
        const T lead = fresh ? (T)3e38 : i - before;
        const T other = share(lead), enter = lead > (T)0 ? (T)1 : other;
        const T stay = lead > (T)0 ? other : (T)1;
        const T made = stay * old + enter * z, count = stay * norm + enter;
        const T top = fresh || i > before ? i : before;
        const T shown = o * made / count;
        state[0] = made;
        state[1] = count;
        state[2] = top;
        if (run.cells) {
            T* cells = run.cells + row * 3 * size + unit;
            cells[0] = made;
            cells[size] = count;
            cells[2 * size] = top;
        }
        if (run.gates) {
            run.gates[place] = lead;
            run.gates[place + size] = activated<SIGMOID>(-f);
            run.gates[place + 2 * size] = z;
            run.gates[place + 3 * size] = o;
        }
        return shown;
    }

    template <class T>
    static __device__ __forceinline__ void
    back(const Back<T>& back, int64 sequence, int64 unit, int64 row, int64 step, T arrived, T (&by)[GATES]) {
        const int64 size = back.size, here = sequence * size + unit, wide = 3 * size;
        const T* gates = back.gates + row * 4 * size + unit;
        const T lead = gates[0], slope_f = gates[size], z = gates[2 * size], o = gates[3 * size];
        const T other = share(lead), enter = lead > (T)0 ? (T)1 : other;
        const T stay = lead > (T)0 ? other : (T)1;
        const T* old = (step ? back.cells + back.order.before(row) * wide
                             : back.begin_cell + sequence * wide) + unit;
        const T count = back.cells[row * wide + size + unit];
        const T shown = back.cells[row * wide + unit] / count, flow = arrived * o / count;
        T* carried = back.carried_cell + sequence * wide + unit;
        T by_c = carried[0] + flow, by_n = carried[size] - flow * shown, by_m = carried[2 * size];
        if (back.by_row_cell) {
            const T* by_row = back.by_row_cell + row * wide + unit;
            by_c += by_row[0];
            by_n += by_row[size];
            by_m += by_row[2 * size];
        }
        const T flow_i = (by_c * z + by_n) * enter;
        const T flow_f = (by_c * old[0] + by_n * old[size]) * stay;
        const T by_before = lead > (T)0 ? flow_f : by_m - flow_i;
        carried[0] = by_c * stay;
        carried[size] = by_n * stay;
        carried[2 * size] = by_before;
        back.carried[here] = (T)0;
        by[0] = lead > (T)0 ? by_m - flow_f : flow_i;
        by[1] = by_before * slope_f;
        by[2] = by_c * enter * ((T)1 - z * z);
        by[3] = arrived * shown * slope<SIGMOID>(o);
        for (int gate = 0; gate < 4; gate++) back.gradients[row * 4 * size + gate * size + unit] = by[gate];
    }
};
