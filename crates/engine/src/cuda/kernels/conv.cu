// Convolution, forward and towards the input: one tile of up to TILE pixels and BN channels per block.
//
// The pixels of a tile and their neighbours are copied once for each 64 bytes of channels; a tap of the
// kernel is then only another row of shared memory, so that nothing is unrolled and nothing read nine
// times. Bias, residual, relu and the change of type happen while the tile is written; in the backward pass
// `mask` (the convolution's input) drops the gradient that the relu before it would drop anyway.

// Defined by the compiler call: ROW, the bytes between rows of 64 in shared memory; TILE; RESULT_PADDING, the values
// between lines of results there. TAPS_AT_ONCE: those whose weights are in shared memory, a row of the kernel.

template <int P, int TAPS, int TAPS_AT_ONCE, int BN>
__global__ __launch_bounds__(256, P == F32 ? 1 : BN == 128 ? 2 : 3) void conv(
    const typename Element<P>::type* __restrict__ x, const typename Element<P>::type* __restrict__ weight,
    const float* __restrict__ bias, const typename Element<P>::type* __restrict__ residual,
    const typename Element<P>::type* __restrict__ mask, void* __restrict__ out, Tiling t, int inputs, int outputs,
    int relu, int flip, int out_f32) {
    typedef typename Element<P>::type T;
    constexpr int E = 16 / sizeof(T), CHUNK = 64 / sizeof(T);
    constexpr int R = TAPS == 9 ? 1 : 0, PARTS = TAPS / TAPS_AT_ONCE;
    static_assert(PARTS == TAPS_AT_ONCE, "a part is a row of the kernel");
    constexpr int MF = 2, WN = BN / 2, NF = WN / 16;
    extern __shared__ __align__(16) unsigned char memory[];

    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int warp_m = warp / 2 * (MF * 16), warp_n = warp % 2 * WN;
    const int halo_width = t.tile_w + 2 * R, halo = (t.tile_h + 2 * R) * halo_width;
    const int pixels = t.tile_h * t.tile_w;
    const Place place = tile_place(t, blockIdx.x);
    const int first_output = blockIdx.y * BN;
    const int chunks = (inputs + CHUNK - 1) / CHUNK, steps = chunks * PARTS;
    const bool aligned = inputs % E == 0;
    const u32 images = shared_address(memory);
    const u32 weights = images + (chunks > 1 ? 2 : 1) * halo * ROW;

    // The 16-byte pieces of the halo that this thread copies: where from (-1: outside) and where to.
    int from[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int piece = thread + i * 256, pixel = piece / 4;
        int y = place.y + pixel / halo_width - R, at = place.x + pixel % halo_width - R;
        bool inside = pixel < halo && y >= 0 && y < t.height && at >= 0 && at < t.width;
        from[i] = inside ? (place.image * t.height + y) * t.width + at : -1;
    }

    // The same of the weights: 32 rows of one tap at a time, by every other half of the threads.
    const int per_tap = outputs * inputs, direction = flip ? -per_tap : per_tap;
    const int weight_row = thread / 4 % 32, share = thread / 128;
    const T* first_weight = weight + (flip ? (TAPS - 1) * per_tap : 0) + (first_output + weight_row) * (i64)inputs;

    auto copy = [&](int step) {
        int chunk = step / PARTS, part = step % PARTS;
        if (part == 0) {
            u32 to = images + (chunk % 2) * halo * ROW;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int piece = thread + i * 256, channel = chunk * CHUNK + piece % 4 * E;
                if (piece >= halo * 4) break;
                bool valid = from[i] >= 0 && channel < inputs;
                const T* source = x + ((i64)from[i] * inputs + channel);
                u32 target = to + piece / 4 * ROW + piece % 4 * 16;
                if (aligned) copy_async(target, source, valid);
                else copy_slowly(target, source, valid ? inputs - channel : 0);
            }
        }
        u32 to = weights + (step % 2) * TAPS_AT_ONCE * BN * ROW;
        int channel = chunk * CHUNK + thread % 4 * E;
        const T* taps = first_weight + (part * TAPS_AT_ONCE * direction + channel);
#pragma unroll
        for (int i = 0; i < TAPS_AT_ONCE * BN / 32; i++) {
            if (i % 2 != share) continue;
            int column = i % (BN / 32) * 32;
            bool valid = first_output + column + weight_row < outputs && channel < inputs;
            const T* source = taps + (i / (BN / 32) * direction + column * inputs);
            u32 target = to + (i * 32 + weight_row) * ROW + thread % 4 * 16;
            if (aligned) copy_async(target, source, valid);
            else copy_slowly(target, source, valid ? inputs - channel : 0);
        }
        copies_commit();
    };

    // Rows of shared memory that this lane addresses.
    u32 a_row[MF], b_row;
