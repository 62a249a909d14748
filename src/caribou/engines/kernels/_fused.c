/* The compiled loops of caribou.engines.kernels. Plain C: no Python, no state, no allocation, no randomness.
 *
 * Bits, not only values, are the same on every machine: only +, -, *, / and sqrt in IEEE double precision, each in a fixed order
 * per entry, without contraction (-ffp-contract=off). So a retry on another worker repeats a round exactly. The variants of a
 * function (AVX-512, AVX2, plain) are chosen at run time by the processor. They differ in how many columns they add at a time,
 * never in the order in which one column is added. -DPLAIN builds the plain one alone, or that of the compiler's own -m flags.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) && !defined(PLAIN)
#define NARROW __attribute__((target_clones("avx2", "default")))
#if __GNUC__ >= 12
#define HAS_512 __builtin_cpu_supports("x86-64-v4")
#define IN_512 __attribute__((target("arch=x86-64-v4")))
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define CLONES NARROW
#endif
#else
#define NARROW
#define CLONES
#endif
#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#define PREFETCH(p) __builtin_prefetch((p), 0, 3)
#define EXPORT __attribute__((visibility("default")))
#else
#define INLINE static inline
#define PREFETCH(p) ((void)0)
#define EXPORT __declspec(dllexport)
#endif

#define AHEAD 32      /* edges between a prefetch and its use: rows of one cache line */
#define AHEAD_WIDE 20 /* the same for two lines: about as many bytes on their way */
#define GROUP 128     /* rows whose sums are made together, one pass per `wide` columns: [GROUP, d] stays in the second-level cache */
#define WIDE 32       /* columns whose sums stay in registers: sixteen of 128 or 256 bits, */
#define WIDE_512 64   /* thirty-two of 512 bits */
#define WHOLE 62      /* shift of a state in one array: no row is looked up */
#define CHUNK 512     /* pairs of Gaussians per step: radii stay in the first-level cache */
#define SMALLEST_RADIUS 0x1p-20 /* of a pair of Gaussians that double precision may decide: below, the logarithm has lost its digits, */
#define LARGEST_RADIUS 9.75     /* and above, 128 bits of u have */
#define ERROR_UNIT 0x1p-47      /* the bound of Theorem 11: the radius r gives an error of at most 2^-47 (0.6 r + 0.15/r) */
#define ERROR_OF_RADIUS 0.6
#define ERROR_OF_INVERSE 0.15

int32_t EXPORT caribou_version(void) { return 5; }

/* bits of the registers in which rows are added, 0 if the compiler chose; for the eye only */
int32_t EXPORT caribou_register_bits(void) {
#if defined(HAS_512)
    if (HAS_512) return 512;
#endif
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) && !defined(PLAIN)
    return __builtin_cpu_supports("avx2") ? 256 : 128;
#else
    return 0;
#endif
}

typedef struct {
    int64_t rows;             /* rows of this call */
    const int64_t *starts;    /* [rows + 1], into columns */
    const int32_t *columns;   /* neighbours, ascending inside a row */
    int64_t end;              /* entries of columns that may be read ahead */
    const float *const *shards; /* y = S^(-1/2) X in shards of 2^shift rows */
    int32_t shift;
    int32_t d;
} Product;

typedef struct {
    const int64_t *degrees;   /* [rows] */
    const float *own;         /* [rows, d], y of these rows: the self loop */
    const uint8_t *ownless;   /* [rows], 1: no self loop, no mean, no residual, and not in the sum; or NULL */
    int64_t floor;            /* F */
    double weight;            /* C_L alpha_1 */
    const double *mean;       /* [d], C_L alpha_2 Mean(X), or NULL */
    double beta;
    const float *x0;          /* [rows, d] or NULL */
    int32_t inner;            /* project before the noise (node level) */
    int32_t last;             /* write x instead of a x */
    const double *noise;      /* [rows, d] on the grid, or NULL */
    double grid, per_grid;    /* spacing and its inverse, powers of two */
    float *out;               /* [rows, d] */
    double *sum;              /* [d], sum of the new rows */
} Rest;

