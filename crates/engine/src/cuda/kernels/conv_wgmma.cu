// Convolution, 3x3 or 1x1, on Hopper, forward and towards the input: two warpgroups, each with a unit of 64 pixels, and
// BN channels out. To a 1x1 convolution a batch is one line of pixels.
//
// Each block walks over every `gridDim.x`-th pair of units, ROW bytes of channels at a time (a chunk), TAPS taps at a time
// (a step). Pixels wait in `buffers` buffers, weights in `slots` slots; where these hold all of them, they are copied
// once. The first thread gives the next copy to the engine as soon as both warpgroups have left a buffer or a slot.
//
// Defined by the compiler call: BUFFERS and SLOTS, the most of each; ALIGNMENT of tiles.

template <int P, int KERNEL, int TAPS, int BN, int ROW>
__global__ __launch_bounds__(256, BN > 32 ? 2 : 3) void conv_wgmma(
    const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap weight, const float* __restrict__ bias,
    const typename Element<P>::type* __restrict__ residual, const typename Element<P>::type* __restrict__ mask,
    void* __restrict__ out, Units t, int inputs, int outputs, int relu, int flip, int out_f32, int slots, int buffers) {
    typedef typename Element<P>::type T;
    constexpr int CHUNK = ROW / sizeof(T), R = KERNEL / 2;
    constexpr int STEPS = KERNEL * KERNEL / TAPS;
    constexpr u32 TAP = BN * ROW, SLOT = TAPS * TAP;
    extern __shared__ __align__(ALIGNMENT) unsigned char memory[];
    __shared__ u64 barriers[2 * BUFFERS + 2 * SLOTS];

    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32 % 4, group = thread / 128;
    const u32 box = t.box_width * t.lines * ROW, unit_bytes = aligned(box);
    const u32 weights = aligned(shared_address(memory)), images = weights + slots * SLOT;
    const u32 x_full = shared_address(barriers), x_free = x_full + BUFFERS * 8, w_full = x_free + BUFFERS * 8, w_free = w_full + slots * 8;
    const int tiles = (t.batch * t.per_image + 1) / 2, first_output = blockIdx.y * BN;
    const int chunks = (inputs + CHUNK - 1) / CHUNK;
    const bool resident = slots >= STEPS * chunks;

    // What is copied next.
    int x_tile = blockIdx.x, x_chunk = 0, w_tile = blockIdx.x, w_chunk = 0, w_step = 0;
    auto copy_pixels = [&](int to) {
        if (x_tile >= tiles) return;
        Unit first = unit_of<KERNEL>(t, x_tile * 2), second = unit_of<KERNEL>(t, x_tile * 2 + 1);
        u32 full = x_full + to * 8, place = images + to * 2 * unit_bytes;
        barrier_expect(full, 2 * box);
        copy_box(place, &x, full, x_chunk * CHUNK, first.x - R, first.y - R, first.image);
        copy_box(place + unit_bytes, &x, full, x_chunk * CHUNK, second.x - R, second.y - R, second.image);
        if (++x_chunk == chunks) x_chunk = 0, x_tile += gridDim.x;
    };
    auto copy_weights = [&](int to) {
        if (w_tile >= tiles) return;
        u32 full = w_full + to * 8;
        barrier_expect(full, SLOT);
        copy_box(weights + to * SLOT, &weight, full, w_chunk * CHUNK, first_output,
                 flip ? (STEPS - 1 - w_step) * TAPS : w_step * TAPS);
        if (++w_step == STEPS) {
            w_step = 0;
            if (++w_chunk == chunks) w_chunk = 0, w_tile += gridDim.x;
        }
    };
    if (thread == 0) {
        for (int i = 0; i < buffers; i++) barrier_make(x_full + i * 8, 1), barrier_make(x_free + i * 8, 8);
        for (int i = 0; i < slots; i++) barrier_make(w_full + i * 8, 1), barrier_make(w_free + i * 8, 8);
        barriers_publish();
        copy_pixels(0);
        for (int i = 0; i < slots; i++) copy_weights(i);
        for (int i = 1; i < buffers; i++) copy_pixels(i);
    }
    __syncthreads();

    float sums[BN / 2];
    Ring w{0, 0}, buffer{0, 0};
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int offset = KERNEL == 3 && t.linear ? unit_of<KERNEL>(t, tile * 2 + group).offset : 0;
        // The step before, whose products may be under way, and the chunk before where it ended there.
        Ring left_slot{-1, 0}, left_buffer{-1, 0};
        auto leave = [&]() {
            if (lane == 0) {
                if (left_slot.at >= 0) barrier_arrive(w_free + left_slot.at * 8);
                if (left_buffer.at >= 0) barrier_arrive(x_free + left_buffer.at * 8);
            }
            if (thread == 0) {
                if (left_slot.at >= 0) {
                    barrier_wait(w_free + left_slot.at * 8, left_slot.phase);
                    copy_weights(left_slot.at);
                }
                if (left_buffer.at >= 0) {
                    barrier_wait(x_free + left_buffer.at * 8, left_buffer.phase);
                    copy_pixels(left_buffer.at);
                }
            }
            __syncwarp();
        };
        for (int chunk = 0; chunk < chunks; chunk++) {
            barrier_wait(x_full + buffer.at * 8, buffer.phase);
            const u32 first = images + (buffer.at * 2 + group) * unit_bytes + offset * ROW;
#pragma unroll 1
            for (int step = 0; step < STEPS; step++) {
                if (!resident || tile == blockIdx.x) barrier_wait(w_full + w.at * 8, w.phase);
                products_begin();
#pragma unroll
                for (int i = 0; i < TAPS; i++) {
                    // A row of three taps is a step, or a single tap is.
                    int down = TAPS == 3 ? step : step / 3, right = TAPS == 3 ? i : step - step / 3 * 3;
                    int line = KERNEL == 1 || t.linear ? 8 : t.box_width;
                    u64 a = operand<ROW>(first + (down * t.box_width + right) * ROW, 16, line * ROW);
                    u64 b = operand<ROW>(weights + w.at * SLOT + (flip ? TAPS - 1 - i : i) * TAP, 16, 8 * ROW);
#pragma unroll
                    for (int k = 0; k < ROW / 32; k++)
                        Product<P, BN>::run(sums, a + 2 * k, b + 2 * k, chunk + step + i + k > 0);
                }
                products_commit();
                products_wait<1>();
                leave();
                left_slot = Ring{resident ? -1 : w.at, w.phase};
                left_buffer = Ring{step == STEPS - 1 ? buffer.at : -1, buffer.phase};
                w.next(slots);
            }
            buffer.next(buffers);
        }
        products_wait<0>();
        hold(sums);
        leave();
        // Lanes exchange their sums so that each writes eight neighbouring channels.
        {
            Unit unit = unit_of<KERNEL>(t, tile * 2 + group);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int pixel = pixel_of<KERNEL>(t, unit, warp * 16 + half * 8 + lane / 4);
#pragma unroll
                for (int column = 0; column < BN; column += 32) {
                    float values[8], more[8];
                    int n = first_output + column;
                    if constexpr (BN % 32 == 0) {
                        float2 pairs[4];
#pragma unroll
                        for (int j = 0; j < 4; j++) {
                            const float* sum = &sums[column / 2 + j * 4 + half * 2];
                            pairs[j] = make_float2(sum[0], sum[1]);
                        }
                        exchange(pairs, lane);
#pragma unroll
                        for (int j = 0; j < 4; j++) values[2 * j] = pairs[j].x, values[2 * j + 1] = pairs[j].y;
                        n += lane % 4 * 8;
                    } else { // 16 channels: two lanes of four write.
                        float2 pairs[4] = {};
#pragma unroll
                        for (int j = 0; j < 2; j++) {
                            const float* sum = &sums[column / 2 + j * 4 + half * 2];
                            pairs[j] = make_float2(sum[0], sum[1]);
                        }
                        exchange(pairs, lane);
#pragma unroll
                        for (int j = 0; j < 4; j++) values[2 * j] = pairs[j].x, values[2 * j + 1] = pairs[j].y;
                        n = lane % 4 < 2 ? n + lane % 4 * 8 : outputs;
                    }
                    if (pixel < 0 || n >= outputs) continue;
                    i64 to = (i64)pixel * outputs + n;
                    if (bias) {
                        load<8>(bias + n, more);
#pragma unroll
                        for (int j = 0; j < 8; j++) values[j] += more[j];
                    }
                    write_eight(values, out, to, residual, relu, mask, out_f32);
                }
            }
        }
    }
}
