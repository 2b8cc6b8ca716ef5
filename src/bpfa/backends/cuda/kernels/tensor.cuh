// Products of matrices in nearly single precision on tensor cores. Each number is split into a high and a low part that
// tensor cores accept (tf32, with 11 significant bits). Of the four products of parts, all but that of the two low
// parts are computed.
#pragma once

// A number rounded to 11 significant bits, and the remainder. Tensor cores use the first 11 significant bits of the
// remainder.
struct Split {
  float high, low;
  __device__ explicit Split(float x)
      : high(__uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u)), low(x - high) {}
};

// to += a b, where a warp holds a 16 x 8 matrix a, an 8 x 8 matrix b and a 16 x 8 matrix `to`. With i = lane / 4 and
// j = lane % 4, a lane has a[i][j], a[i + 8][j], a[i][j + 4], a[i + 8][j + 4]; b[j][i], b[j + 4][i]; and columns 2 j
// and 2 j + 1 of rows i and i + 8 of `to`.
__device__ inline void multiply_add(float (&to)[4], const float (&a)[4], float b0, float b1) {
  const auto bits = [](float x) { return __float_as_uint(x); };
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(to[0]), "+f"(to[1]), "+f"(to[2]), "+f"(to[3])
      : "r"(bits(a[0])), "r"(bits(a[1])), "r"(bits(a[2])), "r"(bits(a[3])), "r"(bits(b0)), "r"(bits(b1)));
}