INLINE const float *row_of(const Product *p, int64_t j, int d) {
    if (p->shift == WHOLE) return p->shards[0] + j * (int64_t)d;
    return p->shards[j >> p->shift] + (j & (((int64_t)1 << p->shift) - 1)) * (int64_t)d;
}

/* only the columns of this pass: fetching a long row whole keeps more lines on their way than the processor can */
INLINE void fetch(const Product *p, int64_t e, int d, int at, int width) {
    if (e < p->end) {
        const char *row = (const char *)(row_of(p, p->columns[e], d) + at);
        for (int b = 0; b < 4 * width; b += 64) PREFETCH(row + b);
    }
}

#if defined(__GNUC__)
/* name: columns at .. at + vectors * LANES of row i; their sums stay in registers, whatever the number of edges */
#define ADD_IN_REGISTERS(name, LANES) \
    typedef double Lanes##LANES __attribute__((vector_size(8 * LANES), aligned(8))); \
    typedef float Singles##LANES __attribute__((vector_size(4 * LANES), aligned(4))); \
    INLINE void name(const Product *p, int64_t i, int d, int at, const int vectors, double *acc) { \
        Lanes##LANES s[8]; \
        _Pragma("GCC unroll 8") for (int f = 0; f < vectors; f++) s[f] = *(const Lanes##LANES *)(acc + LANES * f); \
        const int64_t end = p->starts[i + 1]; \
        for (int64_t e = p->starts[i]; e < end; e++) { \
            fetch(p, e + (LANES * vectors > 16 ? AHEAD_WIDE : AHEAD), d, at, LANES * vectors); \
            const float *row = row_of(p, p->columns[e], d) + at; \
            _Pragma("GCC unroll 8") for (int f = 0; f < vectors; f++) \
                s[f] += __builtin_convertvector(*(const Singles##LANES *)(row + LANES * f), Lanes##LANES); \
        } \
        _Pragma("GCC unroll 8") for (int f = 0; f < vectors; f++) *(Lanes##LANES *)(acc + LANES * f) = s[f]; \
    }
ADD_IN_REGISTERS(add_fours, 4)
ADD_IN_REGISTERS(add_eights, 8)
#endif

INLINE void add_columns(const Product *p, int64_t i, int d, int at, int width, double *sum) {
    for (int64_t e = p->starts[i]; e < p->starts[i + 1]; e++) {
        fetch(p, e + AHEAD_WIDE, d, at, width);
        const float *row = row_of(p, p->columns[e], d) + at;
        for (int k = 0; k < width; k++) sum[k] += (double)row[k];
    }
}

/* 16, 32 or 64 columns; wide: how many columns the registers hold, a constant of every variant */
INLINE void add_pass(const Product *p, int64_t first, int64_t last, int d, int at, const int width, const int wide, double *acc) {
    for (int64_t i = first; i < last; i++) {
        double *sum = acc + (i - first) * d + at;
#if defined(__GNUC__)
        if (wide == WIDE_512)
            add_eights(p, i, d, at, width / 8, sum);
        else
            add_fours(p, i, d, at, width / 4, sum);
#else
        add_columns(p, i, d, at, width, sum);
#endif
    }
}

/* acc += sums of the rows y_j over the neighbours j of rows first .. last - 1, in ascending order of j for every column */
INLINE void add_group(const Product *p, int64_t first, int64_t last, int d, const int wide, double *acc) {
    int at = 0;
    for (; at + wide <= d; at += wide) add_pass(p, first, last, d, at, wide, wide, acc);
    if (wide > 32 && at + 32 <= d) {
        add_pass(p, first, last, d, at, 32, wide, acc);
        at += 32;
    }
    if (d - at == 16)
        add_pass(p, first, last, d, at, 16, wide, acc);
    else if (at < d)
        for (int64_t i = first; i < last; i++) add_columns(p, i, d, at, d - at, acc + (i - first) * d + at);
}

INLINE double length(const double *x, int d) { /* four partial sums: a fixed order that fits both widths */
    double q[4] = {0, 0, 0, 0};
    int k = 0;
    for (; k + 4 <= d; k += 4)
        for (int l = 0; l < 4; l++) q[l] += x[k + l] * x[k + l];
    for (; k < d; k++) q[0] += x[k] * x[k];
    return sqrt((q[0] + q[1]) + (q[2] + q[3]));
}

INLINE void project(double *x, int d) {
    const double r = length(x, d);
    if (r > 1)
        for (int k = 0; k < d; k++) x[k] /= r;
}

INLINE double rounded(double x) { /* to the nearest integer, ties to even; from 2^52 on every number is an integer */
    const double big = copysign(4503599627370496.0, x);
    return fabs(x) < 4503599627370496.0 ? (x + big) - big : x;
}

/* the rest of a round for one row: mean, residual, inner projection, noise on the grid, projection */
INLINE void finish_row(const Rest *r, int64_t i, int d, double *x) {
    const double degree = (double)(r->degrees[i] > r->floor ? r->degrees[i] : r->floor);
    const double a = 1 / sqrt(degree + 1);
    const double w = r->weight * a;
    const float *own = r->own + i * d;
    const int has_own = !(r->ownless && r->ownless[i]);
    if (has_own)
        for (int k = 0; k < d; k++) x[k] = (x[k] + (double)own[k]) * w;
    else
        for (int k = 0; k < d; k++) x[k] *= w;
    if (r->mean && has_own)
        for (int k = 0; k < d; k++) x[k] += r->mean[k];
    if (r->x0 && has_own) {
        const float *x0 = r->x0 + i * d;
        for (int k = 0; k < d; k++) x[k] += r->beta * (double)x0[k];
    }
    if (r->inner) project(x, d);
    if (r->noise) {
        const double *z = r->noise + i * d;
        for (int k = 0; k < d; k++) x[k] = rounded(x[k] * r->per_grid) * r->grid + z[k];
    }
    project(x, d);
    if (r->sum && has_own)
        for (int k = 0; k < d; k++) r->sum[k] += x[k];
    const double scale = r->last ? 1 : a;
    float *out = r->out + i * d;
    for (int k = 0; k < d; k++) out[k] = (float)(x[k] * scale);
}

INLINE void round_rows(const Product *p, const Rest *r, int d, const int wide, double *acc) {
    for (int64_t first = 0; first < p->rows; first += GROUP) {
        const int64_t last = first + GROUP < p->rows ? first + GROUP : p->rows;
        memset(acc, 0, (size_t)((last - first) * d) * sizeof *acc);
        add_group(p, first, last, d, wide, acc);
        for (int64_t i = first; i < last; i++) finish_row(r, i, d, acc + (i - first) * d);
    }
}

INLINE void round_of(const Product *p, const Rest *r, const int wide, double *scratch) {
    switch (p->d) {
    case 16: round_rows(p, r, 16, wide, scratch); break;
    case 32: round_rows(p, r, 32, wide, scratch); break;
    case 64: round_rows(p, r, 64, wide, scratch); break;
    default: round_rows(p, r, p->d, wide, scratch);
    }
}

INLINE void add_rows(const Product *p, int d, const int wide, double *acc) {
    for (int64_t first = 0; first < p->rows; first += GROUP)
        add_group(p, first, first + GROUP < p->rows ? first + GROUP : p->rows, d, wide, acc + first * d);
}

INLINE void add_of(const Product *p, const int wide, double *acc) {
    switch (p->d) {
    case 16: add_rows(p, 16, wide, acc); break;
    case 32: add_rows(p, 32, wide, acc); break;
    case 64: add_rows(p, 64, wide, acc); break;
    default: add_rows(p, p->d, wide, acc);
    }
}

NARROW static void round_narrow(const Product *p, const Rest *r, double *scratch) { round_of(p, r, WIDE, scratch); }
NARROW static void add_narrow(const Product *p, double *acc) { add_of(p, WIDE, acc); }
#if defined(HAS_512)
IN_512 static void round_512(const Product *p, const Rest *r, double *scratch) { round_of(p, r, WIDE_512, scratch); }
IN_512 static void add_512(const Product *p, double *acc) { add_of(p, WIDE_512, acc); }
#endif

/* one round for consecutive rows, everything in one pass; scratch: [GROUP, d] */
EXPORT void caribou_round(const Product *p, const Rest *r, double *scratch) {
#if defined(HAS_512)
    if (HAS_512) {
        round_512(p, r, scratch);
        return;
    }
#endif
    round_narrow(p, r, scratch);
}

/* acc [rows, d] += the product with the columns of one tile: the first half of a round that takes several tiles */
EXPORT void caribou_add(const Product *p, double *acc) {
#if defined(HAS_512)
    if (HAS_512) {
        add_512(p, acc);
        return;
    }
#endif
    add_narrow(p, acc);
}

INLINE void finish_rows(const Rest *r, int64_t rows, int d, double *acc) {
    for (int64_t i = 0; i < rows; i++) finish_row(r, i, d, acc + i * d);
}

/* the second half: acc is overwritten */
CLONES EXPORT void caribou_finish(const Rest *r, int64_t rows, int32_t d, double *acc) {
    switch (d) {
    case 16: finish_rows(r, rows, 16, acc); break;
    case 32: finish_rows(r, rows, 32, acc); break;
    case 64: finish_rows(r, rows, 64, acc); break;
    default: finish_rows(r, rows, d, acc);
    }
}

/* ---- uniform words to Gaussians ------------------------------------------------------------------------------------------ */

INLINE double of_bits(uint64_t b) {
    double x;
    memcpy(&x, &b, 8);
    return x;
}

INLINE uint64_t bits_of(double x) {
    uint64_t b;
    memcpy(&b, &x, 8);
    return b;
}

INLINE double to_double(uint64_t w) { /* correctly rounded: two exact halves and one addition */
    const double high = of_bits((w >> 32) | 0x4530000000000000u) - 19342813113834066795298816.0; /* 2^84 */
    const double low = of_bits((w & 0xffffffffu) | 0x4330000000000000u) - 4503599627370496.0;    /* 2^52 */
    return high + low;
}

/* -log(u), u in (0, 1]: u = 2^e m with m in [1/sqrt 2, sqrt 2); log m = 2 artanh(s), s = (m - 1)/(m + 1) (as in fdlibm) */
INLINE double minus_log(double u) {
    uint64_t b = bits_of(u) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    const double e = of_bits((b >> 52) | 0x4330000000000000u) - (4503599627370496.0 + 1023.0);
    const double m = of_bits((b & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu);
    const double f = m - 1, s = f / (2 + f), z = s * s, h = 0.5 * f * f;
    const double t = z * (6.666666666666735130e-01 + z * (3.999999999940941908e-01 + z * (2.857142874366239149e-01 +
        z * (2.222219843214978396e-01 + z * (1.818357216161805012e-01 + z * (1.531383769920937332e-01 +
        z * 1.479819860511658591e-01))))));
    return -(e * 6.93147180369123816490e-01 - ((h - (s * (h + t) + e * 1.90821492927058770002e-10)) - f));
}

/* cos and sin of 2 pi w 2^-64: the two upper bits are the quadrant (after adding an eighth of a turn), the rest is exact */
INLINE void turn(uint64_t w, double *c, double *s) {
    const uint64_t v = w + 0x2000000000000000u;
    const uint64_t q = v >> 62;
    const uint64_t part = v & 0x3fffffffffffffffu;
    const double x = (to_double(part) - 2305843009213693952.0) * (6.283185307179586477 * 0x1p-64);
    const double z = x * x;
    const double sn = x + x * z * (-1.66666666666666324348e-01 + z * (8.33333333332248946124e-03 +
        z * (-1.98412698298579493134e-04 + z * (2.75573137070700676789e-06 + z * (-2.50507602534068634195e-08 +
        z * 1.58969099521155010221e-10)))));
    const double r = z * z * (4.16666666666666019037e-02 + z * (-1.38888888888741095749e-03 + z * (2.48015872894767294178e-05 +
        z * (-2.75573143513906633035e-07 + z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));
    const double hz = 0.5 * z, top = 1 - hz;
    const double cs = top + (((1 - top) - hz) + r);
    const uint64_t odd = (uint64_t)0 - (q & 1);
    const uint64_t first = (bits_of(cs) & ~odd) | (bits_of(sn) & odd);
    const uint64_t second = (bits_of(sn) & ~odd) | (bits_of(cs) & odd);
    *c = of_bits(first ^ ((((q + 1) >> 1) & 1) << 63));
    *s = of_bits(second ^ ((q >> 1) << 63));
}

/* x, a multiple of the grid in units of it, to the nearest one; NaN where an error of at most `error` could choose another */
INLINE double decided(double x, double error, double grid) {
    const double nearest = rounded(x);
    return fabs(x - nearest) < 0.5 - error ? nearest * grid : NAN;
}

/* 2 pairs standard Gaussians, times std, to multiples of the grid. words: [3 pairs]. NaN where double precision does not decide
 * which multiple is the nearest; returns whether there is one. The bound is that of `kernels.gaussian`.
 * Short loops one after the other: then the processor works on several numbers at a time, and what they share is in the cache. */
CLONES EXPORT int64_t caribou_gaussian(const uint64_t *restrict words, int64_t pairs, double std, double grid, double per_grid,
                                       double *restrict out) {
    const double tiny = 0x1p-64, unit = std * per_grid * ERROR_UNIT;
    double radius[CHUNK], error[CHUNK];
    int64_t doubtful = 0;
    for (int64_t first = 0; first < pairs; first += CHUNK) {
        const int64_t count = first + CHUNK < pairs ? CHUNK : pairs - first;
        const uint64_t *restrict const high = words + first, *restrict const low = high + pairs, *restrict const angle = low + pairs;
        double *restrict const cosines = out + first, *restrict const sines = cosines + pairs;
        for (int64_t i = 0; i < count; i++)
            radius[i] = minus_log((to_double(high[i]) + (to_double(low[i]) + 0.5) * tiny) * tiny);
        for (int64_t i = 0; i < count; i++) radius[i] = sqrt(2 * radius[i]);
        for (int64_t i = 0; i < count; i++) {
            const double bound = unit * (ERROR_OF_RADIUS * radius[i] + ERROR_OF_INVERSE / radius[i]);
            error[i] = radius[i] > SMALLEST_RADIUS && radius[i] < LARGEST_RADIUS ? bound : 1;
        }
        for (int64_t i = 0; i < count; i++) {
            double c, s;
            turn(angle[i], &c, &s);
            cosines[i] = radius[i] * c * std;
            sines[i] = radius[i] * s * std;
        }
        for (int64_t i = 0; i < count; i++) cosines[i] = decided(cosines[i] * per_grid, error[i], grid);
        for (int64_t i = 0; i < count; i++) sines[i] = decided(sines[i] * per_grid, error[i], grid);
        for (int64_t i = 0; i < count; i++) doubtful |= (cosines[i] != cosines[i]) | (sines[i] != sines[i]);
    }
    return doubtful;
}

/* ---- votes ----------------------------------------------------------------------------------------------------------------- */

/* counts [rows, classes]: messages that row v receives from its neighbours u with place[u] < place[v]; place < 0 never sends */
EXPORT void caribou_votes(int64_t rows, int64_t first, const int64_t *starts, const int32_t *columns, const int32_t *place,
                          const uint8_t *receives, const int32_t *message, int32_t classes, int64_t *counts) {
    for (int64_t i = 0; i < rows; i++) {
        if (!receives[first + i]) continue;
        for (int64_t e = starts[i]; e < starts[i + 1]; e++) {
            const int32_t u = columns[e];
            if (place[u] >= 0 && place[u] < place[first + i]) counts[i * classes + message[u]]++;
        }
    }
}
