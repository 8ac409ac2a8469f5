/* What the functions answer to times and addresses of all kinds. */
#include "preload.h"

static void say_answer(const char *call, const char *what, long answer)
{
	say("%s %s=%ld %s", call, what, answer, answer == -1 ? strerrorname_np(errno) : "");
}

static const struct {
	const char *name;
	long seconds, parts;
} times[] = {
	{ "zero", 0, 0 },		{ "one part", 0, 1 },
	{ "short", 0, 700 },		{ "too many parts", 0, NS_PER_S },
	{ "negative parts", 0, -1 },	{ "negative seconds", -1, 0 },
	{ "both negative", -1, -1 },	{ "least", INT64_MIN, 0 },
	{ "least parts", 0, INT64_MIN }, { "most parts", 0, INT64_MAX },
};

/* Not a constant, so that the compiler does not see what is done with it. */
static void *volatile bad_address;

static void with_times(void)
{
	for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
		struct timespec t = { times[i].seconds, times[i].parts }, rem = { 77, 77 };
		const char *what = times[i].name;
		say_answer("nanosleep", what, nanosleep(&t, &rem));
		say_answer("clock_nanosleep", what, clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &rem));
		say_answer("wall", what, clock_nanosleep(CLOCK_REALTIME, 0, &t, &rem));
		say_answer("until", what,
			   clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, &rem));
		say_answer("date", what, clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, &rem));
		say_answer("boottime", what, clock_nanosleep(CLOCK_BOOTTIME, 0, &t, &rem));
		say_answer("thrd_sleep", what, thrd_sleep(&t, &rem));
		say_answer("pselect", what, pselect(0, NULL, NULL, NULL, &t, NULL));
		say_answer("ppoll", what, ppoll(NULL, 0, &t, NULL));
		/* Whoever sleeps for a time that he does not understand should not. */
		if (times[i].parts < 0 || times[i].parts > NS_PER_S) {
			say("rem=%ld %ld", rem.tv_sec, rem.tv_nsec);
			continue;
		}
		struct timeval v = { times[i].seconds, times[i].parts };
		if (times[i].parts < NS_PER_S)
			say_answer("select", what, select(0, NULL, NULL, NULL, &v));
		say("rem=%ld %ld left=%ld %ld", rem.tv_sec, rem.tv_nsec, v.tv_sec, (long)v.tv_usec);
	}
}

static void with_clocks(void)
{
	const clockid_t clocks[] = { CLOCK_REALTIME,	       CLOCK_MONOTONIC,
				     CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID,
				     CLOCK_MONOTONIC_RAW,      CLOCK_REALTIME_COARSE,
				     CLOCK_MONOTONIC_COARSE,   CLOCK_BOOTTIME,
				     CLOCK_TAI,		       99,
				     -1,		       -1000 };
	struct timespec t = { 0, 1000 };
	for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
		char what[16];
		snprintf(what, sizeof what, "%d", clocks[i]);
		struct timespec shown = { -5, -5 };
		say_answer("clock_gettime", what, clock_gettime(clocks[i], &shown));
		say("valid=%d", shown.tv_nsec >= 0 && shown.tv_nsec < NS_PER_S);
		if (clocks[i] == CLOCK_PROCESS_CPUTIME_ID)
			continue;
		say_answer("clock_nanosleep", what, clock_nanosleep(clocks[i], 0, &t, NULL));
		say_answer("flags", what, clock_nanosleep(clocks[i], 8, &t, NULL));
	}
	struct timespec shown;
	say_answer("timespec_get", "utc", timespec_get(&shown, TIME_UTC));
	say_answer("timespec_get", "other", timespec_get(&shown, 0));
}

static void with_addresses(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *border = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *sealed = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(border != MAP_FAILED && sealed != MAP_FAILED, "mmap");
	must(munmap(border + page, page) == 0, "munmap");
	void *bad[] = { NULL,	       (void *)1,      sealed, border + page - 8,
			(void *)-4096, (void *)-8L,    (void *)0x8000000000000000 };
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		char what[16];
		snprintf(what, sizeof what, "bad %zu", i);
		bad_address = bad[i];
		say_answer("nanosleep", what, nanosleep(bad_address, NULL));
		say_answer("clock_nanosleep", what,
			   clock_nanosleep(CLOCK_MONOTONIC, 0, bad_address, NULL));
		say_answer("until", what,
			   clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, bad_address, NULL));
		/* What is left is written only after a signal. */
		struct timespec t = { 0, 1000 };
		say_answer("rem", what, nanosleep(&t, bad_address));
		struct timespec second = { 1, 0 };
		alarm_in_us(1000);
		say_answer("rem after a signal", what, nanosleep(&second, bad_address));
	}
	static const struct timespec constant = { 0, 1000 };
	say_answer("nanosleep", "read only", nanosleep(&constant, NULL));
	/* The next is misaligned. */
	char room[sizeof(struct timespec) + 1];
	memcpy(room + 1, &constant, sizeof constant);
	bad_address = room + 1;
	say_answer("nanosleep", "misaligned", nanosleep(bad_address, bad_address));
	say_answer("clock_gettime", "misaligned", clock_gettime(CLOCK_MONOTONIC, bad_address));
}

static void with_descriptors(void)
{
	int ends[2];
	must(pipe(ends) == 0 && write(ends[1], "x", 1) == 1, "pipe");
	struct pollfd ready = { .fd = ends[0], .events = POLLIN };
	say_answer("poll", "ready", poll(&ready, 1, 1000));
	say_answer("poll", "zero", poll(NULL, 0, 0));
	bad_address = (void *)1;
	say_answer("poll", "bad", poll(bad_address, 1, 0));
	bad_address = NULL;
	say_answer("poll", "too many", poll(bad_address, 1UL << 40, 0));
	struct timeval soon = { 0, 1000 };
	fd_set set;
	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	say_answer("select", "ready", select(ends[0] + 1, &set, NULL, NULL, &soon));
	FD_SET(ends[0], &set);
	say_answer("select", "none of the set", select(0, &set, NULL, NULL, &soon));
	say("still set=%d", FD_ISSET(ends[0], &set) != 0);
	say_answer("select", "negative", select(-1, NULL, NULL, NULL, &soon));
	sigset_t mask;
	sigemptyset(&mask);
	struct timespec t = { 0, 1000 };
	say_answer("ppoll", "mask", ppoll(NULL, 0, &t, &mask));
	say_answer("pselect", "mask", pselect(0, NULL, NULL, NULL, &t, &mask));
}

void answers(void)
{
	errno = 0;
	/* The first waits of a program and the later ones. */
	for (int round = 0; round < 3; round++) {
		with_times();
		with_clocks();
		with_addresses();
		with_descriptors();
	}
	errno = 5;
	usleep(100);
	time_t stored, returned = time(&stored);
	say("errno=%d time=%d", errno, stored == returned);
	struct timeval tv;
	struct timezone zone;
	bad_address = NULL;
	say("gettimeofday=%d %d %d", gettimeofday(&tv, NULL), gettimeofday(&tv, &zone),
	    gettimeofday(bad_address, NULL));
}
