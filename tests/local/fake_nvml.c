/* The driver's library of a machine with one GPU, as far as gofer asks it. */
#include <string.h>

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }

int nvmlDeviceGetCount_v2(unsigned int *count) {
    *count = 1;
    return 0;
}

int nvmlSystemGetDriverVersion(char *text, unsigned int length) {
    strncpy(text, "0.0-test", length);
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) {
    *device = 0;
    return index == 0 ? 0 : 2;
}

int nvmlDeviceGetName(void *device, char *text, unsigned int length) {
    strncpy(text, "Test GPU", length);
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory) {
    memory[0] = memory[1] = 1ull << 30;
    memory[2] = 0;
    return 0;
}

int nvmlDeviceGetUtilizationRates(void *device, unsigned int *used) {
    used[0] = used[1] = 0;
    return 0;
}
