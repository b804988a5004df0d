/* The driver's library of a machine with one GPU, as far as gofer asks it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The file $FAKE_NVML_USE holds the MiB and the percent in use; without it nothing is. */
static void read_use(unsigned int *mib, unsigned int *percent) {
    const char *path = getenv("FAKE_NVML_USE");
    FILE *file = path ? fopen(path, "r") : 0;
    *mib = *percent = 0;
    if (file) {
        if (fscanf(file, "%u %u", mib, percent) != 2) *mib = *percent = 0;
        fclose(file);
    }
}

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
    unsigned int mib, percent;
    read_use(&mib, &percent);
    memory[0] = 1ull << 30;
    memory[2] = (unsigned long long)mib << 20;
    memory[1] = memory[0] - memory[2];
    return 0;
}

int nvmlDeviceGetUtilizationRates(void *device, unsigned int *used) {
    unsigned int mib;
    read_use(&mib, &used[0]);
    used[1] = 0;
    return 0;
}
