// Sums in fixed parts that are added in order, so that results repeat; and what is made of rows:
// softmax, cross-entropy, lengths.

// out[segment, i] = factor · Σ_part partial[segment, part, i]; a block adds up COLUMNS of a segment's sums, in at most
// LINES lines, which the compiler call defines.
__global__ void sum_parts(const float* partial, float* out, int parts, i64 size, float factor) {
    __shared__ float sums[LINES][COLUMNS + 1];
    u32 blocks = (u32)((size + COLUMNS - 1) / COLUMNS);
    i64 segment = blockIdx.x / blocks, i = (i64)(blockIdx.x % blocks) * COLUMNS + threadIdx.x;
    const float* from = partial + segment * parts * size;
    float sum = 0.0f;
    if (i < size)
        for (int part = threadIdx.y; part < parts; part += blockDim.y) sum += from[part * size + i];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && i < size) {
        for (int k = 1; k < blockDim.y; k++) sum += sums[k][threadIdx.x];
        out[segment * size + i] = sum * factor;
    }
}

// A row of the table of `sum_many`.
struct Summed {
    const float* partial;
    float* out;
    i64 size;
    int parts;
    u32 first_block;
};

// out[i] = Σ_part partial[part, i] for many tensors at once; a block adds up SUMS sums of one of them, which the
// compiler call defines.
__global__ __launch_bounds__(256) void sum_many(const Summed* all, int rows) {
    static_assert(SUMS == 32 * 4, "a lane adds up four sums");
    __shared__ float4 sums[8][32];
    int low = 0, high = rows;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (all[middle].first_block <= blockIdx.x) low = middle;
        else high = middle;
    }
    Summed row = all[low];
    int lane = threadIdx.x % 32, line = threadIdx.x / 32;
    i64 i = ((i64)(blockIdx.x - row.first_block) * 32 + lane) * 4;
    int count = (int)min((i64)4, max((i64)0, row.size - i));
    float sum[4] = {};
    if (row.size % 4 == 0 && count == 4) {
#pragma unroll 4
        for (int part = line; part < row.parts; part += 8) {
            float4 more = *(const float4*)(row.partial + part * row.size + i);
            sum[0] += more.x, sum[1] += more.y, sum[2] += more.z, sum[3] += more.w;
        }
    } else {
        for (int part = line; part < row.parts; part += 8)
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (j < count) sum[j] += row.partial[part * row.size + i + j];
    }
    sums[line][lane] = make_float4(sum[0], sum[1], sum[2], sum[3]);
    __syncthreads();
    if (line > 0) return;
    for (int k = 1; k < 8; k++) {
        float4 more = sums[k][lane];
        sum[0] += more.x, sum[1] += more.y, sum[2] += more.z, sum[3] += more.w;
    }
#pragma unroll
    for (int j = 0; j < 4; j++)
        if (j < count) row.out[i + j] = sum[j];
}

// Column sums of dy [segments, rows, channels] in gridDim.x parts per segment (blockIdx.z), dy first
// kept only where y is positive and written to `out`; y, out and partial may each be absent.
template <class D, class T, int V>
__global__ __launch_bounds__(256) void mask_and_sum(const D* dy, const T* y, T* out, float* partial, i64 rows,
                                                    int channels) {
    __shared__ float sums[256][V];
    int groups = min(channels / V - (int)blockIdx.y * 256, 256), lines = 256 / groups;
    int group = threadIdx.x % groups, line = threadIdx.x / groups;
    int channel = (blockIdx.y * 256 + group) * V;
    i64 base = (i64)blockIdx.z * rows;
    float sum[V] = {};
    if (line < lines) {
        for (i64 row = (i64)blockIdx.x * lines + line; row < rows; row += (i64)gridDim.x * lines) {
            i64 at = (base + row) * channels + channel;
            float d[V];
            load<V>(dy + at, d);
            if (y) {
                float v[V];
                load<V>(y + at, v);
#pragma unroll
                for (int i = 0; i < V; i++) d[i] = v[i] > 0.0f ? d[i] : 0.0f;
            }
            if (out) store<V>(out + at, d);
#pragma unroll
            for (int i = 0; i < V; i++) sum[i] += d[i];
        }
    }
    if (!partial) return;
#pragma unroll
    for (int i = 0; i < V; i++) sums[threadIdx.x][i] = sum[i];
    __syncthreads();
    for (int unit = threadIdx.x; unit < groups * V; unit += 256) {
        float total = 0.0f;
        for (int k = 0; k < lines; k++) total += sums[k * groups + unit / V][unit % V];
        partial[((i64)blockIdx.z * gridDim.x + blockIdx.x) * channels + blockIdx.y * 256 * V + unit] = total;
    }
}

// BINARY_CROSS_ENTROPY and SQUARED_ERROR are defined by the compiler call; any other number is a plain sum.

// Sums of a function of x [rows, size] and y [rows / repeats, size] over parts of each row.
template <class T>
__global__ void row_parts(const T* x, const float* y, float* partial, int operation, i64 size, int repeats) {
    i64 row = blockIdx.x;
    const T* xs = x + row * size;
    const float* ys = y + row / repeats * size;
    float sum = 0.0f;
    for (i64 i = (i64)blockIdx.y * blockDim.x + threadIdx.x; i < size; i += (i64)gridDim.y * blockDim.x) {
        float v = to_float(xs[i]);
        if (operation == BINARY_CROSS_ENTROPY) v = fmaxf(v, 0.0f) + log1pf(expf(-fabsf(v))) - ys[i] * v;
        else if (operation == SQUARED_ERROR) v = (v - ys[i]) * (v - ys[i]);
        sum += v;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[row * gridDim.y + blockIdx.y] = sum;
}

// The gradient of row_parts towards x; `factor` includes the mean's divisor and a sign.
template <class T>
__global__ void row_parts_backward(const T* x, const float* y, const float* dy, T* dx, int operation, float factor,
                                   i64 rows, i64 size, int repeats) {
    i64 count = rows * size;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (i64)gridDim.x * blockDim.x) {
        Divided place = divided(i, size);
        i64 row = place.whole;
        float v = to_float(x[i]), t = y[quotient(row, repeats) * size + place.rest], slope;
        if (operation == BINARY_CROSS_ENTROPY) {
            float e = expf(-fabsf(v)), positive = 1.0f / (1.0f + e);
            slope = (v >= 0.0f ? positive : e * positive) - t;
        } else {
            slope = 2.0f * (v - t);
        }
        dx[i] = from_float<T>(dy[row] * factor * slope);
    }
}

