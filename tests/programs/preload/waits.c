/* The functions that wait, as one table. */
#include "preload.h"

static struct timespec spec(long ns)
{
	return (struct timespec){ ns / NS_PER_S, ns % NS_PER_S };
}

static long of_spec(struct timespec t)
{
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static int call_nanosleep(long ns, long *left)
{
	struct timespec t = spec(ns), rem = { 0, 0 };
	int answer = nanosleep(&t, &rem);
	*left = of_spec(rem);
	return answer;
}

static int call_nanosleep_null(long ns, long *left)
{
	struct timespec t = spec(ns);
	*left = -1;
	return nanosleep(&t, NULL);
}

/* The time in static memory, the rest written over it. */
static int call_nanosleep_static(long ns, long *left)
{
	static struct timespec t;
	t = spec(ns);
	int answer = nanosleep(&t, &t);
	*left = answer == 0 ? 0 : of_spec(t);
	return answer;
}

static int positive(int error)
{
	errno = error;
	return error == 0 ? 0 : -1;
}

static int call_clock_nanosleep(long ns, long *left)
{
	struct timespec t = spec(ns), rem = { 0, 0 };
	int answer = positive(clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &rem));
	*left = of_spec(rem);
	return answer;
}

static int call_clock_nanosleep_wall(long ns, long *left)
{
	struct timespec t = spec(ns), rem = { 0, 0 };
	int answer = positive(clock_nanosleep(CLOCK_REALTIME, 0, &t, &rem));
	*left = of_spec(rem);
	return answer;
}

static int until(clockid_t clock, long ns)
{
	struct timespec t = now(clock);
	t = spec(of_spec(t) + ns);
	return positive(clock_nanosleep(clock, TIMER_ABSTIME, &t, &t));
}

static int call_until(long ns, long *left)
{
	*left = -1;
	return until(CLOCK_MONOTONIC, ns);
}

static int call_until_date(long ns, long *left)
{
	*left = -1;
	return until(CLOCK_REALTIME, ns);
}

static int call_usleep(long ns, long *left)
{
	*left = -1;
	return usleep((useconds_t)(ns / 1000));
}

static int call_thrd_sleep(long ns, long *left)
{
	struct timespec t = spec(ns), rem = { 0, 0 };
	int answer = thrd_sleep(&t, &rem);
	*left = of_spec(rem);
	if (answer == -1)
		errno = EINTR;
	return answer;
}

static int call_select(long ns, long *left)
{
	struct timeval t = { ns / NS_PER_S, ns % NS_PER_S / 1000 };
	int answer = select(0, NULL, NULL, NULL, &t);
	*left = t.tv_sec * NS_PER_S + t.tv_usec * 1000;
	return answer;
}

/* Many programs give a number and no sets. */
static int call_select_many(long ns, long *left)
{
	struct timeval t = { ns / NS_PER_S, ns % NS_PER_S / 1000 };
	int answer = select(64, NULL, NULL, NULL, &t);
	*left = t.tv_sec * NS_PER_S + t.tv_usec * 1000;
	return answer;
}

static int call_pselect(long ns, long *left)
{
	struct timespec t = spec(ns);
	int answer = pselect(0, NULL, NULL, NULL, &t, NULL);
	*left = of_spec(t) == ns ? -1 : 0;
	return answer;
}

static int call_pselect_mask(long ns, long *left)
{
	struct timespec t = spec(ns);
	sigset_t none;
	sigemptyset(&none);
	*left = -1;
	return pselect(0, NULL, NULL, NULL, &t, &none);
}

static int call_poll(long ns, long *left)
{
	*left = -1;
	return poll(NULL, 0, (int)(ns / NS_PER_MS));
}

static int call_ppoll(long ns, long *left)
{
	struct timespec t = spec(ns);
	int answer = ppoll(NULL, 0, &t, NULL);
	*left = of_spec(t) == ns ? -1 : 0;
	return answer;
}

/* A descriptor that never becomes ready. */
static int call_poll_pipe(long ns, long *left)
{
	static int ends[2];
	if (ends[1] == 0)
		must(pipe(ends) == 0, "pipe");
	struct pollfd quiet = { .fd = ends[0], .events = POLLIN };
	*left = -1;
	return poll(&quiet, 1, (int)(ns / NS_PER_MS));
}

const struct wait waits[] = {
	{ "nanosleep", call_nanosleep },
	{ "nanosleep_null", call_nanosleep_null },
	{ "nanosleep_static", call_nanosleep_static },
	{ "clock_nanosleep", call_clock_nanosleep },
	{ "clock_nanosleep_wall", call_clock_nanosleep_wall },
	{ "until", call_until },
	{ "until_date", call_until_date },
	{ "usleep", call_usleep },
	{ "thrd_sleep", call_thrd_sleep },
	{ "select", call_select },
	{ "select_many", call_select_many },
	{ "pselect", call_pselect },
	{ "pselect_mask", call_pselect_mask },
	{ "poll", call_poll },
	{ "ppoll", call_ppoll },
	{ "poll_pipe", call_poll_pipe },
};
const int wait_count = sizeof waits / sizeof *waits;

volatile sig_atomic_t alarms;

static void count(int signal)
{
	(void)signal;
	alarms++;
}

static void alarm_again(void (*handler)(int), long us, long again_s)
{
	/* With SA_RESTART: none of these calls is restarted after a handler. */
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
	struct itimerval timer = { { again_s, 0 }, { us / 1000000, us % 1000000 } };
	must(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
	must(setitimer(ITIMER_REAL, &timer, NULL) == 0, "setitimer");
}

/* One that comes before the wait has begun that it is to end comes again. */
void alarm_in_us(long us)
{
	alarm_again(count, us, 5);
}

void alarm_to(void (*handler)(int), long us)
{
	alarm_again(handler, us, 0);
}
