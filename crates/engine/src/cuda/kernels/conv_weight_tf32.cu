// The gradient of a 3x3 convolution's weights on Hopper, in tf32: sums over pixels of input times output gradient. Blocks
// walk over squares of 64 pixels as in conv_weight_wgmma.cu. Products in tf32 want both operands with the summed
// dimension, the pixels, contiguous; of images the channels are. So the input comes from registers, which are read from
// its tile in any order, and one more warpgroup transposes the gradient's tile.
//
// A product takes a line of eight pixels, first those of even columns and then the odd ones: a thread then reads four
// neighbouring pixels for the three taps of a row of the kernel, and no two lanes meet a bank.
//
// From 64 channels on a warpgroup has one row of taps, 64 channels in and 64 out. Of 32 channels (NARROW) a product's rows
// are those of two rows of taps, so that two warpgroups have the three of them (a quarter of their work is for nothing),
// and two more have the next square.
//
// Defined by the compiler call: THREADS and NARROW_THREADS of a block; SLOTS, the most of them; BOX_WIDTH, the pixels of
// a line of the input's box; ALIGNMENT of tiles; the channels and units of both kinds of blocks.

// Registers are what limits the warpgroups that multiply; the one that turns needs few.
template <int COUNT> __device__ __forceinline__ void registers_take() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT> __device__ __forceinline__ void registers_give() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

__device__ __forceinline__ u32 shared_word(u32 from) {
    u32 word;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(from) : "memory");
    return word;
}

template <int NARROW>
__global__ __launch_bounds__(NARROW ? NARROW_THREADS : THREADS, 1) void conv_weight_tf32(const __grid_constant__ TensorMap x,
                                                                          const __grid_constant__ TensorMap dy,
                                                                          float* __restrict__ partial,
                                                                          float* __restrict__ bias_partial, Units t,
                                                                          int inputs, int outputs, int slots) {
    constexpr int CHANNELS = NARROW ? NARROW_CHANNELS : WIDE_CHANNELS, UNITS = NARROW ? NARROW_UNITS : WIDE_UNITS;
    constexpr int HALVES = CHANNELS / 32, GROUPS = NARROW ? 4 : 3;
    constexpr u32 ROW = 128; // Bytes of 32 channels.
    constexpr u32 X_BOX = BOX_WIDTH * BOX_WIDTH * ROW, DY_BOX = 64 * ROW, X_BYTES = aligned(X_BOX);
    // Of a unit: boxes of the input, boxes of the gradient, the gradient turned around.
    constexpr u32 DY_AT = HALVES * X_BYTES, TURNED_AT = DY_AT + HALVES * DY_BOX, UNIT_BYTES = TURNED_AT + HALVES * DY_BOX;
    extern __shared__ __align__(ALIGNMENT) unsigned char memory[];
    __shared__ u64 barriers[3 * SLOTS];

    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32 % 4, group = thread / 128;
    const int first_input = blockIdx.y * CHANNELS, first_output = blockIdx.z * CHANNELS;
    const int stages = (t.batch * t.per_image + UNITS - 1) / UNITS;
    const u32 tiles = aligned(shared_address(memory));
    const u32 full = shared_address(barriers), turned = full + SLOTS * 8, free = turned + SLOTS * 8;
    const int of_eight = lane / 4, of_four = lane % 4;

    if (thread == 0) {
        for (int i = 0; i < slots; i++) {
            barrier_make(full + i * 8, 1), barrier_make(turned + i * 8, 4), barrier_make(free + i * 8, GROUPS * 4);
        }
        barriers_publish();
    }
    __syncthreads();

    if (group == GROUPS) {
        registers_give<NARROW ? 64 : 56>();
        auto copy = [&](int stage, int slot) {
            u32 to = tiles + slot * UNITS * UNIT_BYTES, here = full + slot * 8;
            barrier_expect(here, UNITS * HALVES * (X_BOX + DY_BOX));
            for (int u = 0; u < UNITS; u++, to += UNIT_BYTES) {
                Unit unit = unit_of<3>(t, stage * UNITS + u);
                for (int half = 0; half < HALVES; half++) {
                    copy_box(to + half * X_BYTES, &x, here, first_input + half * 32, unit.x - 1, unit.y - 1, unit.image);
                    copy_box(to + DY_AT + half * DY_BOX, &dy, here, first_output + half * 32, unit.x, unit.y, unit.image);
                }
            }
        };
        const bool copies = warp == 0 && lane == 0;
        if (copies) {
            for (int i = 0; i < slots && (int)blockIdx.x + i * (int)gridDim.x < stages; i++) {
                copy(blockIdx.x + i * gridDim.x, i);
            }
        }
        __syncwarp();
        // A warp turns eight channels after the other; their sums are the bias's.
        float bias_sums[HALVES] = {};
        Ring slot{0, 0}, before{-1, 0};
        for (int stage = blockIdx.x; stage < stages; stage += gridDim.x) {
            barrier_wait(full + slot.at * 8, slot.phase);
#pragma unroll 1
            for (int u = 0; u < UNITS; u++) {
                u32 unit = tiles + (slot.at * UNITS + u) * UNIT_BYTES;
#pragma unroll
                for (int half = 0; half < HALVES; half++) {
                    int channel = half * 32 + warp * 8 + of_eight;
                    u32 from = unit + DY_AT + half * DY_BOX + lane / 4 % 4 * 4, to = unit + TURNED_AT + channel * ROW + of_four * 4;
#pragma unroll
                    for (int line = 0; line < 8; line++)
#pragma unroll
                        for (int odd = 0; odd < 2; odd++) {
                            int column = 2 * of_four + odd;
                            u32 word = shared_word(from + (line * 8 + column) * ROW + ((warp * 2 + lane / 16) ^ column) * 16);
                            u32 place = to + line / 4 * CHANNELS * ROW + ((line % 4 * 2 + odd) ^ of_eight) * 16;
                            asm volatile("st.shared.b32 [%0], %1;" ::"r"(place), "r"(word) : "memory");
                            bias_sums[half] += __uint_as_float(word);
                        }
                }
            }
            // The products read by another way than these stores are written.
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            __syncwarp();
            if (lane == 0) barrier_arrive(turned + slot.at * 8);
            // The stage before is left as soon as this one is begun.
            int next = stage + (slots - 1) * gridDim.x;
            if (copies && before.at >= 0 && next < stages) {
                barrier_wait(free + before.at * 8, before.phase);
                copy(next, before.at);
            }
            __syncwarp();
            before = slot;
            slot.next(slots);
        }
        if (bias_partial && blockIdx.y == 0) {
#pragma unroll
            for (int half = 0; half < HALVES; half++) {
                float sum = bias_sums[half];
                sum += __shfl_xor_sync(0xffffffffu, sum, 1);
                sum += __shfl_xor_sync(0xffffffffu, sum, 2);
                int channel = first_output + half * 32 + warp * 8 + of_eight;
                if (of_four == 0) bias_partial[(i64)blockIdx.x * outputs + channel] = sum;
            }
        }
        return;
    }

    registers_take<NARROW ? 104 : 152>();
    // This warp's row of taps, and where its 16 channels lie.
    const int row_of_taps = NARROW ? group % 2 * 2 + warp / 2 : group, down = row_of_taps < 3 ? row_of_taps : 2;
    const int unit = NARROW ? group / 2 : 0, half = NARROW ? 0 : warp / 2, piece = warp % 2 * 4 + lane / 16;
    float sums[3][CHANNELS / 2] = {};
    u32 pixels[2][8];
    Ring slot{0, 0};
    int done = -1;
    for (int stage = blockIdx.x; stage < stages; stage += gridDim.x) {
        const u32 here = tiles + (slot.at * UNITS + unit) * UNIT_BYTES;
        const u32 x_tile = here + half * X_BYTES + lane / 4 % 4 * 4;
        const u64 b = operand<128>(here + TURNED_AT, 16, 8 * ROW);
        // Four neighbouring pixels of two channels, eight apart.
        auto read = [&](u32 (&to)[8], int line) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                u32 at = ((down + line) * BOX_WIDTH + 2 * of_four + i) * ROW;
                at += piece * 16 ^ (at >> 3 & 0x70);
                to[2 * i] = shared_word(x_tile + at), to[2 * i + 1] = shared_word(x_tile + (at ^ 32));
            }
        };
        barrier_wait(full + slot.at * 8, slot.phase);
        barrier_wait(turned + slot.at * 8, slot.phase);
        products_wait<1>();
        read(pixels[0], 0);
        // By two, so that registers have their names; no more at once, or addresses would take too many of them.