#pragma unroll
    for (int i = 0; i < MF; i++) {
        int pixel = warp_m + i * 16 + lane % 16;
        if (pixel >= pixels) pixel = 0;
        a_row[i] = (pixel / t.tile_w * halo_width + pixel % t.tile_w) * ROW + lane / 16 * 16;
    }
    b_row = (warp_n + lane % 8 + lane / 16 * 8) * ROW + lane / 8 % 2 * 16;

    float sums[MF][2 * NF][4] = {};
    copy(0);
    for (int step = 0; step < steps; step++) {
        copies_wait();
        __syncthreads();
        if (step + 1 < steps) copy(step + 1);
        u32 a_tile = images + (step / PARTS % 2) * halo * ROW;
        u32 b_tile = weights + (step % 2) * TAPS_AT_ONCE * BN * ROW;
#pragma unroll(P == F32 ? 1 : TAPS_AT_ONCE)
        for (int i = 0; i < TAPS_AT_ONCE; i++) {
            u32 shift = (TAPS == 9 ? (step % PARTS) * halo_width + i : 0) * ROW;
#pragma unroll
            for (int k = 0; k < 2; k++) {
                Fragment<P, 4> a[MF];
                u32 raw[4];
#pragma unroll
                for (int m = 0; m < MF; m++) {
                    load_matrices(raw, a_tile + a_row[m] + shift + k * 32);
                    a[m].set(raw);
                }
#pragma unroll
                for (int n = 0; n < NF; n++) {
                    Fragment<P, 4> b;
                    load_matrices(raw, b_tile + b_row + (i * BN + n * 16) * ROW + k * 32);
                    b.template set<true>(raw);
#pragma unroll
                    for (int m = 0; m < MF; m++) {
                        multiply<P, 4>(sums[m][2 * n], a[m], b, 0);
                        multiply<P, 4>(sums[m][2 * n + 1], a[m], b, 2);
                    }
                }
            }
        }
    }

    // Through shared memory, so that global memory is written in whole lines.
    constexpr int LINE = BN + RESULT_PADDING;
    float* tile = (float*)memory;
    __syncthreads();
#pragma unroll
    for (int m = 0; m < MF; m++)
#pragma unroll
        for (int n = 0; n < 2 * NF; n++) {
            float* to = tile + (warp_m + m * 16 + lane / 4) * LINE + warp_n + n * 8 + lane % 4 * 2;
            *(float2*)to = make_float2(sums[m][n][0], sums[m][n][1]);
            *(float2*)(to + 8 * LINE) = make_float2(sums[m][n][2], sums[m][n][3]);
        }
    __syncthreads();
    for (int unit = thread; unit < TILE * (BN / 8); unit += 256) {
        int pixel = unit / (BN / 8), n = first_output + unit % (BN / 8) * 8;
        int y = place.y + pixel / t.tile_w, at = place.x + pixel % t.tile_w;
        if (pixel >= pixels || y >= t.height || at >= t.width || n >= outputs) continue;
        i64 to = ((i64)(place.image * t.height + y) * t.width + at) * outputs + n;
        float values[8], more[8];
        load<8>(tile + pixel * LINE + unit % (BN / 8) * 8, values);
        if (outputs % 8 == 0) {
            if (bias) {
                load<8>(bias + n, more);
#pragma unroll
                for (int i = 0; i < 8; i++) values[i] += more[i];
            }
            write_eight(values, out, to, residual, relu, mask, out_f32);
        } else {
            for (int i = 0; i < 8 && n + i < outputs; i++) {
                float value = values[i];
                if (bias) value += bias[n + i];
                if (residual) value += to_float(residual[to + i]);
                if (relu) value = relu_of(value);
                if (mask && !(to_float(mask[to + i]) > 0.0f)) value = 0.0f;
                if (out_f32) ((float*)out)[to + i] = value;
                else ((T*)out)[to + i] = from_float<T>(value);
            }
        }
    }
}
