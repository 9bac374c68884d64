// Paddle's GRU: see gru_paddle.py for the equations. The candidate's product needs the reset gate,
// so a step takes two launches.
#include "rnn.cuh"

// The share of the old state that a step keeps.
template <bool ORIGIN, class T> __device__ __forceinline__ T kept(T update) {
    return ORIGIN ? update : (T)1 - update;
}

// Writes reset * hidden, and overwrites the pre-activations with the gates.
template <class T, int GATE>
__global__ void __launch_bounds__(256, 2)
paddle_gates(const Run<T>* __restrict__ about, int64 step, int64 alive) {
    const Run<T> run = *about;
    const int64 unit = first_unit(), size = run.size;
    if (unit >= size) return;
    for (int64 sequence = first_sequence(); sequence < alive; sequence += sequence_stride()) {
        const int64 row = run.order.row(sequence, step), here = sequence * size + unit;
        const T* projected = run.projected + row * 3 * size + unit;
        T* recurrent = run.recurrent + sequence * 2 * size + unit;
        const T update = activated<GATE>(projected[0] + recurrent[0] + run.bias(unit));
        const T reset = activated<GATE>(projected[size] + recurrent[size] + run.bias(size + unit));
        recurrent[0] = update;
        recurrent[size] = reset;
        run.opened[here] = reset * run.hidden[here];
    }
}

template <class T, int CANDIDATE, bool ORIGIN>
__global__ void __launch_bounds__(256, 2)
paddle_step(const Run<T>* __restrict__ about, int64 step, int64 alive) {
    const Run<T> run = *about;
    const int64 unit = first_unit(), size = run.size;
    if (unit >= size) return;
    for (int64 sequence = first_sequence(); sequence < alive; sequence += sequence_stride()) {
        const int64 row = run.order.row(sequence, step), here = sequence * size + unit;
        const int64 last = row * 3 * size + 2 * size + unit;
        const T sum = run.projected[last] + run.candidate[here] + run.bias(2 * size + unit);
        const T candidate = activated<CANDIDATE>(sum);
        const T update = run.recurrent[sequence * 2 * size + unit], keep = kept<ORIGIN>(update);
        const T made = keep * run.hidden[here] + ((T)1 - keep) * candidate;
        run.hidden[here] = made;
        run.outputs[row * size + unit] = made;
        if (run.gates) {
            T* gates = run.gates + row * 3 * size + unit;
            gates[0] = update;
            gates[size] = run.recurrent[sequence * 2 * size + size + unit];
            gates[2 * size] = candidate;
        }
    }
}

// The gradients of the candidate and the update gate.
template <class T, int GATE, int CANDIDATE, bool ORIGIN>
__global__ void __launch_bounds__(256, 2)
paddle_candidate_gradient(const Back<T>* __restrict__ about, int64 step, int64 alive, int64 later) {
    const Back<T> back = *about;
    const int64 unit = first_unit(), size = back.size;
    if (unit >= size) return;
    for (int64 sequence = first_sequence(); sequence < alive; sequence += sequence_stride()) {
        const int64 row = back.order.row(sequence, step), here = sequence * size + unit;
        const T* gates = back.gates + row * 3 * size + unit;
        const T update = gates[0], candidate = gates[2 * size], keep = kept<ORIGIN>(update);
        const T arrived = back.arriving(sequence, unit, row, later);
        const T by_keep = arrived * (back.hidden_before(sequence, unit, row, step) - candidate);
        const T by_update = (ORIGIN ? by_keep : -by_keep) * slope<GATE>(update);
        const T by_candidate = arrived * ((T)1 - keep) * slope<CANDIDATE>(candidate);
        back.carried[here] = arrived * keep;
        T* gradients = back.gradients + row * 3 * size + unit;
        gradients[0] = by_update;
        gradients[2 * size] = by_candidate;
        back.packed[sequence * 2 * size + unit] = by_update;
        back.packed_candidate[here] = by_candidate;
    }
}

// The gradient of the reset gate, once that of reset * hidden is known.
template <class T, int GATE>
__global__ void __launch_bounds__(256, 2)
paddle_reset_gradient(const Back<T>* __restrict__ about, int64 step, int64 alive) {
    const Back<T> back = *about;
    const int64 unit = first_unit(), size = back.size;
    if (unit >= size) return;
    for (int64 sequence = first_sequence(); sequence < alive; sequence += sequence_stride()) {
        const int64 row = back.order.row(sequence, step), here = sequence * size + unit;
        const T reset = back.gates[row * 3 * size + size + unit], opened = back.opened[here];
        const T by = opened * back.hidden_before(sequence, unit, row, step) * slope<GATE>(reset);
        back.carried[here] += opened * reset;
        back.gradients[row * 3 * size + size + unit] = by;
        back.packed[sequence * 2 * size + size + unit] = by;
    }
}
