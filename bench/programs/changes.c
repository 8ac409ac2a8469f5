/* Measures how long a change takes to reach the last member of a named timeline, in ticks.
 *
 *   changes EIGENTIME NAME MEMBERS waits|reads CHANGES [CGROUP]
 *
 * It lets MEMBERS processes join the timeline, one `eigentime run` each.  It then
 * leaps CHANGES times by the command and CHANGES times by the request that the
 * command makes, in turn, and prints one line per change, with the ticks until the
 * last member noticed it:
 *                                command <tab> ticks   (since before posix_spawn)
 *                                request <tab> ticks   (since before connect)
 *
 * A member waits for an instant that the leap skips, or reads the clock until then.
 * It stores the counter in shared memory and then blocks, in a call that no timeline
 * affects, until all members have noticed: only the change is timed, not what members
 * do after it.
 *
 * With CGROUP, a directory of cgroup v2, there is one more member, which is moved there
 * and frozen before the first change; nobody waits until it notices one.  */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ticks.h"

extern char **environ;

enum { WAIT_S = 86400, LEAP_S = 2 * WAIT_S };
enum { WARM_UP = 20, MOST_MEMBERS = 1001, POLL_US = 500, SETTLE_US = 20000, PATIENCE_US = 30000000 };

/* A member's report: the turn it is ready for, the turn it has seen, and when. */
struct slot {
	_Alignas(64) _Atomic uint32_t ready;
	_Atomic uint32_t seen;
	uint64_t ticks;
};

static struct slot *slots;
static pid_t members[MOST_MEMBERS];
static size_t started;
/* The first so many of them have to notice a change. */
static size_t awaited;

static void end_members(void)
{
	for (size_t i = 0; i < started; i++)
		kill(members[i], SIGKILL);
	for (size_t i = 0; i < started; i++)
		waitpid(members[i], NULL, 0);
}

static void fail(const char *what)
{
	fprintf(stderr, "changes: %s\n", what);
	exit(1);
}

static void map_slots(int memory)
{
	size_t size = MOST_MEMBERS * sizeof *slots;
	slots = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	if (slots == MAP_FAILED)
		fail("no shared memory");
}

/* A member ---------------------------------------------------------------- */

static struct timespec now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t;
}

/* Absolute, so that it does not matter whether the leap or the call comes first. */
static void until_changed(int waits, struct timespec end)
{
	if (waits) {
		if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) != 0)
			fail("a member's wait failed");
	} else {
		while (now().tv_sec < end.tv_sec)
			;
	}
}

/* The first waits from a site cost more than later ones. */
static void warm_up(void)
{
	struct timespec end = now();
	for (int i = 0; i < WARM_UP; i++)
		until_changed(1, end);
}

static int be_member(char **argument)
{
	int gate = atoi(argument[1]);
	char byte;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	map_slots(atoi(argument[0]));
	struct slot *slot = &slots[atoi(argument[2])];
	int waits = strcmp(argument[3], "waits") == 0;
	warm_up();
	for (uint32_t turn = 1;; turn++) {
		struct timespec end = now();
		end.tv_sec += WAIT_S;
		slot->ready = turn;
		until_changed(waits, end);
		slot->ticks = ticks_now();
		slot->seen = turn;
		if (read(gate, &byte, 1) != 1)
			return 0;
	}
}

/* The parent -------------------------------------------------------------- */

static pid_t spawn(char **command, int silent)
{
	pid_t child;
	posix_spawn_file_actions_t actions;
	posix_spawn_file_actions_init(&actions);
	if (silent)
		posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	int error = posix_spawn(&child, command[0], &actions, NULL, command, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (error)
		fail("a command cannot be started");
	return child;
}

static void start_members(char *eigentime, char *name, char *how, size_t count, int memory,
			  int gate)
{
	char memory_text[16], gate_text[16], index_text[24], self[4096];
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
	if (length < 0)
		fail("no /proc");
	self[length] = 0;
	snprintf(memory_text, sizeof memory_text, "%d", memory);
	snprintf(gate_text, sizeof gate_text, "%d", gate);
	for (; started < count; started++) {
		snprintf(index_text, sizeof index_text, "%zu", started);
		char *command[] = {eigentime, "run",     "--timeline", name,       "--", self,
				   "member",  memory_text, gate_text,  index_text, how,  NULL};
		members[started] = spawn(command, 0);
	}
}

static int is_asleep(pid_t process)
{
	char path[32], line[256] = "";
	snprintf(path, sizeof path, "/proc/%d/stat", process);
	FILE *file = fopen(path, "r");
	if (!file)
		return 0;
	char *end = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
	fclose(file);
	return end && end[1] == ' ' && end[2] == 'S';
}

static int is_ready(size_t i, uint32_t turn, int waits)
{
	return slots[i].ready == turn && (!waits || is_asleep(members[i]));
}

static int has_seen(size_t i, uint32_t turn, int unused)
{
	(void)unused;
	return slots[i].seen == turn;
}

/* Checks one member after the other; it never checks one again that is done. */
static void wait_for_all(int (*is_done)(size_t, uint32_t, int), uint32_t turn, int waits,
			 const char *otherwise)
{
	int left = PATIENCE_US / POLL_US;
	for (size_t i = 0; i < awaited;) {
		if (is_done(i, turn, waits)) {
			i++;
		} else {
			if (!left--)
				fail(otherwise);
			usleep(POLL_US);
		}
	}
}

static int open_in(const char *folder, const char *name, int flags)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	int file = open(path, flags | O_CLOEXEC);
	if (file < 0)
		fail("the control group cannot be opened");
	return file;
}

