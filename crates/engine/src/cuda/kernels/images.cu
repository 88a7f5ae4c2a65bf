// Batches: of images that stay on the GPU, pixels moved, then values changed and brought to a range; of bytes
// that were copied there. Views of images: moved in the same way, what was computed of them moved back, and packed
// to bits.
//
// Defined by the compiler call: LONG_BLOCK, the threads of a block that takes a whole image; PACKED, the pixels of a value
// of packed masks; the names of Rescale.

typedef unsigned long long u64;

// `[x, y] = from + matrix · [to_x, to_y]` of image number `image`, which a double holds exactly; below 0 for
// zeros. Doubles, so that a pixel comes from where it does on the processor.
struct Pick {
    double image, from[2], matrix[4];
};

// An index beyond the border becomes the border's own.
__device__ __forceinline__ int within(int index, int length) { return min(max(index, 0), length - 1); }

// Annotations: the nearest pixel.
__device__ __forceinline__ float sampled(const unsigned char* image, double x, double y, int height, int width,
                                         int channels) {
    int column = within((int)floor(x + 0.5), width), row = within((int)floor(y + 0.5), height);
    return (float)image[((i64)row * width + column) * channels];
}

// Values: bilinear, which is the pixel itself where x and y are whole.
__device__ __forceinline__ float sampled(const float* image, double x, double y, int height, int width, int channels) {
    double left = floor(x), top = floor(y);
    float right_share = (float)(x - left), lower_share = (float)(y - top);
    float lines[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float* line = image + (i64)within((int)top + i, height) * width * channels;
        float a = line[(i64)within((int)left, width) * channels];
        float b = line[(i64)within((int)left + 1, width) * channels];
        lines[i] = a + (b - a) * right_share;
    }
    return lines[0] + (lines[1] - lines[0]) * lower_share;
}

template <class From>
__global__ void gather_images(const From* images, const Pick* picks, float* out, int height, int width, int channels,
                              int to_height, int to_width, i64 count) {
    i64 size = (i64)height * width * channels, to_size = (i64)to_height * to_width * channels;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (i64)gridDim.x * blockDim.x) {
        const Pick& pick = picks[i / to_size];
        float value = 0.0f;
        if (pick.image >= 0.0) {
            int channel = (int)(i % channels), to_x = (int)(i / channels % to_width);
            int to_y = (int)(i % to_size / channels / to_width);
            double x = pick.from[0] + pick.matrix[0] * to_x + pick.matrix[1] * to_y;
            double y = pick.from[1] + pick.matrix[2] * to_x + pick.matrix[3] * to_y;
            value = sampled(images + (i64)pick.image * size + channel, x, y, height, width, channels);
        }
        out[i] = value;
    }
}

struct Placement {
    double from[2], matrix[4];
};

__device__ __forceinline__ double2 source(const Placement& to, int x, int y) {
    return make_double2(to.from[0] + to.matrix[0] * x + to.matrix[1] * y,
                        to.from[1] + to.matrix[2] * x + to.matrix[3] * y);
}

__device__ __forceinline__ bool is_shown(double2 place, int height, int width) {
    return place.x >= -0.5 && place.x < width - 0.5 && place.y >= -0.5 && place.y < height - 0.5;
}

// mean[n, k] = before[n, k] + Σ_v outputs[n, v, k] moved back / views that show the pixel; views from `first` on of
// the `all` that an image has. `mean` may be `before`, which is read where `adds`.
__global__ void mean_of_views(const float* outputs, const Placement* back, const float* before, float* mean, int all,
                              int first, int views, int repeats, int height, int width, int channels, int adds,
                              i64 count) {
    i64 size = (i64)height * width * channels;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (i64)gridDim.x * blockDim.x) {
        i64 output = i / size, image = output / repeats, repeat = output % repeats;
        u32 within_row = (u32)(i % size % ((i64)width * channels));
        int channel = (int)(within_row % channels), x = (int)(within_row / channels);
        int y = (int)(i % size / ((i64)width * channels));
        float shown = 0.0f, sum = adds ? before[i] : 0.0f;
        for (int v = 0; v < all; v++) shown += is_shown(source(back[v], x, y), height, width) ? 1.0f : 0.0f;
        for (int v = 0; v < views; v++) {
            double2 place = source(back[first + v], x, y);
            if (!is_shown(place, height, width)) continue;
            const float* view = outputs + ((image * views + v) * repeats + repeat) * size + channel;
            sum += sampled(view, place.x, place.y, height, width, channels) / shown;
        }
        mean[i] = sum;
    }
}

// What is added to the logits of a mask's classes so that it has pixels: nothing where it has some, else so much that
// those within `near` of its highest logit are above that of no class (0 where there is one channel alone).
__global__ void raise_masks(const float* logits, float* raised, i64 pixels, int channels, float near) {
    __shared__ float of_warps[32];
    float highest = -3.402823466e38f;
    for (i64 pixel = threadIdx.x; pixel < pixels; pixel += blockDim.x) {
        const float* at = logits + (blockIdx.x * pixels + pixel) * channels;
        float largest = at[channels > 1];
        for (int c = 2; c < channels; c++) largest = fmaxf(largest, at[c]);
        highest = fmaxf(highest, channels > 1 ? largest - at[0] : largest);
    }
    highest = warp_max(highest);
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = highest;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < blockDim.x / 32; warp++) highest = fmaxf(highest, of_warps[warp]);
        raised[blockIdx.x] = highest > 0.0f ? 0.0f : near - highest;
    }
}

