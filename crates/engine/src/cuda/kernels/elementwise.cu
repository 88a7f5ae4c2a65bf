// Operations value by value, copies between layouts, and gathering of rows.

// ADD and the operations' other numbers are defined by the compiler call.

__device__ __forceinline__ float sigmoid_of(float x) {
    float e = expf(-fabsf(x)), positive = 1.0f / (1.0f + e);
    return x >= 0.0f ? positive : e * positive;
}

// Neighbouring threads take neighbouring groups of eight; the last group may be shorter.
#define FOR_EIGHT(count)                                                                        \
    for (i64 first = ((i64)blockIdx.x * blockDim.x + threadIdx.x) * 8; first < count;           \
         first += (i64)gridDim.x * blockDim.x * 8)

template <class T> __device__ __forceinline__ void load_some(const T* from, i64 first, i64 count, float* values) {
    if (first + 8 <= count) {
        load<8>(from + first, values);
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++) values[i] = first + i < count ? to_float(from[first + i]) : 0.0f;
    }
}

template <class T> __device__ __forceinline__ void store_some(T* to, i64 first, i64 count, const float* values) {
    if (first + 8 <= count) {
        store<8>(to + first, values);
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (first + i < count) to[first + i] = from_float<T>(values[i]);
    }
}

// The output may be one of the inputs.
template <class T> __global__ void binary(const T* a, const T* b, T* out, int operation, i64 count) {
    FOR_EIGHT(count) {
        float x[8], y[8];
        load_some(a, first, count, x);
        load_some(b, first, count, y);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            switch (operation) {
            case ADD: x[i] += y[i]; break;
            case SUB: x[i] -= y[i]; break;
            case MUL: x[i] *= y[i]; break;
            case DIV: x[i] /= y[i]; break;
            case NEGATIVE_MUL: x[i] *= -y[i]; break;
            }
        }
        store_some(out, first, count, x);
    }
}

template <class T> __global__ void unary(const T* in, T* out, int operation, float parameter, i64 count) {
    FOR_EIGHT(count) {
        float x[8];
        load_some(in, first, count, x);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            switch (operation) {
            case SCALE: x[i] *= parameter; break;
            case ADD_SCALAR: x[i] += parameter; break;
            case EXP: x[i] = expf(x[i]); break;
            case LN: x[i] = logf(x[i]); break;
            case SIGMOID: x[i] = sigmoid_of(x[i]); break;
            case RELU: x[i] = relu_of(x[i]); break;
            case EXCEEDS: x[i] = fabsf(x[i]) > parameter ? 1.0f : 0.0f; break;
            }
        }
        store_some(out, first, count, x);
    }
}

// dx = dy · f'(x), from x or from y = f(x), whichever the derivative is a function of.
template <class T>
__global__ void unary_backward(const T* x_or_y, const T* dy, T* dx, int operation, float parameter, i64 count) {
    FOR_EIGHT(count) {
        float v[8], d[8];
        load_some(x_or_y, first, count, v);
        load_some(dy, first, count, d);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            switch (operation) {
            case SCALE: d[i] *= parameter; break;
            case ADD_SCALAR: break;
            case EXP: d[i] *= v[i]; break;
            case LN: d[i] /= v[i]; break;
            case SIGMOID: d[i] *= v[i] * (1.0f - v[i]); break;
            case RELU: d[i] = v[i] > 0.0f ? d[i] : 0.0f; break;
            }
        }
        store_some(dx, first, count, d);
    }
}

template <class T> __global__ void fill(T* out, float value, i64 count) {
    float values[8];
#pragma unroll
    for (int i = 0; i < 8; i++) values[i] = value;
    FOR_EIGHT(count) store_some(out, first, count, values);
}

template <class From, class To> __global__ void cast(const From* from, To* to, i64 count) {
    FOR_EIGHT(count) {
        float values[8];
        load_some(from, first, count, values);
        store_some(to, first, count, values);
    }
}

// out[row, i] = values[row] · factor: what a sum's or a mean's gradient is.
template <class T>
__global__ void broadcast_rows(const float* values, T* out, float factor, i64 rows, i64 size) {
    i64 count = rows * size;
    FOR_EIGHT(count) {
        float v[8];
#pragma unroll
        for (int i = 0; i < 8; i++) v[i] = first + i < count ? values[quotient(first + i, size)] * factor : 0.0f;
        store_some(out, first, count, v);
    }
}