#pragma unroll 1
        for (int line = 0; line < 8; line += 2)
#pragma unroll
            for (int odd = 0; odd < 2; odd++) {
                u64 of_line = b + (line / 4 * CHANNELS * ROW + line % 4 * 32 + odd * 32 >> 4);
                products_begin();
#pragma unroll
                for (int i = 0; i < 3; i++) multiply_from_registers(sums[i], &pixels[odd][2 * i], of_line);
                products_commit();
                // The products of the line before are done, so that their registers are free, and so is their stage.
                products_wait<1>();
                if (line + odd == 0 && lane == 0 && done >= 0) barrier_arrive(free + done * 8);
                if (line + odd < 7) read(pixels[1 - odd], line + odd + 1);
            }
        done = slot.at;
        slot.next(slots);
        __syncwarp();
    }
    products_wait<0>();
#pragma unroll
    for (int i = 0; i < 3; i++) hold(sums[i]);
    if (row_of_taps > 2) return;
    const int part = blockIdx.x * UNITS + unit;
#pragma unroll
    for (int i = 0; i < 3; i++)
#pragma unroll
        for (int j = 0; j < CHANNELS / 8; j++)
#pragma unroll
            for (int lower = 0; lower < 2; lower++) {
                int input = first_input + half * 32 + warp % 2 * 16 + lower * 8 + of_eight;
                int output = first_output + j * 8 + of_four * 2;
                i64 to = (((i64)part * 9 + down * 3 + i) * inputs + input) * outputs + output;
                *(float2*)(partial + to) = make_float2(sums[i][j * 4 + lower * 2], sums[i][j * 4 + lower * 2 + 1]);
            }
}
