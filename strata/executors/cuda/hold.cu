// Keeps the card busy for `cycles` clock ticks, so that what is timed is queued before it starts.
extern "C" __global__ void hold(long long cycles) {
    const long long start = clock64();
    while (clock64() - start < cycles) {
    }
}
