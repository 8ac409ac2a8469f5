/* Reads every clock in every way there is.
 *
 *   reads            prints one snapshot for every line on standard input
 *   reads cpu MS     uses MS of CPU time, says what all CPU clocks make of it
 *   reads zone       gettimeofday()'s second argument
 *   reads closed     the snapshots, after it has closed itself to its user
 *
 * A snapshot is a list of key=value lines in nanoseconds, ended by `done`. Keys
 * say how the clock was read: vdso_N is clock number N through the C library
 * (and the vDSO), raw_N the same through a system call, res_N its resolution. */
#include "common.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>

#define CLOCKS 12
#define VSYSCALL_GETTIMEOFDAY 0xffffffffff600000UL
#define VSYSCALL_TIME 0xffffffffff600400UL

static void say_time(const char *key, int number, long result, struct timespec t)
{
	if (result == 0)
		say("%s_%d=%lld", key, number, (long long)t.tv_sec * NS_PER_S + t.tv_nsec);
	else
		say("%s_%d=%s", key, number, strerror(errno));
}

static long long timeval_ns(struct timeval t)
{
	return (long long)t.tv_sec * NS_PER_S + t.tv_usec * 1000L;
}

static bool has_vsyscall_page(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	bool found = false;
	while (maps && fgets(line, sizeof line, maps))
		found = found || strstr(line, "[vsyscall]");
	if (maps)
		fclose(maps);
	return found;
}

static void say_vsyscall_page(void)
{
	if (!has_vsyscall_page())
		return;
	int (*page_gettimeofday)(struct timeval *, void *) =
		(int (*)(struct timeval *, void *))VSYSCALL_GETTIMEOFDAY;
	time_t (*page_time)(time_t *) = (time_t(*)(time_t *))VSYSCALL_TIME;
	struct timeval t = { 0, 0 };
	time_t seconds = 0;
	if (page_gettimeofday(&t, NULL) == 0)
		say("vsyscall_gettimeofday=%lld", timeval_ns(t));
	say("vsyscall_time=%lld", (long long)page_time(&seconds) * NS_PER_S);
	say("vsyscall_time_stored=%lld", (long long)seconds * NS_PER_S);
}

static void say_proc_uptime(void)
{
	FILE *file = fopen("/proc/uptime", "r");
	double uptime = -1;
	must(file && fscanf(file, "%lf", &uptime) == 1, "/proc/uptime");
	fclose(file);
	say("proc_uptime=%.0f", uptime * NS_PER_S);
}

/* Field 22 of /proc/self/stat: when this process started, since boot. */
static void say_start_time(void)
{
	FILE *file = fopen("/proc/self/stat", "r");
	char text[2048];
	must(file && fgets(text, sizeof text, file), "/proc/self/stat");
	fclose(file);
	unsigned long long ticks = 0;
	char *after_name = strrchr(text, ')');
	must(after_name && sscanf(after_name + 1,
				  " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
				  "%*d %*d %*d %llu",
				  &ticks) == 1,
	     "start time");
	say("start_time=%llu", ticks * (NS_PER_S / (unsigned long)sysconf(_SC_CLK_TCK)));
}

static void snapshot(void)
{
	struct timespec t;
	for (int clock = 0; clock < CLOCKS; clock++) {
		say_time("vdso", clock, clock_gettime(clock, &t), t);
		say_time("raw", clock, syscall(SYS_clock_gettime, clock, &t), t);
		say_time("res", clock, clock_getres(clock, &t), t);
	}
	struct timeval tv;
	must(gettimeofday(&tv, NULL) == 0, "gettimeofday");
	say("gettimeofday=%lld", timeval_ns(tv));
	must(syscall(SYS_gettimeofday, &tv, NULL) == 0, "SYS_gettimeofday");
	say("raw_gettimeofday=%lld", timeval_ns(tv));
	time_t stored = 0;
	say("time=%lld", (long long)time(&stored) * NS_PER_S);
	say("time_stored=%lld", (long long)stored * NS_PER_S);
	say("raw_time=%lld", (long long)syscall(SYS_time, &stored) * NS_PER_S);
	say("raw_time_stored=%lld", (long long)stored * NS_PER_S);
	say_vsyscall_page();
	say("times=%lld", (long long)times(&(struct tms){ 0 }) * (NS_PER_S / sysconf(_SC_CLK_TCK)));
	struct sysinfo info;
	must(sysinfo(&info) == 0, "sysinfo");
	say("sysinfo_uptime=%lld", (long long)info.uptime * NS_PER_S);
	say_proc_uptime();
	say_start_time();
	say("done");
}

