// A header beside the source that includes it.
#pragma once

DEVICE float product(float a, float b) { return __fmul_rn(a, b); }
