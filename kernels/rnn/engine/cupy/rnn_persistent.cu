// All steps of a layer in one launch; the recurrent weights never leave the chip.
//
// A block keeps the weights of a few units in shared memory. Blocks with all units between them
// are a group, blockIdx.y, which runs some sequences, `tall` at a time, from first step to last.
// After each step the blocks of a group meet, for each needs the states that the others have made.
// Groups never meet. All blocks must be on the chip at once: the launch is a cooperative one.
#include "rnn_elman.cuh"
#include "rnn_exact.cuh"
#include "rnn_gru.cuh"
#include "rnn_lstm.cuh"
#include "rnn_meeting.cuh"
#include "rnn_rounded.cuh"
#include "rnn_slstm.cuh"

// What a group runs, slice by slice: there and back along the groups, so that nobody gets the
// longest sequences of every turn.
struct Slice {
    int64 first;  // its first sequence
    int rows;     // sequences; none: there is nothing left

    __device__ __forceinline__ Slice(int turn, int64 tall, int64 sequences) {
        const int64 place = turn % 2 ? gridDim.y - 1 - blockIdx.y : blockIdx.y;
        first = ((int64)turn * gridDim.y + place) * tall;
        const int64 left = sequences - first;
        rows = left <= 0 ? 0 : (int)(left < tall ? left : tall);
    }
};

__device__ __forceinline__ void look_ahead(const void* place) {
#ifdef __CUDA_ARCH__
    asm volatile("prefetch.global.L2 [%0];" ::"l"(place));
#endif
}

// The shared memory of the block; as many bytes as rnn/persistent.py asks for.
extern __shared__ __align__(16) unsigned char shared[];

// weight: weight_hh, (G*H, H). meetings: a line of 128 bytes for each group, of zeros.
// from: the first step, at which so many `sequences` are alive; the steps before are run by others.
template <class Cell, class Product>
__global__ void __launch_bounds__(THREADS, 1)
persistent_forward(const Run<typename Product::T>* __restrict__ about,
                   const typename Product::T* __restrict__ weight, unsigned* meetings, int64 units_,
                   int64 tall, int64 sequences, int64 from) {
    typedef typename Product::T T;
    const Run<T> run = *about;
    const int size = (int)run.size, units = (int)units_, unit = blockIdx.x * units;
    const int here = size - unit < units ? size - unit : units;
    Product product(shared, size, Cell::GATES * units);
    product.keep([=](int k, int column) {
        const int gate = column / units, place = column % units;
        return place < here ? weight[(int64)(gate * size + unit + place) * size + k] : (T)0;
    });
    Meeting meeting{meetings + blockIdx.y * 32, gridDim.x, 0};
    for (int turn = 0;; turn++) {
        const Slice slice(turn, tall, sequences);
        if (!slice.rows) return;
        const int64 steps = run.order.lengths[slice.first], brought = slice.first + brought_row();
        int alive = slice.rows;
        for (int64 step = from; step < steps; step++) {
            while (run.order.lengths[slice.first + alive - 1] <= step) alive--;
            Left<T> left{nullptr, nullptr, size, size};
            if (brought_row() < alive)
                left.first = step ? run.outputs + run.order.row(brought, step - 1) * size
                                  : run.begin + brought * size;
            product.multiply(left, alive);
            for (int pair = threadIdx.x; pair < alive * here; pair += THREADS) {
                const int place = pair % here;
                const int64 sequence = slice.first + pair / here;
                T recurrent[Cell::GATES];
                for (int gate = 0; gate < Cell::GATES; gate++)
                    recurrent[gate] = product.sum(pair / here, gate * units + place);
                Cell::step(run, sequence, unit + place, run.order.row(sequence, step), recurrent);
                if (step + 1 < run.order.lengths[sequence]) {
                    const int64 next = run.order.row(sequence, step + 1) * Cell::GATES;
                    for (int gate = 0; gate < Cell::GATES; gate++)
                        look_ahead(run.projected + (next + gate) * size + unit + place);
                }
            }
            if (step + 1 < steps) meeting.meet();
        }
    }
}

template <class Cell, class Product>
__global__ void __launch_bounds__(THREADS, 1)
persistent_backward(const Back<typename Product::T>* __restrict__ about,
                    const typename Product::T* __restrict__ weight, unsigned* meetings, int64 units_,
                    int64 tall, int64 sequences, int64 from) {
    typedef typename Product::T T;
    const Back<T> back = *about;
    const int size = (int)back.size, units = (int)units_, unit = blockIdx.x * units;
    const int here = size - unit < units ? size - unit : units;
    Product product(shared, Cell::GATES * size, units);
    product.keep([=](int k, int column) {
        return column < here ? weight[(int64)k * size + unit + column] : (T)0;
    });
    Meeting meeting{meetings + blockIdx.y * 32, gridDim.x, 0};
    for (int turn = 0;; turn++) {
        const Slice slice(turn, tall, sequences);
        if (!slice.rows) return;
        const int64 brought = slice.first + brought_row();
        // Through weight_hh comes what the gates of the next step got, of the sequences that have it.
        const auto pull = [&](int64 next, int rows) {
            Left<T> left{nullptr, nullptr, Cell::DIRECT * size, Cell::GATES * size};
            if (brought_row() < rows) {
                const int64 row = back.order.row(brought, next);
                left.first = back.gradients + row * Cell::GATES * size;
                if (Cell::DIRECT < Cell::GATES) left.second = back.reset + row * size;
            }
            product.multiply(left, rows);
        };
        int alive = 0;
        for (int64 step = back.order.lengths[slice.first] - 1; step >= from; step--) {
            const int later = alive;
            while (alive < slice.rows && back.order.lengths[slice.first + alive] > step) alive++;
            if (later) pull(step + 1, later);
            for (int pair = threadIdx.x; pair < alive * here; pair += THREADS) {
                const int place = pair % here;
                const int64 sequence = slice.first + pair / here, row = back.order.row(sequence, step);
                const T through = pair / here < later ? product.sum(pair / here, place) : (T)0;
                const T arrived = back.arrived(sequence, unit + place, row, through);
                Cell::back(back, sequence, unit + place, row, step, arrived);
            }
            meeting.meet();
        }
        pull(from, alive);
        for (int pair = threadIdx.x; pair < alive * here; pair += THREADS)
            back.flow[(slice.first + pair / here) * size + unit + pair % here] =
                product.sum(pair / here, pair % here);
    }
}
