/* A clock that can be set: the time of day of every process that loads this is off by as many seconds as the file
   $DRILL_CLOCK says. The monotonic clock and all sleeping are left alone, as the kernel leaves them when somebody sets
   the time. (libfaketime 0.9.10 cannot do that: with it, clock_nanosleep of the monotonic clock always fails.)
   No header is needed, so any C compiler will do, without a C library's development files. */

struct timespec { long tv_sec, tv_nsec; };
struct timeval { long tv_sec, tv_usec; };

extern int open(const char *, int, ...);
extern long read(int, void *, unsigned long);
extern int close(int);
extern char *getenv(const char *);
extern void *dlsym(void *, const char *);

#define NEXT ((void *)-1L)
#define REALTIME 0
#define REALTIME_COARSE 5

static long offset(void)
{
    char text[32] = {0};
    const char *path = getenv("DRILL_CLOCK");
    int file = path ? open(path, 0) : -1;
    if (file < 0)
        return 0;
    read(file, text, sizeof text - 1);
    close(file);
    long value = 0;
    for (char *c = text + 1; *c >= '0' && *c <= '9'; c++)
        value = value * 10 + (*c - '0');
    return *text == '-' ? -value : value;
}

int clock_gettime(int clock, struct timespec *now)
{
    static int (*real)(int, struct timespec *);
    if (!real)
        real = (int (*)(int, struct timespec *))dlsym(NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && (clock == REALTIME || clock == REALTIME_COARSE))
        now->tv_sec += offset();
    return failed;
}

int gettimeofday(struct timeval *now, void *zone)
{
    struct timespec exact;
    (void)zone;
    int failed = clock_gettime(REALTIME, &exact);
    if (!failed && now) {
        now->tv_sec = exact.tv_sec;
        now->tv_usec = exact.tv_nsec / 1000;
    }
    return failed;
}

long time(long *now)
{
    struct timespec exact = {0, 0};
    clock_gettime(REALTIME, &exact);
    if (now)
        *now = exact.tv_sec;
    return exact.tv_sec;
}