// The kernels below give a row THREADS threads: a warp, or a long block where rows are long.
#define ROW()                                                                       \
    i64 row = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / THREADS;               \
    int lane = threadIdx.x % THREADS;                                               \
    if (row >= rows) return
#define ROW_BOUNDS __launch_bounds__(THREADS == 32 ? 256 : THREADS)

template <int THREADS> __device__ __forceinline__ float row_sum(float x) {
    if constexpr (THREADS == 32) return warp_sum(x);
    else return over_block(x, [](float a, float b) { return a + b; });
}

template <int THREADS> __device__ __forceinline__ float row_max(float x) {
    if constexpr (THREADS == 32) return warp_max(x);
    else return over_block(x, [](float a, float b) { return fmaxf(a, b); });
}

template <int THREADS>
__global__ ROW_BOUNDS void softmax(const float* logits, float* out, i64 rows, int classes) {
    ROW();
    const float* x = logits + row * classes;
    float largest = -__int_as_float(0x7f800000), total = 0.0f;
    for (int i = lane; i < classes; i += THREADS) largest = fmaxf(largest, x[i]);
    largest = row_max<THREADS>(largest);
    for (int i = lane; i < classes; i += THREADS) total += expf(x[i] - largest);
    total = row_sum<THREADS>(total);
    for (int i = lane; i < classes; i += THREADS) out[row * classes + i] = expf(x[i] - largest) / total;
}

// dx = y (dy − Σ y dy)
template <int THREADS>
__global__ ROW_BOUNDS void softmax_backward(const float* y, const float* dy, float* dx, i64 rows, int classes) {
    ROW();
    i64 at = row * classes;
    float along = 0.0f;
    for (int i = lane; i < classes; i += THREADS) along += y[at + i] * dy[at + i];
    along = row_sum<THREADS>(along);
    for (int i = lane; i < classes; i += THREADS) dx[at + i] = y[at + i] * (dy[at + i] - along);
}

template <int THREADS>
__global__ ROW_BOUNDS void cross_entropy(const float* logits, const float* targets, float* out, i64 rows, int classes) {
    ROW();
    const float *x = logits + row * classes, *t = targets + row * classes;
    float largest = -__int_as_float(0x7f800000), total = 0.0f, loss = 0.0f;
    for (int i = lane; i < classes; i += THREADS) largest = fmaxf(largest, x[i]);
    largest = row_max<THREADS>(largest);
    for (int i = lane; i < classes; i += THREADS) total += expf(x[i] - largest);
    float normaliser = largest + logf(row_sum<THREADS>(total));
    for (int i = lane; i < classes; i += THREADS) loss += t[i] == 0.0f ? 0.0f : t[i] * (normaliser - x[i]);
    loss = row_sum<THREADS>(loss);
    if (lane == 0) out[row] = loss;
}

// dx = dy (softmax · Σ t − t)
template <int THREADS>
__global__ ROW_BOUNDS void cross_entropy_backward(const float* logits, const float* targets, const float* dy, float* dx, i64 rows,
                                       int classes) {
    ROW();
    const float *x = logits + row * classes, *t = targets + row * classes;
    float largest = -__int_as_float(0x7f800000), total = 0.0f, mass = 0.0f;
    for (int i = lane; i < classes; i += THREADS) largest = fmaxf(largest, x[i]);
    largest = row_max<THREADS>(largest);
    for (int i = lane; i < classes; i += THREADS) {
        total += expf(x[i] - largest);
        mass += t[i];
    }
    total = row_sum<THREADS>(total);
    mass = row_sum<THREADS>(mass);
    for (int i = lane; i < classes; i += THREADS)
        dx[row * classes + i] = dy[row] * (expf(x[i] - largest) / total * mass - t[i]);
}

// LEAST_LENGTH is defined by the compiler call.
template <int THREADS>
__global__ ROW_BOUNDS void l2_normalise(const float* x, float* out, float* inverse, i64 rows, int features) {
    ROW();
    float square = 0.0f;
    for (int i = lane; i < features; i += THREADS) square += x[row * features + i] * x[row * features + i];
    float factor = 1.0f / fmaxf(sqrtf(row_sum<THREADS>(square)), LEAST_LENGTH);
    for (int i = lane; i < features; i += THREADS) out[row * features + i] = x[row * features + i] * factor;
    if (lane == 0) inverse[row] = factor;
}

// dx = (dy − y (y · dy)) / |x|
template <int THREADS>
__global__ ROW_BOUNDS void l2_normalise_backward(const float* y, const float* inverse, const float* dy, float* dx, i64 rows,
                                      int features) {
    ROW();
    i64 at = row * features;
    float along = 0.0f;
    for (int i = lane; i < features; i += THREADS) along += y[at + i] * dy[at + i];
    along = row_sum<THREADS>(along);
    for (int i = lane; i < features; i += THREADS) dx[at + i] = (dy[at + i] - y[at + i] * along) * inverse[row];
}