// Some channels of each pixel, from one place to another.
template <class T, int V>
__global__ void copy_channels(const T* from, T* to, i64 pixels, int count, int from_width, int from_at, int to_width,
                              int to_at) {
    i64 groups = count / V, units = pixels * groups;
    for (i64 unit = (i64)blockIdx.x * blockDim.x + threadIdx.x; unit < units; unit += (i64)gridDim.x * blockDim.x) {
        Divided place = divided(unit, groups);
        i64 pixel = place.whole;
        int channel = (int)place.rest * V;
        float values[V];
        load<V>(from + pixel * from_width + from_at + channel, values);
        store<V>(to + pixel * to_width + to_at + channel, values);
    }
}

// out[i] = in[indices[i]], rows of `size` values.
template <class T> __global__ void gather_rows(const T* in, const u32* indices, T* out, i64 rows, i64 size) {
    i64 count = rows * size;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (i64)gridDim.x * blockDim.x)
    {
        Divided place = divided(i, size);
        out[i] = in[(i64)indices[place.whole] * size + place.rest];
    }
}

// Each row of the input collects the gradients of the rows that were taken from it, in their order.
template <class T>
__global__ void scatter_rows(const T* dy, const u32* indices, T* dx, int taken, i64 rows, i64 size) {
    i64 count = rows * size;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (i64)gridDim.x * blockDim.x) {
        Divided place = divided(i, size);
        u32 row = (u32)place.whole;
        float sum = 0.0f;
        for (int k = 0; k < taken; k++)
            if (indices[k] == row) sum += to_float(dy[(i64)k * size + place.rest]);
        dx[i] = from_float<T>(sum);
    }
}

__global__ void transpose(const float* in, float* out, int rows, int columns) {
    __shared__ float tile[SQUARE][SQUARE + 1];
    int column = blockIdx.x * SQUARE + threadIdx.x, row = blockIdx.y * SQUARE + threadIdx.y;
    for (int i = 0; i < SQUARE; i += LINES)
        if (row + i < rows && column < columns) tile[threadIdx.y + i][threadIdx.x] = in[(i64)(row + i) * columns + column];
    __syncthreads();
    int to_column = blockIdx.y * SQUARE + threadIdx.x, to_row = blockIdx.x * SQUARE + threadIdx.y;
    for (int i = 0; i < SQUARE; i += LINES)
        if (to_row + i < columns && to_column < rows) out[(i64)(to_row + i) * rows + to_column] = tile[threadIdx.x][threadIdx.y + i];
}

// y[n·K + k, pixel, c] = x[n, pixel, c] + bias[n·K + k, c]
template <class T, int V>
__global__ void sample_bias(const T* x, const float* bias, T* out, i64 samples, int repeats, i64 pixels, int channels,
                            int relu) {
    i64 groups = channels / V, size = pixels * groups, units = samples * size;
    for (i64 unit = (i64)blockIdx.x * blockDim.x + threadIdx.x; unit < units; unit += (i64)gridDim.x * blockDim.x) {
        Divided place = divided(unit, size);
        i64 sample = place.whole, within = place.rest;
        int channel = (int)divided(within, groups).rest * V;
        float values[V], more[V];
        load<V>(x + (quotient(sample, repeats) * size + within) * V, values);
        load<V>(bias + sample * channels + channel, more);
#pragma unroll
        for (int i = 0; i < V; i++) {
            values[i] += more[i];
            if (relu) values[i] = relu_of(values[i]);
        }
        store<V>(out + unit * V, values);
    }
}

// out[n, pixel, c] = rows[n, c] · factor
template <class T, int V>
__global__ void broadcast_pixels(const float* rows, T* out, float factor, i64 batch, i64 pixels, int channels) {
    i64 groups = channels / V, size = pixels * groups, units = batch * size;
    for (i64 unit = (i64)blockIdx.x * blockDim.x + threadIdx.x; unit < units; unit += (i64)gridDim.x * blockDim.x) {
        float values[V];
        load<V>(rows + quotient(unit, size) * channels + divided(unit, groups).rest * V, values);
#pragma unroll
        for (int i = 0; i < V; i++) values[i] *= factor;
        store<V>(out + unit * V, values);
    }
}

// dx[n] = Σ_k dy[n·K + k]
template <class T> __global__ void sum_repeats(const T* dy, T* dx, i64 batch, int repeats, i64 size) {
    i64 count = batch * size;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (i64)gridDim.x * blockDim.x) {
        Divided place = divided(i, size);
        float sum = 0.0f;
        for (int k = 0; k < repeats; k++) sum += to_float(dy[(place.whole * repeats + k) * size + place.rest]);
        dx[i] = from_float<T>(sum);
    }
}

// Where an output index lies between input indices.
struct Between {
    int first, second;
    float weight;
};

__device__ __forceinline__ Between between(int i, int from, int to, int aligned) {
    float position;
    if (aligned) position = to == 1 ? 0.0f : i * ((float)(from - 1) / (to - 1));
    else position = fmaxf((i + 0.5f) * ((float)from / to) - 0.5f, 0.0f);
    int first = min((int)position, from - 1);
    return Between{first, min(first + 1, from - 1), position - first};
}