static void snapshots(void)
{
	for (int byte; (byte = getchar()) != EOF;)
		if (byte == '\n')
			snapshot();
}

static double timeval_ms(struct timeval t)
{
	return (double)t.tv_sec * MS_PER_S + (double)t.tv_usec / US_PER_MS;
}

static void use_cpu(long ms)
{
	clockid_t process_clock, thread_clock;
	must(clock_getcpuclockid(0, &process_clock) == 0, "clock_getcpuclockid");
	must(pthread_getcpuclockid(pthread_self(), &thread_clock) == 0, "pthread_getcpuclockid");
	clockid_t clocks[] = { CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, process_clock,
			       thread_clock };
	const char *names[] = { "process_ms", "thread_ms", "process_by_id_ms", "thread_by_id_ms" };
	enum { COUNT = sizeof clocks / sizeof *clocks };
	struct timespec before[COUNT];

	say("begin");
	struct timespec monotonic = now(CLOCK_MONOTONIC);
	for (int i = 0; i < COUNT; i++)
		before[i] = now(clocks[i]);
	while (ms_between(before[0], now(CLOCK_PROCESS_CPUTIME_ID)) < (double)ms)
		;
	double monotonic_ms = ms_between(monotonic, now(CLOCK_MONOTONIC));
	for (int i = 0; i < COUNT; i++)
		before[i] = from_ms((long)ms_between(before[i], now(clocks[i])));
	say("end");
	for (int i = 0; i < COUNT; i++)
		say("%s=%.6f", names[i], to_ms(before[i]));
	say("mono_ms=%.6f", monotonic_ms);
	struct rusage usage;
	must(getrusage(RUSAGE_SELF, &usage) == 0, "getrusage");
	say("rusage_ms=%.6f", timeval_ms(usage.ru_utime) + timeval_ms(usage.ru_stime));
	struct tms ticks;
	times(&ticks);
	say("times_ms=%.6f",
	    (double)(ticks.tms_utime + ticks.tms_stime) * MS_PER_S / (double)sysconf(_SC_CLK_TCK));
	say("clock_ms=%.6f", (double)clock() * MS_PER_S / CLOCKS_PER_SEC);
}

static void time_zone(void)
{
	struct {
		int minutes_west, dst;
	} zone = { 77, 77 };
	struct timeval tv = { 0, 0 };
	say("vdso=%d", gettimeofday(&tv, (void *)&zone));
	say("vdso_zone=%d,%d", zone.minutes_west, zone.dst);
	zone.minutes_west = zone.dst = 77;
	say("raw=%ld", syscall(SYS_gettimeofday, &tv, &zone));
	say("raw_zone=%d,%d", zone.minutes_west, zone.dst);
	say("raw_zone_only=%ld", syscall(SYS_gettimeofday, NULL, &zone));
}

int main(int argc, char **argv)
{
	if (argc == 1)
		snapshots();
	else if (argc == 3 && strcmp(argv[1], "cpu") == 0)
		use_cpu(strtol(argv[2], NULL, 10));
	else if (argc == 2 && strcmp(argv[1], "zone") == 0)
		time_zone();
	else if (argc == 2 && strcmp(argv[1], "closed") == 0) {
		close_to_user();
		snapshots();
	} else
		return 92;
	return 0;
}
