// Rows of activations as `linear` takes them: for every 128 values a unit of 160 bytes, with four FP32 scales d, four
// int32 sums of codes and 128 int8 codes, all of groups of 32. include/activation.cuh says what a code is.
#pragma once

#include "activation.cuh"

constexpr int kUnit = 128, kUnitGroups = kUnit / kActivationBlock;   // values, groups
constexpr int kUnitSums = 16, kUnitCodes = 32, kUnitSize = kUnitCodes + kUnit;   // bytes

// Bytes of a row of `width` values.
DEVICE i64 unit_row_bytes(int width) { return static_cast<i64>((width + kUnit - 1) / kUnit) * kUnitSize; }
// Where in a row group g has its scale; its sum is kUnitSums behind; where its codes are.
DEVICE int scale_place(int g) { return g / kUnitGroups * kUnitSize + g % kUnitGroups * 4; }
DEVICE int codes_place(int g) { return g / kUnitGroups * kUnitSize + kUnitCodes + g % kUnitGroups * kActivationBlock; }
