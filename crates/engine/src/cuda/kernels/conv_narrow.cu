// Convolution with few channels in and OUTPUTS out at a time: each block keeps all weights in shared memory
// and walks over every `gridDim.x`-th tile of up to 256 pixels, 64 bytes of channels at a time, the next
// ones on their way while one is computed. Wide tiles and resident weights matter here because there is little to
// compute per pixel.

// ROW, MOST_HALO and OUTPUTS are defined by the compiler call.

template <int P, int TAPS>
__global__ __launch_bounds__(256, P == BF16 ? 3 : 2) void conv_narrow(
    const typename Element<P>::type* __restrict__ x, const typename Element<P>::type* __restrict__ weight,
    const float* __restrict__ bias, const typename Element<P>::type* __restrict__ residual,
    const typename Element<P>::type* __restrict__ mask, void* __restrict__ out, Tiling t, int inputs, int outputs,
    int relu, int flip, int out_f32) {
    typedef typename Element<P>::type T;
    static_assert(OUTPUTS == 4 * 8, "four lanes write eight channels each");
    constexpr int E = 16 / sizeof(T), CHUNK = 64 / sizeof(T), R = TAPS == 9 ? 1 : 0;
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ int coordinates[MOST_HALO];

    const int thread = threadIdx.x, lane = thread % 32, warp_m = thread / 32 * 32;
    const int halo_width = t.tile_w + 2 * R, halo = (t.tile_h + 2 * R) * halo_width, pixels = t.tile_h * t.tile_w;
    const int first_output = blockIdx.y * OUTPUTS, tiles = t.batch * t.tiles_y * t.tiles_x;
    const int chunks = (inputs + CHUNK - 1) / CHUNK;
    const bool aligned = inputs % E == 0;
    const u32 weights = shared_address(memory), images = weights + chunks * TAPS * OUTPUTS * ROW;

    for (int i = thread; i < halo; i += 256) coordinates[i] = (i / halo_width) << 16 | i % halo_width;
    for (int piece = thread; piece < chunks * TAPS * OUTPUTS * 4; piece += 256) {
        int row = piece / 4, n = first_output + row % OUTPUTS, tap = row / OUTPUTS % TAPS, chunk = row / (OUTPUTS * TAPS);
        int channel = chunk * CHUNK + piece % 4 * E;
        if (flip) tap = TAPS - 1 - tap;
        bool valid = n < outputs && channel < inputs;
        const T* source = weight + (((i64)tap * outputs + n) * inputs + channel);
        u32 target = weights + row * ROW + piece % 4 * 16;
        if (aligned) copy_async(target, source, valid);
        else copy_slowly(target, source, valid ? inputs - channel : 0);
    }
    __syncthreads();

    auto copy = [&](int tile, int chunk, int which) {
        Place place = tile_place(t, tile);
        const T* image = x + (i64)place.image * t.height * t.width * inputs;
        u32 to = images + which * halo * ROW;
        int channel = chunk * CHUNK + thread % 4 * E;
        for (int pixel = thread / 4; pixel < halo; pixel += 64) {
            int coordinate = coordinates[pixel];
            int y = place.y + (coordinate >> 16) - R, at = place.x + (coordinate & 0xffff) - R;
            bool valid = (u32)y < (u32)t.height && (u32)at < (u32)t.width && channel < inputs;
            const T* source = image + ((i64)(y * t.width + at) * inputs + channel);
            u32 target = to + pixel * ROW + thread % 4 * 16;
            if (aligned) copy_async(target, source, valid);
            else copy_slowly(target, source, valid ? inputs - channel : 0);
        }
        copies_commit();
    };

    u32 a_row[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int pixel = warp_m + i * 16 + lane % 16;
        if (pixel >= pixels) pixel = 0;
        a_row[i] = (pixel / t.tile_w * halo_width + pixel % t.tile_w) * ROW + lane / 16 * 16;
    }
    const u32 b_row = (lane % 8 + lane / 16 * 8) * ROW + lane / 8 % 2 * 16;
    // This lane writes eight channels of four pixels.
    const int n = first_output + lane % 4 * 8;
    float shifts[8] = {};
    if (bias)
        for (int i = 0; i < 8; i++) shifts[i] = n + i < outputs ? bias[n + i] : 0.0f;
    int written[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int pixel = warp_m + i * 8 + lane / 4;
        written[i] = pixel < pixels ? (pixel / t.tile_w) << 16 | pixel % t.tile_w : -1;
    }

    float sums[2][4][4] = {};
    int tile = blockIdx.x, chunk = 0, which = 0;
    if (tile < tiles) copy(tile, 0, 0);
    while (tile < tiles) {
        copies_wait();
        __syncthreads();
        const bool complete = chunk + 1 == chunks;
        const int next_tile = complete ? tile + gridDim.x : tile, next_chunk = complete ? 0 : chunk + 1;
        if (next_tile < tiles) copy(next_tile, next_chunk, which ^ 1);
        u32 a_tile = images + which * halo * ROW, b_tile = weights + chunk * TAPS * OUTPUTS * ROW;
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++) {
            u32 shift = (TAPS == 9 ? tap / 3 * halo_width + tap % 3 : 0) * ROW;
#pragma unroll
            for (int k = 0; k < 2; k++) {
                Fragment<P, 4> a[2], b[2];
                u32 raw[4];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    load_matrices(raw, a_tile + a_row[i] + shift + k * 32);
                    a[i].set(raw);
                    load_matrices(raw, b_tile + b_row + (tap * OUTPUTS + i * 16) * ROW + k * 32);
                    b[i].template set<true>(raw);
                }
#pragma unroll
                for (int m = 0; m < 2; m++)
#pragma unroll
                    for (int j = 0; j < 4; j++) multiply<P, 4>(sums[m][j], a[m], b[j / 2], j % 2 * 2);
            }
        }
        const int computed = tile;
        tile = next_tile, chunk = next_chunk, which ^= 1;
        if (!complete) continue;
        Place place = tile_place(t, computed);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float2 pairs[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float* sum = &sums[i / 2][j][i % 2 * 2];
                pairs[j] = make_float2(sum[0], sum[1]);
                sum[0] = sum[1] = 0.0f;
            }
            exchange(pairs, lane);
            int y = place.y + (written[i] >> 16), at = place.x + (written[i] & 0xffff);
            if (written[i] < 0 || y >= t.height || at >= t.width || n >= outputs) continue;
            i64 to = ((i64)(place.image * t.height + y) * t.width + at) * outputs + n;
            float values[8], more[8];