// With the `more` channels of `beside` after its own.
template <class T, int V>
__global__ void resize(const T* x, const T* beside, T* out, int batch, int h, int w, int oh, int ow, int channels,
                       int aligned, int more) {
    i64 groups = (channels + more) / V, units = (i64)batch * oh * ow * groups;
    for (i64 unit = (i64)blockIdx.x * blockDim.x + threadIdx.x; unit < units; unit += (i64)gridDim.x * blockDim.x) {
        Divided by_channel = divided(unit, groups), by_column = divided(by_channel.whole, ow);
        Divided by_line = divided(by_column.whole, oh);
        int channel = (int)by_channel.rest * V, at = (int)by_column.rest;
        int line = (int)by_line.rest, image = (int)by_line.whole;
        float sum[V] = {};
        if (channel >= channels) {
            load<V>(beside + by_channel.whole * more + channel - channels, sum);
        } else {
            Between rows = between(line, h, oh, aligned), columns = between(at, w, ow, aligned);
#pragma unroll
            for (int corner = 0; corner < 4; corner++) {
                int y = corner / 2 ? rows.second : rows.first, c = corner % 2 ? columns.second : columns.first;
                float weight = (corner / 2 ? rows.weight : 1.0f - rows.weight) *
                               (corner % 2 ? columns.weight : 1.0f - columns.weight);
                float values[V];
                load<V>(x + (((i64)image * h + y) * w + c) * channels + channel, values);
#pragma unroll
                for (int i = 0; i < V; i++) sum[i] += values[i] * weight;
            }
        }
        store<V>(out + unit * V, sum);
    }
}

// The weight with which input `i` enters output `o`.
__device__ __forceinline__ float share(int i, int o, int from, int to, int aligned) {
    Between b = between(o, from, to, aligned);
    return (b.first == i ? 1.0f - b.weight : 0.0f) + (b.second == i ? b.weight : 0.0f);
}

// The outputs that input `i` may enter: those less than one input away, and at the ends all beyond.
__device__ __forceinline__ int2 reach(int i, int from, int to, int aligned) {
    float factor = aligned ? (from > 1 ? (float)(to - 1) / (from - 1) : (float)to) : (float)to / from;
    float offset = aligned ? 0.0f : 0.5f;
    int low = (int)ceilf((i - 1 + offset) * factor - offset - 1e-3f);
    int high = (int)floorf((i + 1 + offset) * factor - offset + 1e-3f);
    return make_int2(i == 0 ? 0 : max(low, 0), i == from - 1 ? to - 1 : min(high, to - 1));
}

// Reads channels `dy_first` on of the `dy_width` of a gradient, adds those from `before_first` on of `before`, and drops
// what is not positive in `mask`.
template <class T, int V>
__global__ void resize_backward(const T* dy, const T* before, const T* mask, T* dx, int batch, int h, int w, int oh,
                                int ow, int channels, int aligned, int dy_width, int dy_first, int before_width,
                                int before_first) {
    i64 groups = channels / V, units = (i64)batch * h * w * groups;
    for (i64 unit = (i64)blockIdx.x * blockDim.x + threadIdx.x; unit < units; unit += (i64)gridDim.x * blockDim.x) {
        Divided by_channel = divided(unit, groups), by_column = divided(by_channel.whole, w);
        Divided by_line = divided(by_column.whole, h);
        int channel = (int)by_channel.rest * V, at = (int)by_column.rest;
        int line = (int)by_line.rest, image = (int)by_line.whole;
        int2 rows = reach(line, h, oh, aligned), columns = reach(at, w, ow, aligned);
        float sum[V] = {}, values[V];
        for (int y = rows.x; y <= rows.y; y++) {
            float down = share(line, y, h, oh, aligned);
            if (down == 0.0f) continue;
            for (int c = columns.x; c <= columns.y; c++) {
                float weight = down * share(at, c, w, ow, aligned);
                if (weight == 0.0f) continue;
                load<V>(dy + (((i64)image * oh + y) * ow + c) * dy_width + dy_first + channel, values);
#pragma unroll
                for (int i = 0; i < V; i++) sum[i] += values[i] * weight;
            }
        }
        if (before) {
            load<V>(before + by_channel.whole * before_width + before_first + channel, values);
#pragma unroll
            for (int i = 0; i < V; i++) sum[i] += values[i];
        }
        if (mask) {
            load<V>(mask + unit * V, values);
#pragma unroll
            for (int i = 0; i < V; i++) sum[i] = values[i] > 0.0f ? sum[i] : 0.0f;
        }
        store<V>(dx + unit * V, sum);
    }
}
