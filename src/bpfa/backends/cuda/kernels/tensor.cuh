// Products of matrices in single precision on tensor cores: a number is split into two that they take (tf32, 11 bits
// each), and of the four products all but that of the two small ones are made.
#pragma once

// A number rounded to what tensor cores take, and what that leaves, of which they take as much.
struct Split {
  float high, low;
  __device__ explicit Split(float x)
      : high(__uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u)), low(x - high) {}
};

__device__ inline void multiply_add(float (&to)[4], const float (&a)[4], float b0, float b1) {
  const auto bits = [](float x) { return __float_as_uint(x); };
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(to[0]), "+f"(to[1]), "+f"(to[2]), "+f"(to[3])
      : "r"(bits(a[0])), "r"(bits(a[1])), "r"(bits(a[2])), "r"(bits(a[3])), "r"(bits(b0)), "r"(bits(b1)));
}