#pragma unroll
            for (int j = 0; j < 4; j++) values[2 * j] = pairs[j].x, values[2 * j + 1] = pairs[j].y;
#pragma unroll
            for (int j = 0; j < 8; j++) values[j] += shifts[j];
            if (outputs % 8 == 0) {
                if (residual) {
                    load<8>(residual + to, more);
#pragma unroll
                    for (int j = 0; j < 8; j++) values[j] += more[j];
                }
                if (relu) {
#pragma unroll
                    for (int j = 0; j < 8; j++) values[j] = relu_of(values[j]);
                }
                if (mask) {
                    load<8>(mask + to, more);
#pragma unroll
                    for (int j = 0; j < 8; j++) values[j] = more[j] > 0.0f ? values[j] : 0.0f;
                }
                if (out_f32) store<8>((float*)out + to, values);
                else store<8>((T*)out + to, values);
            } else {
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    if (n + j >= outputs) continue;
                    float value = values[j];
                    if (residual) value += to_float(residual[to + j]);
                    if (relu) value = relu_of(value);
                    if (mask && !(to_float(mask[to + j]) > 0.0f)) value = 0.0f;
                    if (out_f32) ((float*)out)[to + j] = value;
                    else ((T*)out)[to + j] = from_float<T>(value);
                }
            }
        }
    }
}
