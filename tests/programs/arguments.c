/* Starts itself with ever larger argument lists until the kernel accepts no larger one.
 *
 *     arguments KIND    prints `largest=N`, in units of the kind
 *
 * Each started program checks that it has all of the lists, and its parent's clock. */
#include "common.h"

#include <limits.h>
#include <sys/wait.h>

extern char **environ;

/* The longest string that execve accepts (the kernel's MAX_ARG_STRLEN), including its terminator. */
#define LONGEST_STRING (128L * 1024)

/* More units than any kind has room for: 6 MiB of single bytes. */
#define TOO_MANY (6L * 1024 * 1024)

/* The variable that tells a program that it was started for a check. */
#define EXPECTED "EXPECTED"

struct lists {
	char **arguments, **environment;
};

static char **vector(long length)
{
	char **strings = calloc(length + 1, sizeof *strings);
	must(strings != NULL, "calloc");
	return strings;
}

static char **repeated(long times, char *string)
{
	char **strings = vector(times);
	for (long i = 0; i < times; i++)
		strings[i] = string;
	return strings;
}

/* This many bytes, terminators included, in as few strings as possible. */
static char **filled(long bytes)
{
	long count = (bytes + LONGEST_STRING - 1) / LONGEST_STRING;
	char **strings = vector(count);
	for (long i = 0; i < count; i++, bytes -= LONGEST_STRING) {
		long length = (bytes < LONGEST_STRING ? bytes : LONGEST_STRING) - 1;
		strings[i] = malloc(length + 1);
		must(strings[i] != NULL, "malloc");
		memset(strings[i], 'x', length);
		strings[i][length] = 0;
	}
	return strings;
}

static struct lists empty_arguments(long count)
{
	return (struct lists){ repeated(count, ""), vector(0) };
}

static struct lists short_arguments(long count)
{
	return (struct lists){ repeated(count, "seventeen letters"), vector(0) };
}

static struct lists long_arguments(long bytes)
{
	return (struct lists){ filled(bytes), vector(0) };
}

static struct lists short_variables(long count)
{
	return (struct lists){ repeated(1, "arguments"), repeated(count, "NAME=value") };
}

static struct lists long_variables(long bytes)
{
	return (struct lists){ vector(0), filled(bytes) };
}

static struct lists both(long count)
{
	return (struct lists){ repeated(count, "argument"), repeated(count, "NAME=value") };
}

static const struct {
	const char *name;
	struct lists (*make)(long units);
} KINDS[] = {
	{ "empty_arguments", empty_arguments }, { "short_arguments", short_arguments },
	{ "long_arguments", long_arguments },	{ "short_variables", short_variables },
	{ "long_variables", long_variables },	{ "both", both },
};

static long length_of(char **strings)
{
	long length = 0;
	while (strings[length])
		length++;
	return length;
}

static unsigned long sum_of(char **strings)
{
	unsigned long sum = 0;
	for (; *strings; strings++)
		sum = sum * 31 + strlen(*strings) + 1;
	return sum;
}

/* What a program with these lists finds, without the last variable. If there is no argument
 * at all, the kernel gives it an empty one. */
static void describe(char *text, size_t size, char **arguments, char **environment)
{
	char *none[] = { "", NULL };
	char **found = *arguments ? arguments : none;
	snprintf(text, size, "%ld %lx %ld %lx", length_of(found), sum_of(found),
		 length_of(environment), sum_of(environment));
}

static int check(const char *expected, char **arguments)
{
	char **last = environ + length_of(environ) - 1;
	*last = NULL;
	char found[128];
	describe(found, sizeof found, arguments, environ);
	char *lists;
	long begun = strtol(expected, &lists, 10);
	if (strcmp(lists + 1, found) != 0)
		return 1;
	long passed = now(CLOCK_REALTIME).tv_sec - begun;
	return passed < 0 || passed > 3600;
}

static void free_lists(struct lists lists, bool strings)
{
	for (int i = 0; i < 2; i++) {
		char **list = i ? lists.environment : lists.arguments;
		for (char **string = list; strings && *string; string++)
			free(*string);
		free(list);
	}
}

/* Starts a program with this many units, and returns whether the kernel accepts that. */
static bool accepts(struct lists (*make)(long), long units)
{
	struct lists lists = make(units);
	long last = length_of(lists.environment);
	char **environment = realloc(lists.environment, (last + 2) * sizeof *environment);
	must(environment != NULL, "realloc");
	lists.environment = environment;
	char text[160], found[128];
	describe(found, sizeof found, lists.arguments, environment);
	/* The same length, whatever it contains. */
	int length = snprintf(text, sizeof text, EXPECTED "=%020ld %s",
			      (long)now(CLOCK_REALTIME).tv_sec, found);
	memset(text + length, 0, sizeof text - length);
	environment[last] = text;
	environment[last + 1] = NULL;
	fflush(stdout);
	pid_t child = fork();
	must(child >= 0, "fork");
	if (child == 0) {
		execve("/proc/self/exe", lists.arguments, environment);
		_exit(errno == E2BIG ? 100 : 101);
	}
	int status;
	must(waitpid(child, &status, 0) == child, "waitpid");
	environment[last] = NULL;
	free_lists(lists, make == long_arguments || make == long_variables);
	if (status != 0 && status != 100 << 8) {
		say("units=%ld", units);
		say("status=%x", status);
		die("a program was not started as it should be");
	}
	return status == 0;
}

int main(int argc, char **argv)
{
	const char *expected = getenv(EXPECTED);
	if (expected)
		return check(expected, argv);
	must(argc == 2, "a kind");
	for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
		if (strcmp(KINDS[i].name, argv[1]) != 0)
			continue;
		long least = 0, most = TOO_MANY;
		while (most - least > 1) {
			long middle = (least + most) / 2;
			*(accepts(KINDS[i].make, middle) ? &least : &most) = middle;
		}
		say("largest=%ld", least);
		say("now=%ld", (long)now(CLOCK_REALTIME).tv_sec);
		return 0;
	}
	die("no such kind");
}