static void write_in(const char *folder, const char *name, const char *text)
{
	int file = open_in(folder, name, O_WRONLY);
	if (write(file, text, strlen(text)) < 0)
		fail("the control group does not do as it is told");
	close(file);
}

static int is_frozen(const char *folder)
{
	char events[256];
	int file = open_in(folder, "cgroup.events", O_RDONLY);
	ssize_t length = read(file, events, sizeof events - 1);
	close(file);
	events[length > 0 ? length : 0] = 0;
	return strstr(events, "frozen 1") != NULL;
}

/* Nobody waits for the last member from then on. */
static void freeze_last(const char *folder)
{
	char text[16];
	snprintf(text, sizeof text, "%d", members[--awaited]);
	write_in(folder, "cgroup.procs", text);
	write_in(folder, "cgroup.freeze", "1");
	for (int left = PATIENCE_US / POLL_US; !is_frozen(folder); usleep(POLL_US))
		if (!left--)
			fail("the control group does not freeze");
}

static void leap_by_command(char *eigentime, char *name)
{
	char span[16];
	int status;
	snprintf(span, sizeof span, "+%d", LEAP_S);
	char *command[] = {eigentime, "ctl", "leap", name, span, NULL};
	pid_t child = spawn(command, 1);
	if (waitpid(child, &status, 0) != child || status != 0)
		fail("`eigentime ctl leap` failed");
}

static void leap_by_request(char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char text[128], answer[4096];
	ssize_t length, more;
	const char *folder = getenv("XDG_RUNTIME_DIR");
	snprintf(address.sun_path, sizeof address.sun_path, "%s/eigentime/%s", folder ? folder : "",
		 name);
	snprintf(text, sizeof text, "{\"method\":\"leap\",\"params\":{\"span\":\"+%ds\"}}\n", LEAP_S);
	int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(connection, (struct sockaddr *)&address, sizeof address) != 0)
		fail("the timeline's socket cannot be reached");
	length = (ssize_t)strlen(text);
	if (write(connection, text, (size_t)length) != length)
		fail("the timeline does not take a request");
	/* The answer is one line; the connection stays open for more requests. */
	for (length = 0; (size_t)length < sizeof answer - 1; length += more) {
		if (length && answer[length - 1] == '\n')
			break;
		if ((more = read(connection, answer + length, sizeof answer - 1 - (size_t)length)) <= 0)
			break;
	}
	close(connection);
	answer[length] = 0;
	if (!strstr(answer, "\"result\""))
		fail("the timeline refused the request");
}

static uint64_t last_ticks(void)
{
	uint64_t last = 0;
	for (size_t i = 0; i < awaited; i++)
		if (slots[i].ticks > last)
			last = slots[i].ticks;
	return last;
}

int main(int argc, char **argv)
{
	int gate[2];
	if (argc == 6 && strcmp(argv[1], "member") == 0)
		return be_member(argv + 2);
	int complete = argc == 6 || argc == 7;
	const char *group = argc == 7 ? argv[6] : NULL;
	awaited = complete ? strtoul(argv[3], NULL, 10) + (group != NULL) : 0;
	uint32_t changes = complete ? 2 * (uint32_t)strtoul(argv[5], NULL, 10) : 0;
	if (!awaited || awaited > MOST_MEMBERS || !changes) {
		fprintf(stderr,
			"usage: changes EIGENTIME NAME MEMBERS waits|reads CHANGES [CGROUP]\n");
		return 2;
	}
	int waits = strcmp(argv[4], "waits") == 0;
	/* Neither is closed on exec, because the members need both. */
	int memory = memfd_create("slots", 0);
	if (memory < 0 || ftruncate(memory, MOST_MEMBERS * (off_t)sizeof *slots) != 0
	    || pipe(gate) != 0 || fcntl(gate[1], F_SETFD, FD_CLOEXEC) != 0)
		fail("no shared memory");
	map_slots(memory);
	atexit(end_members);
	start_members(argv[1], argv[2], argv[4], awaited, memory, gate[0]);
	for (uint32_t turn = 1; turn <= changes; turn++) {
		wait_for_all(is_ready, turn, waits, "not all members wait");
		if (group && turn == 1)
			freeze_last(group);
		usleep(SETTLE_US);
		int by_command = turn % 2;
		uint64_t start = ticks_now();
		if (by_command)
			leap_by_command(argv[1], argv[2]);
		else
			leap_by_request(argv[2]);
		wait_for_all(has_seen, turn, waits, "not all members noticed a change");
		printf("%s\t%" PRIu64 "\n", by_command ? "command" : "request",
		       last_ticks() - start);
		fflush(stdout);
		for (size_t i = 0; i < awaited; i++)
			if (write(gate[1], "x", 1) != 1)
				fail("the members cannot be released");
	}
	return 0;
}
