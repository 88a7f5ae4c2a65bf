// The gradient of a 3x3 convolution's weights on Hopper, in bf16: sums over pixels of input times output gradient. Each
// block of three warpgroups walks over every `gridDim.x`-th group of UNITS squares of 64 pixels and keeps the sums of all
// taps; what the blocks have is added afterwards in a fixed order. One more warp gives the copies to the engine.
//
// From 64 channels on a warpgroup has one row of taps, 64 channels in and 64 out. Of 32 channels (NARROW) a product's
// 64 rows are those of two neighbouring lines of the image, and its columns those of two lines of the gradient: of the
// four pairs of lines three belong to some tap. A warpgroup has one column of taps then, and every tap two sums.
//
// Defined by the compiler call: THREADS of a block; SLOTS, the most of them; BOX_WIDTH, the pixels of a line of the
// image's box; ALIGNMENT of tiles; the channels and units of both kinds of blocks.

template <int NARROW>
__global__ __launch_bounds__(THREADS, 1) void conv_weight_wgmma(const __grid_constant__ TensorMap x,
                                                            const __grid_constant__ TensorMap dy,
                                                            float* __restrict__ partial,
                                                            float* __restrict__ bias_partial, Units t, int inputs,
                                                            int outputs, int slots) {
    constexpr int CHANNELS = NARROW ? NARROW_CHANNELS : WIDE_CHANNELS, UNITS = NARROW ? NARROW_UNITS : WIDE_UNITS;
    constexpr int ROW = CHANNELS * 2, ACCUMULATORS = NARROW ? 2 : 3;
    extern __shared__ __align__(ALIGNMENT) unsigned char memory[];
    __shared__ u64 barriers[2 * SLOTS];

    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32 % 4, group = thread / 128;
    const int first_input = blockIdx.y * CHANNELS, first_output = blockIdx.z * CHANNELS;
    const int stages = (t.batch * t.per_image + UNITS - 1) / UNITS;
    // A unit's box of the image with its neighbours, and of the gradient.
    constexpr u32 X_BOX = BOX_WIDTH * BOX_WIDTH * ROW, DY_BOX = 64 * ROW;
    constexpr u32 X_BYTES = aligned(X_BOX), UNIT_BYTES = X_BYTES + DY_BOX;
    const u32 tiles = aligned(shared_address(memory));
    const u32 full = shared_address(barriers), free = full + slots * 8;

    if (thread == 0) {
        for (int i = 0; i < slots; i++) barrier_make(full + i * 8, 1), barrier_make(free + i * 8, 12);
        barriers_publish();
    }
    __syncthreads();

    if (group == 3) {
        if (lane != 0) return;
        Ring slot{0, 1};
        for (int stage = blockIdx.x; stage < stages; stage += gridDim.x) {
            u32 to = tiles + slot.at * UNITS * UNIT_BYTES, here = full + slot.at * 8;
            barrier_wait(free + slot.at * 8, slot.phase);
            barrier_expect(here, UNITS * (X_BOX + DY_BOX));
            for (int u = 0; u < UNITS; u++, to += UNIT_BYTES) {
                Unit unit = unit_of<3>(t, stage * UNITS + u);
                copy_box(to, &x, here, first_input, unit.x - 1, unit.y - 1, unit.image);
                copy_box(to + X_BYTES, &dy, here, first_output, unit.x, unit.y, unit.image);
            }
            slot.next(slots);
        }
        return;
    }

    // The threads of the first warps add up the gradient for the bias: each eight channels of every fourth pixel, or of
    // every eighth.
    const bool sums_bias = bias_partial && blockIdx.y == 0 && thread < 64;
    constexpr int PIECES = ROW / 16;
    float bias_sums[8] = {};
    float sums[ACCUMULATORS][32] = {};
    Ring slot{0, 0};
    int done = -1;
    for (int stage = blockIdx.x; stage < stages; stage += gridDim.x) {
        barrier_wait(full + slot.at * 8, slot.phase);
        products_begin();
#pragma unroll
        for (int u = 0; u < UNITS; u++) {
            u32 x_tile = tiles + (slot.at * UNITS + u) * UNIT_BYTES, dy_tile = x_tile + X_BYTES;
            if constexpr (NARROW) {
                u64 a = operand<ROW>(x_tile + group * ROW, BOX_WIDTH * ROW, 2 * BOX_WIDTH * ROW);
                u64 b = operand<ROW>(dy_tile, 8 * ROW, 16 * ROW);
#pragma unroll
                for (int k = 0; k < 2; k++)
#pragma unroll
                    for (int i = 0; i < 2; i++)
                        multiply_transposed(sums[i], a + ((4 * k + 2 * i) * BOX_WIDTH * ROW >> 4),
                                            b + (4 * k * 8 * ROW >> 4), 1);
            } else {
                u64 a = operand<ROW>(x_tile + group * BOX_WIDTH * ROW, 16, BOX_WIDTH * ROW);
                u64 b = operand<ROW>(dy_tile, 16, 8 * ROW);
#pragma unroll
                for (int k = 0; k < 4; k++)
#pragma unroll
                    for (int i = 0; i < 3; i++)
                        multiply_transposed(sums[i], a + ((2 * k * BOX_WIDTH + i) * ROW >> 4),
                                            b + (k * 16 * ROW >> 4), 1);
            }
        }
        products_commit();
        if (sums_bias) {
#pragma unroll 1
            for (int u = 0; u < UNITS; u++) {
                u32 from = tiles + (slot.at * UNITS + u) * UNIT_BYTES + X_BYTES;
                for (int i = thread / PIECES; i < 64; i += 64 / PIECES) {
                    u32 at = i * ROW + thread % PIECES * 16, words[4];
                    at ^= at >> 3 & (ROW == 128 ? 0x70 : 0x30);
                    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                                 : "r"(from + at)
                                 : "memory");
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        bias_sums[2 * j] += __uint_as_float(words[j] << 16);
                        bias_sums[2 * j + 1] += __uint_as_float(words[j] & 0xffff0000u);
                    }
                }
            }
        }
        products_wait<1>();
        // The products before these are done, and so is the reading for the bias: what they read is free.
        if (lane == 0 && done >= 0) barrier_arrive(free + done * 8);
        done = slot.at;
        slot.next(slots);
        __syncwarp();
    }
    products_wait<0>();
#pragma unroll
    for (int i = 0; i < ACCUMULATORS; i++) hold(sums[i]);

    if (sums_bias) {
        // Lanes that are PIECES apart have the same channels.
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int step = PIECES; step < 32; step *= 2)
                bias_sums[j] += __shfl_xor_sync(0xffffffffu, bias_sums[j], step);
        if (lane < PIECES) {
            float* to = bias_partial + ((i64)blockIdx.x * 2 + thread / 32) * outputs + first_output + lane * 8;
            store<8>(to, bias_sums);
        }
    }
#pragma unroll
    for (int i = 0; i < ACCUMULATORS; i++)
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int row = warp * 16 + half * 8 + lane / 4, column = j * 8 + lane % 4 * 2;
                int tap = group * 3 + i, part = blockIdx.x;
                if (NARROW) {
                    int vertical = 2 * i + row / 32 - column / 32;
                    if (vertical < 0 || vertical > 2) continue;
                    tap = vertical * 3 + group, part = blockIdx.x * 2 + column / 32;
                    row %= 32, column %= 32;
                }
                i64 to = (((i64)part * 9 + tap) * inputs + first_input + row) * outputs + first_output + column;
                *(float2*)(partial + to) = make_float2(sums[i][j * 4 + half * 2], sums[i][j * 4 + half * 2 + 1]);
            }
}