// PACKED pixels of a class as a whole number. A warp takes a run of 32 pixels of one mask; runs past the last pixel
// fill the mask's last word. `fault` becomes 1 where a logit is not finite.
__global__ void pack_masks(const float* logits, const float* raised, float* packed, float* fault, i64 masks, i64 runs,
                           i64 pixels, int channels) {
    constexpr int PARTS = 32 / PACKED;
    int lane = threadIdx.x % 32, classes = max(channels - 1, 1);
    i64 warp = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = (i64)gridDim.x * blockDim.x / 32;
    for (i64 unit = warp; unit < masks * runs; unit += warps) {
        i64 mask = unit / runs, run = unit % runs, pixel = run * 32 + lane;
        int best = 0;
        bool finite = true;
        if (pixel < pixels) {
            const float* at = logits + (mask * pixels + pixel) * channels;
            finite = fabsf(at[0]) <= 3.402823466e38f;
            int class_ = channels > 1;
            for (int c = 1; c < channels; c++) {
                finite = finite && fabsf(at[c]) <= 3.402823466e38f;
                if (at[c] > at[class_]) class_ = c;
            }
            float none = channels > 1 ? at[0] : 0.0f;
            if (at[class_] + raised[mask] > none) best = max(class_, 1);
        }
        if (!finite) *fault = 1.0f; // Whoever writes it writes the same.
        for (int class_ = 0; class_ < classes; class_++) {
            u32 bits = __ballot_sync(0xffffffffu, best == class_ + 1);
            if (lane < PARTS) {
                float part = (float)(bits >> PACKED * lane & (1u << PACKED) - 1);
                packed[((mask * classes + class_) * runs + run) * PARTS + lane] = part;
            }
        }
    }
}

__global__ void cast_bytes(const unsigned char* from, float* out, i64 count) {
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (i64)gridDim.x * blockDim.x)
        out[i] = (float)from[i];
}

struct Intensity {
    float gain, offset, noise, unused;
    u64 stream;
};

// A normal draw that belongs to a stream and a value's place: the finaliser of SplitMix64, then Box and Muller.
__device__ __forceinline__ float normal(u64 stream, i64 place) {
    u64 z = stream + (u64)(place + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    // 24 bits each: above 0 to 1, and 0 to below 1.
    float length = (float)((u32)(z >> 40) + 1) * 0x1p-24f, turn = (float)((u32)z >> 8) * 0x1p-24f;
    return sqrtf(-2.0f * logf(length)) * cospif(2.0f * turn);
}

struct Statistics {
    float low, high;
    double mean;
};

// Of `count` values, `stride` apart.
__device__ Statistics statistics(const float* values, i64 count, int stride) {
    float low = __int_as_float(0x7f800000), high = -low;
    double sum = 0.0;
    for (i64 i = threadIdx.x; i < count; i += LONG_BLOCK) {
        float value = values[i * stride];
        low = fminf(low, value), high = fmaxf(high, value), sum += value;
    }
    low = over_block(low, [](float a, float b) { return fminf(a, b); });
    high = over_block(high, [](float a, float b) { return fmaxf(a, b); });
    sum = over_block(sum, [](double a, double b) { return a + b; });
    return {low, high, sum / count};
}

// Contrast about an image's mean, brightness and noise in units of its range; then each channel to the range
// that training expects, in doubles as the processor does it. A block per image: what it sums up is known to it.
__global__ __launch_bounds__(LONG_BLOCK) void adjust_images(float* images, const Intensity* intensities, i64 pixels,
                                                      int channels, int rescale, float low, float high) {
    Intensity to = intensities[blockIdx.x];
    i64 size = pixels * channels;
    float* image = images + blockIdx.x * size;
    if (to.gain != 1.0f || to.offset != 0.0f || to.noise != 0.0f) {
        Statistics raw = statistics(image, size, 1);
        float range = raw.high - raw.low, mean = (float)raw.mean;
        float shift = mean - mean * to.gain + to.offset * range;
        for (i64 i = threadIdx.x; i < size; i += LONG_BLOCK) {
            float value = image[i] * to.gain + shift;
            if (to.noise > 0.0f) value += to.noise * range * normal(to.stream, i);
            image[i] = value;
        }
        __syncthreads();
    }
    for (int channel = 0; channel < channels; channel++) {
        float* plane = image + channel;
        double origin = low, unit = (double)high - low;
        if (rescale != RANGE) {
            Statistics found = statistics(plane, pixels, channels);
            origin = found.low, unit = (double)found.high - found.low;
            if (rescale == Z_SCORE) {
                double squares = 0.0;
                for (i64 i = threadIdx.x; i < pixels; i += LONG_BLOCK) {
                    double away = plane[i * channels] - found.mean;
                    squares += away * away;
                }
                squares = over_block(squares, [](double a, double b) { return a + b; });
                origin = found.mean, unit = sqrt(squares / pixels);
            }
        }
        double factor = unit == 0.0 ? 0.0 : 1.0 / unit;
        for (i64 i = threadIdx.x; i < pixels; i += LONG_BLOCK) {
            float value = (float)((plane[i * channels] - origin) * factor);
            plane[i * channels] = rescale == RANGE ? fminf(fmaxf(value, 0.0f), 1.0f) : value;
        }
    }
}
